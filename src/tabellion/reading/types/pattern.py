r"""Patterns of fields: RE2 regular expressions, whose time is linear in the text even for hostile patterns.

RE2's `\d`, `\w` and `\s` are ASCII; here they match the digits, letters and spaces of every language, as in Python.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 300  # characters of a pattern
LONGEST_VALUE = 300  # characters of a value; a longer one matches no pattern
LONGEST_LINE = 2000  # characters of a line in which values are searched

#: Escapes that differ in RE2, and sets in square brackets, within which their translation needs no brackets.
ESCAPE = r"\\u(?P<code>[0-9A-Fa-f]{4})|\\.|\{,"
PART = re.compile(rf"(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|{ESCAPE}", re.DOTALL)
WITHIN = {r"\d": r"\p{Nd}", r"\D": r"\P{Nd}", r"\w": r"\p{L}\p{N}_", r"\s": r"\t-\r\x1c-\x20\x{85}\p{Z}"}
OUTSIDE = {
    **{escape: f"[{letters}]" for escape, letters in WITHIN.items()},
    r"\W": "[^" + WITHIN[r"\w"] + "]",
    r"\S": "[^" + WITHIN[r"\s"] + "]",
    r"\Z": r"\z",
    "{,": "{0,",
}


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text matches the pattern."""
    try:
        return len(text) <= LONGEST_VALUE and _compile(pattern).fullmatch(text) is not None
    except UnicodeEncodeError:  # half of a surrogate pair is not a character
        return False


def find(pattern: str, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each part of a line that matches the pattern and is not within a longer word."""
    line = text[:LONGEST_LINE].encode("utf-8", "replace").decode()
    expression, position = _compile(rf"(?:\A|[^\w-])({pattern})(?:\Z|[^\w-])", capture=True), 0
    while match := expression.search(line, position):
        start, end = match.span(1)
        if start < end:
            yield start, end
        # The sign after a value may be the one before the next.
        position = max(end, position + 1)


def fault(pattern: str) -> str | None:
    """Why this pattern cannot be used, or None."""
    import re2

    if len(pattern) > LONGEST:
        return f"a pattern may have at most {LONGEST} characters; this one has {len(pattern):,}"
    if re.search(r"\(\?[a-zA-OQ-Z-]", pattern):
        return "flags such as (?i) are not supported; write [Aa]"
    try:
        _compile(pattern)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        return f"not a valid RE2 regular expression (RE2 has no look-around or back-references): {why}"
    except ValueError as error:
        return f"not a valid RE2 regular expression: {error}"
    return None


@functools.lru_cache(maxsize=256)
def _compile(pattern: str, *, capture: bool = False) -> Any:
    import re2

    options = re2.Options()
    options.log_errors, options.never_capture = False, not capture
    return re2.compile(_translate(pattern), options)


def _translate(pattern: str) -> str:
    """The pattern in RE2's syntax; ValueError where RE2 has no equivalent."""
    return PART.sub(lambda part: re.sub(ESCAPE, _within, part[0]) if part["set"] else _word(part, OUTSIDE), pattern)


def _within(part: re.Match[str]) -> str:
    if part[0] in (r"\W", r"\S"):
        raise ValueError(
            rf"{part[0]} is not supported within square brackets; write \p{{L}} for letters, or (?:…|{part[0]})"
        )
    return _word(part, WITHIN)


def _word(part: re.Match[str], words: Mapping[str, str]) -> str:
    return rf"\x{{{part['code']}}}" if part["code"] else words.get(part[0], part[0])
