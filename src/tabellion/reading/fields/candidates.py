"""Candidate values of a field: after, beside or below a label, scored by their position."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.labels import Label
from tabellion.reading.fields.layout import Line
from tabellion.reading.page import Box

#: Scores by a value's position relative to its label.
AFTER, BESIDE, UNDER, ALONE = 1.0, 0.95, 0.8, 0.3
MARGIN = 0.02  # of a page's width: columns are not printed exactly


Parser = Callable[[str], Iterable[Any]]  #: returns objects with value, start and end


@dataclass(slots=True, eq=False)
class FieldCandidate:
    """One possible value of one field."""

    field: str
    value: Any
    line: Line
    start: int
    end: int
    score: float
    label: Label | None = None
    how: str = ""  #: after, beside, below its label, or unlabelled
    found: Any = None  #: the parser's result
    reasons: list[str] = dataclasses.field(default_factory=list)

    @property
    def box(self) -> Box:
        """Its box on the page."""
        return self.line.box_at(self.start, self.end)

    @property
    def quote(self) -> str:
        """The words it was read from."""
        return self.line.text[self.start : self.end].strip()

    @property
    def key(self) -> tuple[int, int]:
        """Its position; candidates with the same key are the same words."""
        return self.line.number, self.start


def find_labelled(
    doc: LabelledText, fields: Iterable[str], parse: Parser, *, strangers: bool = False
) -> Iterator[FieldCandidate]:
    """The values that labels point at: in the rest of the line, else in the row to the right, else below.

    Words between a label and its value change its meaning ("Date of delivery: …") and lower the score, unless
    `strangers` allows them: "VAT at the reduced rate … 576.70" is still VAT.
    """
    for label in doc.find_labels(*fields):
        stop = doc.free_until(label)
        found = [value for value in parse(label.line.text) if label.end <= value.start < stop]
        yield from _make_candidates(label, label.line, found, AFTER, "after", strangers)
        if found or stop < len(label.line.text):
            if not found:
                yield from _under(doc, label, stop, parse)
            continue
        rows_with_values = 0
        for other in doc.layout.right(label.line):
            if doc.is_labelled(other):
                break
            beside = list(parse(other.text))
            yield from _make_candidates(label, other, beside, BESIDE - 0.1 * rows_with_values, "beside", strangers)
            rows_with_values += bool(beside)
            if rows_with_values >= 3:
                break
        if not rows_with_values:
            yield from _under(doc, label, stop, parse)


def _under(doc: LabelledText, label: Label, stop: int, parse: Parser) -> Iterator[FieldCandidate]:
    """The nearest value below a label, under its own part of the line."""
    box = label.line.box_at(label.start, stop)
    for other in doc.layout.below(label.line, box=(box[0] - MARGIN, box[1], box[2] + MARGIN, box[3])):
        under = [value for value in parse(other.text) if _over(box, other.box_at(value.start, value.end))]
        if under:
            yield from _make_candidates(label, other, under[:1], UNDER, "below", True)
            return


def _make_candidates(
    label: Label, line: Line, values: Iterable[Any], score: float, how: str, strangers: bool
) -> Iterator[FieldCandidate]:
    for place, value in enumerate(values):
        adjusted = (score - 0.05 * place) * (1.0 if label.exact else 0.85)
        if line is label.line and not place and not strangers:
            words = len(re.findall(r"[^\W\d_]{2,}", line.text[label.end : value.start]))
            adjusted -= min(0.25 * words, 0.6)
        yield FieldCandidate(label.field, value.value, line, value.start, value.end, adjusted, label, how, value)


def _over(above: Box, under: Box) -> bool:
    return under[0] < above[2] + MARGIN and above[0] - MARGIN < under[2]
