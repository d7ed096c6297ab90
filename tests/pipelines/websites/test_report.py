"""Reports: what they say in each language, and links that are safe."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion.pipelines.websites.report import grade_of, view_source
from tabellion.pipelines.websites.report_file import formatting, load_image
from tabellion.pipelines.websites.result import Source
from tabellion.storage.blobs import Blobs


def test_a_source_links_to_its_passage() -> None:
    """With a text fragment, which browsers scroll to; on the page's own path."""
    view = view_source(Source("text", "every toy, made by hand", "https://birch.example/about#team", 5, 9))
    assert view.href == "https://birch.example/about#:~:text=every%20toy%2C%20made%20by%20hand"
    assert (view.page, view.grounded) == ("/about", True)


@pytest.mark.parametrize("page", ["javascript:alert(1)", "", "data:text/html,x"])
def test_a_source_without_a_web_address_has_no_link(page: str) -> None:
    """Whatever a stranger's page contains."""
    assert view_source(Source("link", "x", page)).href == ""


def test_an_ungrounded_quote_is_shown_as_such() -> None:
    """And has no link."""
    view = view_source(Source("ungrounded", "We sell rockets"))
    assert (view.grounded, view.href, view.quote) == (False, "", "We sell rockets")


def test_numbers_are_written_in_the_language() -> None:
    """Thousands, decimals, small sums and short times."""
    english, french = formatting("en"), formatting("fr")
    assert (english["number"](1234.5, 1), french["number"](1234.5, 1)) == ("1,234.5", "1\N{NO-BREAK SPACE}234,5")
    assert (english["seconds"](0.25), english["seconds"](2.0)) == ("250 ms", "2.0 s")
    assert (english["money"](0.0021), english["money"](2.5)) == ("$0.0021", "$2.50")
    assert english["moment"]("2026-11-01T10:05:00.000Z") == "2026-11-01 10:05 UTC"


def test_grades_have_bounds() -> None:
    """Good from 80, fair from 50."""
    assert [grade_of(score) for score in (None, 0, 49, 50, 79, 80, 100)] == [
        "", "poor", "poor", "fair", "fair", "good", "good",
    ]  # fmt: skip


def test_a_missing_image_is_left_out(tmp_path: Path) -> None:
    """A report without its screenshot is still one."""
    assert asyncio.run(load_image(Blobs(tmp_path), "0" * 64, "image/png")) is None
    assert asyncio.run(load_image(Blobs(tmp_path), None, "image/png")) is None
