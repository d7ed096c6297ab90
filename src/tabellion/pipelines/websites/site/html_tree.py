"""Parses HTML with lxml, and reads texts and attributes of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree, html
from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.cleaning import clean_line, clean_text
from tabellion.pipelines.websites.site.urls import join_url

#: Elements whose text nobody sees.
HIDDEN = frozenset({"script", "style", "noscript", "template", "iframe", "svg", "head", "title", "object", "canvas"})
#: Elements that do not interrupt a line.
INLINE = frozenset(
    {
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd",
        "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var",
        "wbr",
    }
)  # fmt: skip
_BLANK = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def parse_html(text: str) -> HtmlElement:
    """The tree of a page; an empty page has an empty tree."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=False)
    try:
        tree = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser, ensure_head_body=True)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return html.document_fromstring("<html><head></head><body></body></html>")
    return tree


def base_url(tree: HtmlElement, url: str) -> str:
    """The URL that relative links of the page refer to."""
    stated = next(iter(tree.xpath("//base/@href")), "")
    return join_url(url, str(stated)) or url


def text_of(element: HtmlElement, limit: int) -> str:
    """The text of an element in one line."""
    pieces: list[str] = []
    size = 0
    for piece in visible_texts(element):
        pieces.append(piece)
        size += len(piece)
        if size > limit * 4:
            break
    return clean_line("".join(pieces), limit)


def visible_text(tree: HtmlElement, hidden: frozenset[str] = HIDDEN, limit: int = 1_000_000) -> str:
    """What a reader of the page sees, a line for each block."""
    body = next(iter(tree.iter("body")), tree)
    text = clean_text("".join(visible_texts(body, hidden)), limit * 2)
    return _LINES.sub("\n", _BLANK.sub(" ", text)).strip()[:limit]


def visible_texts(element: HtmlElement, hidden: frozenset[str] = HIDDEN) -> Iterator[str]:
    """The visible texts in an element, with a line break around blocks.

    Not recursive: a page may be nested ten thousand deep.
    """
    skipped: HtmlElement | None = None
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if skipped is None and event == "start":
            if node.tag in hidden and node is not element:
                skipped = node
                continue
            yield "" if node.tag in INLINE else "\n"
            yield node.text or ""
        elif event == "end" and (skipped is None or node is skipped):
            yield "" if node.tag in INLINE else "\n"
            skipped = None
            if node is not element:
                yield node.tail or ""


def meta_contents(tree: HtmlElement) -> dict[str, str]:
    """The contents of the page's meta elements by name or property, in lower case; the first of each name."""
    found: dict[str, str] = {}
    for element in tree.iter("meta"):
        name = str(element.get("property") or element.get("name") or element.get("itemprop") or "").strip().lower()
        content = clean_line(element.get("content"), 2000)
        if name and content and len(found) < 300:
            found.setdefault(name[:100], content)
    return found
