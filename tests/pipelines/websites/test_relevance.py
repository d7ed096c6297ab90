"""Trimming: the budget holds, and what matters stays."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.relevance import GAP, count_tokens, divide, trim_text
from tabellion.pipelines.websites.site.info import PageInfo
from tests.pipelines.websites.sites import website

FILLER = [f"Paragraph number {number} speaks at length about the weather of yesterday." for number in range(200)]


@pytest.mark.parametrize("budget", [0, 20, 100, 500, 2000])
def test_the_budget_holds(budget: int) -> None:
    """Also for one that is too small for anything."""
    info = website(pages=(PageInfo("https://a.example/", "home", text="\n".join(FILLER)),))
    trimmed = trim_text(info, budget)
    assert count_tokens(trimmed.text) <= budget
    assert trimmed.of == 200
    assert trimmed.passages < 200


def test_relevant_passages_stay_in_their_order() -> None:
    """Those with the words that were asked for, wherever they are; what was left out is marked."""
    text = "\n".join([*FILLER[:90], "We sell pianos.", *FILLER[90:150], "Our pianos are tuned.", *FILLER[150:]])
    info = website(title="", description="", pages=(PageInfo("https://a.example/", "home", text=text),))
    trimmed = trim_text(info, 200, ["pianos"])
    assert trimmed.text.index("We sell pianos.") < trimmed.text.index("Our pianos are tuned.")
    assert GAP in trimmed.text
    assert trimmed.text.startswith("# https://a.example/")


def test_headers_and_footers_follow_the_pages_once() -> None:
    """Pages share their footer: each of its lines is sent once, under a heading of its own."""
    pages = tuple(PageInfo(f"https://a.example/{n}", "link", text=f"Page {n}.", text_around="SIRET 1") for n in "ab")
    lines = trim_text(website(pages=pages), 500).text.split("\n")
    assert lines[-2:] == ["# Headers and footers of the pages", "SIRET 1"]
    assert lines.count("SIRET 1") == 1


def test_long_paragraphs_are_divided_and_repeated_ones_kept_once() -> None:
    """Between sentences where there are any, else between words."""
    passages = divide("Same.\nSame.\n" + " ".join(f"word{n}" for n in range(1000)) + "\n" + "A sentence here. " * 200)
    assert [passage.text for passage in passages].count("Same.") == 1
    assert all(len(passage.text) <= 1200 for passage in passages)
    assert sum(len(passage.text.split()) for passage in passages if passage.text.startswith("word")) == 1000


def test_other_scripts_count_more() -> None:
    """A Chinese sign is about a token, an English word about one in four letters."""
    assert count_tokens("木制玩具") == 4
    assert 2 <= count_tokens("wooden toys") <= 4
