"""Tells the entries of a list or register from lines of prose, by how their lines begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_DATE = re.compile(r"\d{4}[-./]\d{1,2}[-./]\d{1,2}\b|\d{1,2}[-./]\d{1,2}[-./](?:\d{4}|\d{2})\b")
_NUMBER = re.compile(r"(?:n[o°º]\.?\s*|#\s*)?\d[\d  .,/-]*(?=\s|$)", re.IGNORECASE)
_NUMBERED_WORD = re.compile(r"([^\W\d_]+)\.?:?\s+(?:n[o°º]\.?\s*|#\s*)?\d", re.IGNORECASE)


def start_entries(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it starts a new entry.

    A date starts one. A number does not if it is the only one: a sentence may be divided before a number, but several
    lines that begin with one, or with the same word and a number ("Lot 12", "Lot 13"), are a list.
    """
    shapes = [_shape(line) for line in lines]
    counts = Counter(shapes)
    return [shape == "date" or (shape != "" and counts[shape] > 1) for shape in shapes]


def _shape(line: str) -> str:
    """How a line begins: with a date, a number, a certain word and a number, or (empty) in another way."""
    if _DATE.match(line):
        return "date"
    if _NUMBER.match(line):
        return "number"
    word = _NUMBERED_WORD.match(line)
    return f"{word[1].casefold()} number" if word else ""
