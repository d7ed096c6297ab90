"""Values that may be a field's: what stands after, beside or below a label, and how well it stands there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tabellion.reading.fields.labels import Label
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.sheet import Sheet
from tabellion.reading.page import Box

#: How much a value's place says for it.
AFTER, BESIDE, UNDER, ALONE = 1.0, 0.95, 0.8, 0.3
MARGIN = 0.02  # of a page's width: columns are not printed to the hair


Parser = Callable[[str], Iterable[Any]]  #: gives objects with value, start and end


@dataclass(slots=True, eq=False)
class Candidate:
    """One possible value of one field."""

    field: str
    value: Any
    line: Line
    start: int
    end: int
    score: float
    label: Label | None = None
    how: str = ""  #: after, beside, below its label, or unlabelled
    found: Any = None  #: what the parser gave
    reasons: list[str] = dataclasses.field(default_factory=list)

    @property
    def box(self) -> Box:
        """Where it stands."""
        return self.line.box_at(self.start, self.end)

    @property
    def quote(self) -> str:
        """The words that say so."""
        return self.line.text[self.start : self.end].strip()

    @property
    def key(self) -> tuple[int, int]:
        """Its place, by which two candidates are one."""
        return self.line.number, self.start


def find_labelled(
    sheet: Sheet, fields: Iterable[str], parse: Parser, *, reach: float = 3.0, strangers: bool = False
) -> Iterator[Candidate]:
    """The values that labels point at: the rest of the line, else the row to the right, else what stands below.

    Words between a label and its value change what it means ("Date of delivery: …"), except where `strangers` are
    welcome: "VAT at the reduced rate … 576.70" is still VAT.
    """
    for label in sheet.find_labels(*fields):
        stop = sheet.free_until(label)
        found = [one for one in parse(label.line.text) if label.end <= one.start < stop]
        yield from _make_candidates(label, label.line, found, AFTER, "after", strangers)
        if found or stop < len(label.line.text):
            if not found:
                yield from _under(sheet, label, stop, parse, reach)
            continue
        seen = 0
        for other in sheet.layout.right(label.line):
            if sheet.is_labelled(other):
                break
            beside = list(parse(other.text))
            yield from _make_candidates(label, other, beside, BESIDE - 0.1 * seen, "beside", strangers)
            seen += bool(beside)
            if seen >= 3:
                break
        if not seen:
            yield from _under(sheet, label, stop, parse, reach)


def _under(sheet: Sheet, label: Label, stop: int, parse: Parser, reach: float) -> Iterator[Candidate]:
    """The nearest value below a label, under its own part of the line."""
    box = label.line.box_at(label.start, stop)
    for other in sheet.layout.below(label.line, reach, (box[0] - MARGIN, box[1], box[2] + MARGIN, box[3])):
        under = [one for one in parse(other.text) if _over(box, other.box_at(one.start, one.end))]
        if under:
            yield from _make_candidates(label, other, under[:1], UNDER, "below", True)
            return


def _make_candidates(
    label: Label, line: Line, found: Iterable[Any], score: float, how: str, strangers: bool
) -> Iterator[Candidate]:
    for place, one in enumerate(found):
        worth = (score - 0.05 * place) * (1.0 if label.exact else 0.85)
        if line is label.line and not place and not strangers:
            words = len(re.findall(r"[^\W\d_]{2,}", line.text[label.end : one.start]))
            worth -= min(0.25 * words, 0.6)
        yield Candidate(label.field, one.value, line, one.start, one.end, worth, label, how, one)


def _over(above: Box, under: Box) -> bool:
    return under[0] < above[2] + MARGIN and above[0] - MARGIN < under[2]
