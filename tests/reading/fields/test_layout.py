"""Lines and their neighbours."""

from __future__ import annotations

from dataclasses import replace

from tabellion.reading.fields.layout import Line, lay_out
from tests.reading.fields.paper import paper


def _line(text: str, *drawing: str) -> tuple[list[Line], Line]:
    layout = lay_out(paper(*drawing))
    return layout.lines, next(line for line in layout.lines if line.text == text)


def test_segments_of_one_height_are_a_row() -> None:
    """They are ordered from left to right."""
    layout = lay_out(paper("Subtotal      100.00\n\nTotal         119.00"))
    assert [[line.text for line in row] for row in layout.rows] == [["Subtotal", "100.00"], ["Total", "119.00"]]
    assert [line.text for line in layout.right(layout.rows[0][0])] == ["100.00"]


def test_the_line_below_is_found_in_its_column() -> None:
    """The nearest first, not in another column, and not far down the page."""
    layout = lay_out(paper("Net       Total\n100.00    119.00\n" + "\n" * 20 + "          999.00"))
    total = next(line for line in layout.lines if line.text == "Total")
    assert [line.text for line in layout.below(total)] == ["119.00"]


def test_pages_are_separate() -> None:
    """The same height on another page is another row."""
    layout = lay_out(paper("one", "two"))
    assert len(layout.rows) == 2
    assert list(layout.below(layout.lines[0])) == []


def test_a_part_of_a_line_has_its_own_box() -> None:
    """Even a part of a word is boxed by what it covers."""
    line = lay_out(paper("Total: 119.00"))
    (one,) = line.lines
    left, _, right, _ = one.box_at(7, 13)
    assert (round(left * 80), round(right * 80)) == (7, 13)
    assert [word.text for word in one.words_at(7, 13)] == ["119.00"]


def test_rows_of_a_skewed_page_are_levelled() -> None:
    """A printed line is one row, even if it rises across the page."""
    (page,) = paper("Bolt" + " " * 65 + "6.00\nNut" + " " * 66 + "4.00")
    slope = 0.025
    words = tuple(
        replace(w, box=(w.box[0], w.box[1] + slope * w.box[0], w.box[2], w.box[3] + slope * w.box[2]))
        for w in page.words
    )
    rows = lay_out([replace(page, words=words, slope=slope)]).rows
    assert [[line.text for line in row] for row in rows] == [["Bolt", "6.00"], ["Nut", "4.00"]]
