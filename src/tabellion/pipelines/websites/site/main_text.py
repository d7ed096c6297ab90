"""Extracts the main text of a page, what surrounds it, its author and its date; with trafilatura."""

from __future__ import annotations

from typing import Any

from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.cleaning import clean_line, clean_text
from tabellion.pipelines.websites.site.html_tree import HIDDEN, visible_text

LONGEST = 200_000  #: characters
#: With less than this, trafilatura found no article. Home pages often have none, and consist of short blocks.
SHORT = 250
LONGEST_AROUND = 5000  #: characters of the text around the main text
MOST_LINES = 500  #: of a page that are searched for it, from the end
#: What surrounds the content of a page.
AROUND = HIDDEN | {"nav", "footer", "dialog", "select", "menu"}


def extract_main_text(html: str, tree: HtmlElement, url: str) -> str:
    """The main text in paragraphs; what is visible on the page if it has no article."""
    from trafilatura import extract

    text = clean_text(extract(html, url=url, include_comments=False) or "", LONGEST)
    if len(text) >= SHORT:
        return text
    return visible_text(tree, AROUND, LONGEST) or visible_text(tree, limit=LONGEST) or text


def extract_text_around(shown: str, main: str) -> str:
    """The visible lines that are not in the main text, from the end of the page: its footer before its header.

    Footers name the company behind a site, its numbers and its address; extractors leave them out.
    """
    known = " ".join(main.split()).casefold()
    kept: list[str] = []
    left = LONGEST_AROUND
    for line in reversed(shown.rsplit("\n", MOST_LINES)[-MOST_LINES:]):
        flat = " ".join(line.split())
        if flat and flat.casefold() not in known:
            left -= len(flat) + 1
            if left < 0 and kept:
                break
            kept.append(flat[:LONGEST_AROUND])
    return "\n".join(reversed(kept))


def extract_article(html: str, url: str) -> dict[str, Any]:
    """The byline and the date of an article, guessed from its markup; empty texts for other pages."""
    from trafilatura import extract_metadata

    found = extract_metadata(html, default_url=url)
    return {
        "byline": clean_line(found.author, 200) if found else "",
        "published": clean_line(found.date, 40) if found else "",
    }
