"""Finds the reading order of a page: columns of prose one after the other, tables row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tabellion.reading.page import Word

GUTTER = 0.02  #: of the page's width: the smallest gap between two columns
CELL = 0.035  #: the gap between two cells
ROWS = 4  #: the least lines of a column
PROSE = 3.0  #: words per line; cells of a table have fewer
EDGE = 0.15  #: columns are not narrower than this

WordRow = list[Word]


def rows_of(words: Sequence[Word]) -> list[WordRow]:
    """The words in lines from top to bottom, each from left to right."""
    rows: list[WordRow] = []
    for word in sorted((word for word in words if word.text.strip()), key=_middle):
        row = rows[-1] if rows else None
        if row and _middle(word) - sum(map(_middle, row)) / len(row) < 0.5 * max(_height(word), _height(row[-1])):
            row.append(word)
        else:
            rows.append([word])
    return [sorted(row, key=lambda word: word.box[0]) for row in rows]


def blocks(words: Sequence[Word]) -> list[list[WordRow]]:
    """The page as blocks in reading order, each a list of lines in one column."""
    return [block for block in _blocks(rows_of(words)) if block]


def _blocks(rows: list[WordRow]) -> Iterator[list[WordRow]]:
    found = _columns(rows)
    if found is None:
        yield rows
        return
    first, last, gutter = found
    yield from _blocks(rows[:first])
    inside = [word for row in rows[first:last] for word in row]
    yield from _blocks(rows_of([word for word in inside if word.box[2] <= gutter]))
    yield from _blocks(rows_of([word for word in inside if word.box[2] > gutter]))
    yield from _blocks(rows[last:])


def _columns(rows: list[WordRow]) -> tuple[int, int, float] | None:
    """The longest run of lines that one gutter divides into two columns of prose."""
    best: tuple[int, int, float] | None = None
    for gutter in _gutters(rows):
        for first, last in _runs(rows, gutter):
            if (best is None or last - first > best[1] - best[0]) and _are_columns(rows[first:last], gutter):
                best = first, last, gutter
    return best


def _gutters(rows: list[WordRow]) -> list[float]:
    """The positions of wide gaps between words, those that most lines share first."""
    votes: dict[int, int] = {}
    for row in rows:
        for left, right in pairwise(row):
            if right.box[0] - left.box[2] >= GUTTER:
                for step in range(int(left.box[2] * 100) + 1, int(right.box[0] * 100) + 1):
                    votes[step] = votes.get(step, 0) + 1
    likely = sorted(votes, key=lambda step: -votes[step])[:5]
    return [step / 100 for step in likely if votes[step] >= ROWS // 2 and EDGE <= step / 100 <= 1 - EDGE]


def _runs(rows: list[WordRow], gutter: float) -> Iterator[tuple[int, int]]:
    """Ranges of lines that leave the gutter free."""
    start = None
    for number, row in enumerate([*rows, None]):
        free = row is not None and _is_divided(row, gutter)
        if free and start is None:
            start = number
        elif not free and start is not None:
            yield start, number
            start = None


def _is_divided(row: WordRow, gutter: float) -> bool:
    """Whether the row has a wide gap at the gutter and only there: a row of a table has several."""
    edges = [0.0, *(edge for word in row for edge in (word.box[0], word.box[2])), 1.0]
    gaps = [(edges[index], edges[index + 1]) for index in range(0, len(edges), 2)]
    at_gutter = [right - left for left, right in gaps if left <= gutter <= right]
    others = [right - left for left, right in gaps[1:-1] if not left <= gutter <= right]
    return max(at_gutter, default=0.0) >= GUTTER and max(others, default=0.0) < CELL


def _are_columns(rows: list[WordRow], gutter: float) -> bool:
    left = [[word for word in row if word.box[2] <= gutter] for row in rows]
    right = [[word for word in row if word.box[2] > gutter] for row in rows]
    return _is_prose(list(filter(None, left))) and _is_prose(list(filter(None, right)))


def _is_prose(rows: list[WordRow]) -> bool:
    return len(rows) >= ROWS and sum(map(len, rows)) / len(rows) >= PROSE


def _middle(word: Word) -> float:
    return (word.box[1] + word.box[3]) / 2


def _height(word: Word) -> float:
    return word.box[3] - word.box[1]
