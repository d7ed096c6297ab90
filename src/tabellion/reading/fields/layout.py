"""Printed lines and their neighbours beside and below: the geometry that fields are read by."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from tabellion.reading.arrange import level
from tabellion.reading.page import Box, Page, Word, around

NEAR = 3.0  # line heights: how far below a label its value may be


@dataclass(frozen=True, eq=False)
class Line:
    """A run of words on one printed line of one page."""

    page: int
    number: int  #: its place in reading order, over the whole document
    words: tuple[Word, ...]
    text: str
    box: Box
    source: str
    flat: Box  #: the same on a levelled page; rows are grouped by it

    @property
    def height(self) -> float:
        """The height as a fraction of the page's height."""
        return self.box[3] - self.box[1]

    @property
    def middle(self) -> float:
        """The vertical middle on the levelled page."""
        return (self.flat[1] + self.flat[3]) / 2

    @cached_property
    def score(self) -> float:
        """The mean score of its words."""
        return sum(word.score for word in self.words) / len(self.words)

    @cached_property
    def _starts(self) -> list[int]:
        """The start of each word in the text."""
        return [0, *accumulate(len(word.text) + 1 for word in self.words[:-1])]

    def _around(self, start: int, end: int) -> Iterator[tuple[int, Word]]:
        """The words that overlap a span of the text, each after its start."""
        for place in range(max(bisect_right(self._starts, start) - 1, 0), bisect_left(self._starts, end)):
            at, word = self._starts[place], self.words[place]
            if start < at + len(word.text):
                yield at, word

    def words_at(self, start: int, end: int) -> tuple[Word, ...]:
        """The words that overlap a span of the text."""
        return tuple(word for _, word in self._around(start, end))

    def box_at(self, start: int, end: int) -> Box:
        """The box around a span of the text, cut proportionally where the span is only a part of a word."""
        boxes = []
        for at, word in self._around(start, end):
            size = len(word.text)
            first, last = max(start - at, 0), min(end - at, size)
            if first < last:
                x0, y0, x1, y1 = word.box
                wide = (x1 - x0) / size
                boxes.append((x0 + wide * first, y0, x0 + wide * last, y1))
        return around(boxes) if boxes else self.box


@dataclass(eq=False)
class Layout:
    """All lines of a document, grouped into rows."""

    lines: list[Line]
    _rows: list[list[Line]] = field(default_factory=list)
    _row_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in sorted(self.lines, key=lambda line: (line.page, line.middle)):
            row = next((row for row in reversed(self._rows[-4:]) if _beside(row, line)), None)
            if row is None:
                row = []
                self._rows.append(row)
            row.append(line)
        for place, row in enumerate(self._rows):
            row.sort(key=lambda line: line.box[0])
            for line in row:
                self._row_of[line.number] = place

    @property
    def rows(self) -> list[list[Line]]:
        """Groups of lines beside each other, from the top of the first page down."""
        return self._rows

    def row(self, line: Line) -> list[Line]:
        """All lines of the line's row, from left to right."""
        return self._rows[self._row_of[line.number]]

    def place(self, line: Line) -> int:
        """The index of the line's row."""
        return self._row_of[line.number]

    def right(self, line: Line) -> list[Line]:
        """The lines to its right on the same row, the nearest first."""
        return [other for other in self.row(line) if other.box[0] >= line.box[0] and other is not line]

    def below(self, line: Line, reach: float = NEAR, box: Box | None = None) -> Iterator[Line]:
        """The lines under it (or under `box`), the nearest first."""
        left, _, right, bottom = box or line.box
        limit = bottom + reach * max(line.height, 0.008)
        for row in self._rows[self._row_of[line.number] + 1 :]:
            if row[0].page != line.page or min(other.box[1] for other in row) > limit:
                break
            for other in row:
                if other.box[0] < right and left < other.box[2]:
                    yield other

    def text(self) -> str:
        """The whole text, one row per line."""
        return "\n".join("  ".join(line.text for line in row) for row in self._rows)


def lay_out(pages: Sequence[Page]) -> Layout:
    """The layout of the given pages."""
    lines: list[Line] = []
    for page in pages:
        runs: dict[int, list[Word]] = {}
        for word in page.words:
            runs.setdefault(word.line, []).append(word)
        for words in runs.values():
            text = " ".join(word.text for word in words)
            box = around(word.box for word in words)
            flat = level(box, page.slope) if page.slope else box
            lines.append(Line(page.number, len(lines), tuple(words), text, box, page.source, flat))
    return Layout(lines)


def _beside(row: list[Line], line: Line) -> bool:
    last = row[-1]
    if last.page != line.page:
        return False
    shared = min(last.flat[3], line.flat[3]) - max(last.flat[1], line.flat[1])
    return shared > 0.5 * min(last.height, line.height) and not any(
        other.box[0] < line.box[2] - 0.005 and line.box[0] < other.box[2] - 0.005 for other in row
    )
