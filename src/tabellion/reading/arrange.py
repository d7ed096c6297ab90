"""Puts words in reading order and numbers their printed lines.

Two words are on one row when their heights overlap by more than half of the smaller one; they are on one line
when the gap between them is also less than GAP times their height, so that the columns of a table or a letterhead
are separate lines. Lines are numbered from the top down, and from left to right along a row.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from tabellion.reading.page import Box, Word

#: A gap wider than this many heights of the line ends it.
GAP = 2.5


def arrange(words: Iterable[Word], aspect: float, slope: float = 0.0) -> tuple[Word, ...]:
    """The words in reading order, each with the number of its line; `aspect` is the page's width over its height.

    `slope` is how far the lines of a page that is not straight fall, as fraction of its height per fraction of its
    width. Rows are found on the levelled page; boxes stay as they are seen.
    """
    originals = list(words)
    arranged: list[Word] = []
    number = 0
    for row in _rows(replace(word, box=level(word.box, slope), line=index) for index, word in enumerate(originals)):
        # Boxes are fractions of the page: a height is converted to a fraction of the width to be compared with a gap.
        reach = GAP * median(word.box[3] - word.box[1] for word in row) / aspect
        right = row[0].box[2]
        for word in row:
            if word.box[0] - right > reach:
                number += 1
            right = max(right, word.box[2])
            arranged.append(replace(originals[word.line], line=number))
        number += 1
    return tuple(arranged)


def level(box: Box, slope: float) -> Box:
    """The box of the same word on a straight page, where it is only as high as its letters."""
    if not slope:
        return box
    x0, y0, x1, y1 = box
    middle = (y0 + y1 - slope * (x0 + x1)) / 2
    half = max((y1 - y0 - abs(slope) * (x1 - x0)) / 2, (y1 - y0) / 8)
    return x0, middle - half, x1, middle + half


def _rows(words: Iterable[Word]) -> list[list[Word]]:
    """Words grouped into rows, from left to right; rows from the top down."""
    rows: list[list[Word]] = []
    reaching: list[tuple[float, list[Word]]] = []  # rows that later words may join, and their lower edges
    for word in sorted(words, key=_middle):
        top = word.box[1]
        reaching = [(bottom, row) for bottom, row in reaching if bottom > top]
        best, least = None, 2.0
        for index, (_, row) in enumerate(reaching):
            away, other = _nearest(row, word)
            if away < least and _overlap(word, other) > 0.5:
                best, least = index, away
        if best is None:
            rows.append([word])
            reaching.append((word.box[3], rows[-1]))
        else:
            bottom, row = reaching[best]
            insort(row, word, key=_left_edge)
            reaching[best] = max(bottom, word.box[3]), row
    return sorted(rows, key=lambda row: median(map(_middle, row)))


def _left_edge(word: Word) -> float:
    return word.box[0]


def _middle(word: Word) -> float:
    return word.box[1] + word.box[3]


def _nearest(row: Sequence[Word], word: Word) -> tuple[float, Word]:
    # On a page that is not quite straight a row climbs or falls: its nearest word decides.
    left = word.box[0]
    index = bisect(row, left, key=_left_edge)
    return min(
        ((abs(other.box[0] - left), other) for other in row[max(0, index - 1) : index + 1]), key=lambda pair: pair[0]
    )


def _overlap(word: Word, other: Word) -> float:
    """The overlap of both heights as a fraction of the smaller one."""
    _, top, _, bottom = word.box
    _, other_top, _, other_bottom = other.box
    shared = min(bottom, other_bottom) - max(top, other_top)
    return shared / (min(bottom - top, other_bottom - other_top) or 1.0)
