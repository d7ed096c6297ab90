"""The fingerprint of an error: equal for errors that differ only in rows, files, numbers or times."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tabellion.messages import load_form

if TYPE_CHECKING:
    from tabellion.engine.last_attempts import AttemptRow

LONGEST = 400  #: characters of an error that count: what follows is often a stack trace or a response
DIGITS = 16  #: of a fingerprint
KNOWN = 4096  #: texts whose fingerprints are cached

#: These numbers distinguish errors, so they stay: an HTTP status, a signal, an exit code.
_KEPT = re.compile(
    r"\b(http(?:/\d(?:\.\d)?)?|status(?:[ _]code)?|code|answered|error|response|returned)(\W{1,3})([1-5]\d\d)\b"
    r"|\b(signal|errno|exit (?:code|status))(\W{1,3})(\d{1,3})\b",
    re.IGNORECASE,
)
#: Replacement characters for the digits that stay, so that no later step treats them as a number.
_HIDDEN = str.maketrans({str(digit): chr(0xE000 + digit) for digit in range(10)})
_SHOWN = str.maketrans({chr(0xE000 + digit): str(digit) for digit in range(10)})
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)\]]+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"), "<email>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<n>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<time>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\b\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?\b"), "<time>"),
    # An apostrophe inside a word does not start a quotation: "can't", "l'erreur".
    (re.compile(r"\"[^\"]*\"|(?<!\w)'(?:[^']|'(?=\w))*'(?!\w)|«[^»]*»|“[^”]*”|‘[^’]*’|`[^`]*`"), "<value>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:)?(?:[\\/][\w.@+~-]+){2,}[\\/]?|(?<![\w<])~?/[\w.@+~-]+\.\w+"), "<path>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<n>"),
    # Ids of rows or requests: letters and digits mixed, ten or more, or hexadecimal digits, six or more.
    # They get the same placeholder as numbers, because some ids have no letter.
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b", re.IGNORECASE), "<n>"),
    (re.compile(r"\b(?=[a-z_-]*\d)(?=[\d_-]*[a-z])[a-z0-9][a-z0-9_-]{9,}\b", re.IGNORECASE), "<n>"),
    (re.compile(r"(?<![\w<])[-+]?\d+(?:[.,\u00a0\u202f' ]\d{3})*(?:[.,]\d+)?(?:e[-+]?\d+)?", re.IGNORECASE), "<n>"),
    (re.compile(r"(?<=[A-Za-z_])\d+"), "<n>"),
    (re.compile(r"<n>(?:\s*[,;/x×]\s*<n>)+"), "<n>"),
    (re.compile(r"\s+"), " "),
)  # fmt: skip


def message(error: str | None) -> str:
    """The text of an error; errors that are JSON have a code and a message."""
    text = (error or "").strip()
    if text.startswith("{"):
        try:
            parsed = json.loads(text)
        except ValueError:
            return text
        if isinstance(parsed, dict) and isinstance(parsed.get("message"), str):
            code = parsed.get("code")
            return f"{code}: {parsed['message']}" if isinstance(code, str) and code else str(parsed["message"])
    return text


def form(error: str | None, code: str | None = None, params: str | None = None) -> dict[str, Any]:
    """The form of an error for translation: from the error itself if it is JSON, else from its code."""
    parsed: Any = None
    with contextlib.suppress(ValueError):
        if error is not None and error.startswith("{"):
            parsed = json.loads(error)
        elif code is not None:
            return {"code": code, "params": json.loads(params or "{}")}
    if not isinstance(parsed, dict) or not isinstance(parsed.get("translatable"), dict):
        return {}
    inner = parsed["translatable"].get("message")
    return {"code": "error.with_code", "params": {"code": parsed.get("code"), "detail": inner}} if inner else {}


def attempt_forms(attempt: AttemptRow) -> dict[str, Any]:
    """The forms of an attempt's `error` and of the `note` of its worker; a text without a form is left out."""
    # A note that is written when the job ends has no form: the stored one may be that of the note before.
    note_form = load_form(attempt["note_form"]) if attempt["settled_at"] is None else None
    forms = {"error": form(attempt["error"], attempt["error_code"], attempt["error_params"]), "note": note_form}
    return {name: known for name, known in forms.items() if known}


@lru_cache(KNOWN)
def shape(error: str | None) -> str:
    """The error with everything that differs between rows replaced by placeholders: `page <n> of <path>`."""
    text = _KEPT.sub(_hide_number, message(error)[:LONGEST])
    for pattern, word in _STEPS:
        text = pattern.sub(word, text)
    return text.translate(_SHOWN).strip()


def fingerprint(error: str | None) -> str:
    """A short hash of the error's shape, for URLs."""
    return hashlib.sha256(shape(error).encode("utf-8", "replace")).hexdigest()[:DIGITS]


def _hide_number(match: re.Match[str]) -> str:
    *_, word, gap, number = [group for group in match.groups() if group is not None]
    return f"{word}{gap}{number.translate(_HIDDEN)}"
