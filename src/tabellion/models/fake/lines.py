"""Finds the value after a label: `Invoice number: 17`, or `Invoice number 17`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

LONGEST_INDEXED = 200_000  # characters; later text is part of answers, but not searched
_COLON = re.compile(r"[:=](?!/)")
_GAP = re.compile(r"\t|\s{2,}")
_WORD_EDGE = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def words(name: str) -> str:
    """A name as plain words: `invoice_number`, `invoiceNumber` and `Invoice No:` become comparable."""
    return " ".join(part.lower() for part in _WORD_EDGE.split(name) if part)


class LabelledLines:
    """A text as labels and the values after them."""

    def __init__(self, text: str) -> None:
        self.labels: dict[str, list[str]] = {}
        self._inner: list[tuple[str, str]] = []
        self._lines: list[tuple[str, str]] = []
        for line in text[:LONGEST_INDEXED].splitlines():
            line = line.strip()
            if line:
                self._lines.append((line.lower(), line))
                self._index(line)

    def _index(self, line: str) -> None:
        start = 0
        for colon in _COLON.finditer(line):
            value = line[colon.end() :].strip()
            # A second label on the same line, after a wide gap, ends the first one's value.
            gap = _GAP.search(value)
            if gap and _COLON.search(value, gap.end()):
                value = value[: gap.start()]
            label = words(line[start : colon.start()])
            if label and value:
                if start == 0:
                    self.labels.setdefault(label, []).append(value)
                else:
                    self._inner.append((f" {label}", value))
            start = colon.end()

    def behind(self, phrase: str) -> Iterator[str]:
        """The values after these words; where the words are a line's whole label, only those."""
        if not phrase:
            return
        if phrase in self.labels:
            yield from self.labels[phrase]
            return
        for lower, line in self._lines:
            # A cheap test first: the regular expression runs only for lines that may match.
            if lower[:1] == phrase[:1] and len(line) > len(phrase):
                rest = _rest(line, phrase)
                if rest:
                    yield rest
        for label, value in self._inner:
            if label.endswith(f" {phrase}"):
                yield value


def _rest(line: str, phrase: str) -> str:
    """The line after the phrase, when it begins with it and no colon is in between."""
    match = _begins(phrase).match(line)
    return line[match.end() :].strip() if match else ""


@lru_cache(2048)
def _begins(phrase: str) -> re.Pattern[str]:
    return re.compile(r"[\W_]*".join(re.escape(word) for word in phrase.split()) + r"[ \t#]+(?![:=])", re.IGNORECASE)


@lru_cache(256)
def lines_of(text: str) -> LabelledLines:
    """The lines of a text, parsed once per text."""
    return LabelledLines(text)
