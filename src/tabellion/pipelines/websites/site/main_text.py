"""Extracts the main text of a page, its author and its date with trafilatura."""

from __future__ import annotations

from typing import Any

from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.cleaning import clean_line, clean_text
from tabellion.pipelines.websites.site.html_tree import HIDDEN, visible_text

LONGEST = 200_000  #: characters
#: With less than this, trafilatura found no article. Home pages often have none, and consist of short blocks.
SHORT = 250
#: What surrounds the content of a page.
AROUND = HIDDEN | {"nav", "footer", "dialog", "select", "menu"}


def extract_main_text(html: str, tree: HtmlElement, url: str) -> str:
    """The main text in paragraphs; what is visible on the page if it has no article."""
    from trafilatura import extract

    text = clean_text(extract(html, url=url, include_comments=False) or "", LONGEST)
    if len(text) >= SHORT:
        return text
    return visible_text(tree, AROUND, LONGEST) or visible_text(tree, limit=LONGEST) or text


def extract_article(html: str, url: str) -> dict[str, Any]:
    """The byline and the date of an article, guessed from its markup; empty texts for other pages."""
    from trafilatura import extract_metadata

    found = extract_metadata(html, default_url=url)
    return {
        "byline": clean_line(found.author, 200) if found else "",
        "published": clean_line(found.date, 40) if found else "",
    }
