"""Reads the URLs of a sitemap or of a sitemap index, from hostile XML: no entities, no network, limited in number."""

from __future__ import annotations

from typing import Any

from lxml import etree

from tabellion.pipelines.websites.site.urls import join_url

MOST_URLS = 5000


def read_sitemap_urls(data: bytes, url: str) -> dict[str, Any]:
    """The pages and the further sitemaps that a sitemap lists; a text file may list pages, too."""
    pages: dict[str, None] = {}
    sitemaps: dict[str, None] = {}
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        for line in data[:1_000_000].decode("utf-8", "replace").splitlines()[:MOST_URLS]:
            if target := join_url("", line):
                pages.setdefault(target)
        return {"pages": list(pages), "sitemaps": []}
    parser = etree.XMLPullParser(
        events=("end",), recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        for start in range(0, len(data), 65536):
            parser.feed(data[start : start + 65536])
            for _event, element in parser.read_events():
                _take(element, url, pages, sitemaps)
            if len(pages) >= MOST_URLS:
                break
    except etree.XMLSyntaxError:
        pass  # what was read before the error counts
    return {"pages": list(pages)[:MOST_URLS], "sitemaps": list(sitemaps)[:100]}


def _take(element: Any, url: str, pages: dict[str, None], sitemaps: dict[str, None]) -> None:
    name = element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""
    if name == "loc":
        parent = element.getparent()
        kind = parent.tag.rpartition("}")[2].lower() if parent is not None and isinstance(parent.tag, str) else ""
        if target := join_url(url, element.text or ""):
            if kind == "sitemap":
                sitemaps.setdefault(target)
            elif kind == "url":
                pages.setdefault(target)
    elif name in ("url", "sitemap"):
        element.clear()
