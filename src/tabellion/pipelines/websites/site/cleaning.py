"""Cleans texts of pages: what databases cannot store is removed, white space is collapsed, lengths are limited."""

from __future__ import annotations

import re
from typing import Any

DEEPEST = 12  #: levels of JSON that are kept
#: Control characters except tab and line feed, and halves of surrogate pairs: PostgreSQL and UTF-8 reject some of them.
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_SPACE = re.compile(r"\s+")


def clean_text(value: Any, limit: int) -> str:
    """A text as it can be stored, with its line breaks; empty for anything that is not a text."""
    return _UNSTORABLE.sub("", value[: limit + 1000])[:limit].strip() if isinstance(value, str) else ""


def clean_line(value: Any, limit: int) -> str:
    """A text in one line."""
    return _SPACE.sub(" ", clean_text(value, limit * 4)).strip()[:limit].rstrip() if isinstance(value, str) else ""


def clean_json(value: Any, limit: int, depth: int = 0) -> Any:
    """A JSON value whose texts can be stored; what is nested too deeply becomes None."""
    if isinstance(value, str):
        return clean_text(value, limit)
    if isinstance(value, bool | int | None):
        # SQL has no numbers of this size, and neither have web pages.
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:40]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if depth >= DEEPEST:
        return None
    if isinstance(value, list):
        return [clean_json(item, limit, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_line(name, 200): clean_json(item, limit, depth + 1) for name, item in value.items()}
    return None
