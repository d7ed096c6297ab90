"""Sitemaps: pages and further sitemaps, from XML of any quality."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.sitemap_xml import MOST_URLS, read_sitemap_urls

URL = "https://shop.example/sitemap.xml"
A, B = "https://shop.example/a", "https://shop.example/b"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


@pytest.mark.parametrize(
    ("data", "pages", "sitemaps"),
    [
        (f'<urlset xmlns="{NAMESPACE}"><url><loc> {A} </loc></url></urlset>', [A], []),
        ("<sitemapindex><sitemap><loc>/b.xml</loc></sitemap></sitemapindex>", [], ["https://shop.example/b.xml"]),
        ("<urlset><url><loc>/a</loc><image><loc>/picture.png</loc></image></url>", ["https://shop.example/a"], []),
        ("<urlset><url><loc>/a</loc></url><url><loc>/b&c</loc></url><<", ["https://shop.example/a"], []),
        (f"{A}\nnot a url\n{B}", [A, B], []),
        ("<html><body>not found</body></html>", [], []),
        ("", [], []),
        ("<urlset><url><loc>javascript:alert(1)</loc></url><url><loc>file:///etc/passwd</loc></url></urlset>", [], []),
    ],
)  # fmt: skip
def test_the_urls_of_a_sitemap_are_read(data: str, pages: list[str], sitemaps: list[str]) -> None:
    """With or without a namespace, damaged or as plain text."""
    found = read_sitemap_urls(data.encode(), URL)
    assert found["pages"][: len(pages)] == pages
    assert found["sitemaps"] == sitemaps
    if not pages:
        assert found["pages"] == []


def test_entities_are_not_expanded() -> None:
    """Neither a billion laughs nor a file."""
    bomb = """<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
    <!ENTITY f SYSTEM "file:///etc/hostname">]><urlset><url><loc>/&b;</loc></url><url><loc>/&f;</loc></url></urlset>"""
    assert all("aaaa" not in url for url in read_sitemap_urls(bomb.encode(), URL)["pages"])


def test_a_long_sitemap_is_read_in_part() -> None:
    """The first few thousand pages are enough for a sample."""
    data = "<urlset>" + "".join(f"<url><loc>/{number}</loc></url>" for number in range(50_000))
    assert len(read_sitemap_urls(data.encode(), URL)["pages"]) == MOST_URLS
