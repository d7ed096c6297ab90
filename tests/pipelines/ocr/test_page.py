"""Texts of pages and of documents."""

from __future__ import annotations

from tabellion.pipelines.ocr.page import PageText, confidence_of, join_pages
from tabellion.reading.page import Page


def test_a_form_feed_separates_pages_and_occurs_nowhere_else() -> None:
    """A form feed within a page becomes a line break; characters that databases reject are escaped."""
    pages = [PageText.of(Page(number, 1, 1, "ocr", 0.5), text) for number, text in enumerate(("a\fb", "c\x00"), 1)]
    assert join_pages(pages).split("\f") == ["a\nb", "c\\x00"]


def test_long_pages_weigh_more() -> None:
    """In the confidence of a document; pages read by a model have none."""
    pages = [PageText(1, "x" * 90, "ocr", 1.0), PageText(2, "y" * 10, "ocr", 0.0), PageText(3, "z" * 900, "model")]
    assert confidence_of(pages) == 0.9
    assert confidence_of(pages[2:]) is None
