"""Quotes: found where they are, and nowhere else."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.quotes import QuoteFinder
from tabellion.pipelines.websites.site.info import PageInfo
from tests.pipelines.websites.sites import ABOUT, HOME, website


@pytest.mark.parametrize(
    "quote",
    [
        "every toy is made by hand",
        "  Every TOY\nis made by  hand. ",
        "“we build things that last”",
        "Birch & Co. makes wooden toys […] for families",
        "a small workshop in Lyon...",
    ],
)
def test_a_quote_is_located_in_the_text(quote: str) -> None:
    """Whatever its case, blanks and quotation marks; the offsets are those of the page's own text."""
    source = QuoteFinder(website()).locate(quote)
    assert source is not None
    assert source.is_grounded
    assert source.page == "https://birch.example/"
    assert source.start is not None
    assert source.end is not None
    assert " ".join(HOME[source.start : source.end].split()) == source.quote


@pytest.mark.parametrize("quote", ["made by robots", "oy is made by han", "we build things that last forever", "a"])
def test_a_quote_that_is_not_there_is_ungrounded(quote: str) -> None:
    """It keeps its words and gets no page: nothing is invented, and parts of words prove nothing."""
    source = QuoteFinder(website()).locate(quote)
    assert source is not None
    assert (source.kind, source.page, source.start, source.quote) == ("ungrounded", "", None, quote)


def test_other_pages_and_facts_are_searched_too() -> None:
    """The text of the second page, a heading, a description, a contact; no quote is no source."""
    finder = QuoteFinder(website())
    about = finder.locate("Our team of twelve carves")
    assert about is not None
    assert about.page == "https://birch.example/about"
    assert ABOUT[about.start : about.end] == "Our team of twelve carves"
    kinds = [finder.locate(quote) for quote in ("Our products", "since 1987", "hello@birch.example", "About us")]
    assert [source and source.kind for source in kinds] == ["heading", "description", "contact", "link"]
    assert finder.locate(None) is None
    assert finder.locate("  ") is None


def test_a_quote_from_a_footer_names_the_footer() -> None:
    """It has no offsets: those belong to the main text."""
    home = PageInfo("https://a.example/", "home", text=HOME, text_around="SIRET 732 829 320 00074")
    source = QuoteFinder(website(pages=(home,))).locate("732 829 320 00074")
    assert source is not None
    assert (source.kind, source.page, source.start) == ("text_around", "https://a.example/", None)
