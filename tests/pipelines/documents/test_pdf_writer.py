"""The PDF writer, checked with a PDF reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pypdfium2
import pytest

from tests.pipelines.documents.pdf_writer import Paper, text_width


def read(content: bytes, look: Callable[[Any], Any]) -> Any:
    """Return what is found in the file."""
    document = pypdfium2.PdfDocument(content)
    try:
        return look(document)
    finally:
        document.close()


def texts(content: bytes) -> list[str]:
    """The text of each page."""

    def look(document: Any) -> list[str]:
        return [page.get_textpage().get_text_range() for page in document]

    found: list[str] = read(content, look)
    return found


def test_text_is_read_back_exactly() -> None:
    """Accents, the euro sign, brackets and backslashes, on several pages."""
    paper = Paper()
    paper.text(50, 60, "Ébénisterie (Côté) \\ Größe 12,50 €")
    paper.page()
    paper.text(50, 60, "page two", bold=True)
    assert texts(paper.to_bytes()) == ["Ébénisterie (Côté) \\ Größe 12,50 €", "page two"]


def test_text_is_where_it_was_put() -> None:
    """From the left, or ending at the right, at its height from the top."""
    paper = Paper()
    paper.text(50, 100, "Amount")
    paper.text(500, 100, "1,234.50", align="right")

    def rectangles(document: Any) -> list[tuple[float, ...]]:
        page = document[0].get_textpage()
        return [page.get_rect(number) for number in range(page.count_rects())]

    left, right = read(paper.to_bytes(), rectangles)
    assert left[0] == pytest.approx(50, abs=1.5)
    assert right[2] == pytest.approx(500, abs=1.5)
    assert left[1] == pytest.approx(842 - 100, abs=3)


def test_widths_are_those_of_the_font() -> None:
    """All digits are equal, and accents add nothing."""
    assert text_width("0123456789", 10) == pytest.approx(55.6)
    assert text_width("é", 10) == text_width("e", 10)
    assert text_width("x", 10, bold=True) > text_width("x", 10)


def test_lines_and_boxes_are_visible() -> None:
    """Ink where a line was drawn, grey where a box was filled, white elsewhere."""
    paper = Paper(100, 100)
    paper.line(10, 20, 90, 20, 4)
    paper.box(10, 50, 80, 20, grey=0.5)
    image = read(paper.to_bytes(), lambda document: document[0].render(scale=1).to_pil().convert("L"))
    assert [image.getpixel(place) for place in ((50, 20), (50, 60), (50, 90))] == [0, pytest.approx(128, abs=2), 255]


def test_the_same_pages_give_the_same_bytes() -> None:
    """They depend neither on the clock nor on chance."""

    def made() -> bytes:
        paper = Paper()
        paper.text(50, 60, "the same")
        return paper.to_bytes()

    assert made() == made()
