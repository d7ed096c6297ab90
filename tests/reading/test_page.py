"""Pages cross from the child as JSON."""

from __future__ import annotations

import pytest

from tabellion.reading.page import Page, Word, parse_page, serialize_page


def test_pages_round_trip_as_json() -> None:
    """Invalid JSON is rejected."""
    page = Page(3, 100.0, 50.0, "ocr", 0.5, (Word("a", (0.1, 0.2, 0.3, 0.4), 0.9, 2),), 90, "no", "timed_out", 0.05)
    assert parse_page(serialize_page(page)) == page
    with pytest.raises(ValueError, match="no such source"):
        parse_page({**serialize_page(page), "source": "elsewhere"})
