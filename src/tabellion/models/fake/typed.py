"""Reads typed values from a text: numbers, dates, yes and no."""

from __future__ import annotations

import re
from datetime import date

_NUMBER = re.compile(r"[-−]?(?:\d{1,3}(?:[ \u00a0\u202f'.,]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)")
_GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+|-?\d{1,3}(\.\d{3}){2,}")
LONGEST_NUMBER = 18  # digits; more is a reference, not a quantity


def number(text: str) -> float | None:
    """The first number, with English, French, German or Swiss separators."""
    match = _NUMBER.search(text)
    if match is None:
        return None
    digits = re.sub(r"[ \u00a0\u202f']", "", match[0].replace("−", "-"))
    if _GROUPED.fullmatch(digits):
        digits = digits.replace(",", "").replace(".", "")
    elif digits.rfind(",") > digits.rfind("."):
        digits = digits.replace(".", "").replace(",", ".")
    else:
        digits = digits.replace(",", "")
    return float(digits) if len(digits) <= LONGEST_NUMBER else None


_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY_FIRST = re.compile(r"\b(\d{1,2})[./](\d{1,2})[./](\d{4})\b")
_WORDY = re.compile(r"\b(?:(\d{1,2})\.? ([A-Za-z]{3})[a-z]*\.?,? (\d{4})|([A-Za-z]{3})[a-z]*\.? (\d{1,2}),? (\d{4}))\b")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def day(text: str) -> str | None:
    """The first date, as 2026-11-30; where both orders are possible, the day comes before the month."""
    if match := _ISO.search(text):
        return _iso(int(match[1]), int(match[2]), int(match[3]))
    if match := _DAY_FIRST.search(text):
        year, first, second = int(match[3]), int(match[1]), int(match[2])
        return _iso(year, second, first) or _iso(year, first, second)
    if match := _WORDY.search(text):
        day_of_month, name, year_text = (match[1], match[2], match[3]) if match[1] else (match[5], match[4], match[6])
        if name.lower() in _MONTHS:
            return _iso(int(year_text), _MONTHS.index(name.lower()) + 1, int(day_of_month))
    return None


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


_YES = {"yes", "y", "true", "oui", "ja", "x", "1", "on"}
_NO = {"no", "n", "false", "non", "nein", "0", "off"}


def parse_boolean(text: str) -> bool | None:
    """Yes or no, by the first word."""
    words = re.findall(r"\w+", text.lower())
    if not words or words[0] not in _YES | _NO:
        return None
    return words[0] in _YES


def position(word: str, text: str) -> int:
    """The position of a word or phrase in a text, ignoring case and separators; -1 where it is missing."""
    pattern = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[\s_-]+", word.strip()) if part)
    match = re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) if pattern else None
    return match.start() if match else -1
