"""The sample: useful topics first, each once, only pages of the site."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.info import PageLink
from tabellion.pipelines.websites.site.sampling import choose_pages, find_topic, same_page

HOME = "https://www.shop.example/"


def links(*paths: str) -> list[PageLink]:
    return [PageLink(f"https://shop.example{path}", "") for path in paths]


def test_topics_come_by_usefulness_and_once() -> None:
    """About, products, prices, contact and legal pages before others."""
    found = choose_pages(
        HOME,
        links("/blog/post", "/contact", "/mentions-legales", "/contact/form/contact", "/en/about-us", "/tarifs"),
        [],
        5,
    )
    assert [url.removeprefix("https://shop.example") for url, _ in found] == [
        "/en/about-us", "/tarifs", "/contact", "/mentions-legales", "/blog/post",
    ]  # fmt: skip
    assert {origin for _, origin in found} == {"link"}


def test_the_sitemap_fills_the_rest_with_its_upper_pages() -> None:
    """A page that is linked and listed counts as linked."""
    listed = ["https://shop.example/a/b/c", "https://shop.example/x", "https://shop.example/about", HOME]
    found = choose_pages(HOME, links("/about", "/y"), listed, 10)
    assert found == [
        ("https://shop.example/about", "link"), ("https://shop.example/x", "sitemap"),
        ("https://shop.example/a/b/c", "sitemap"), ("https://shop.example/y", "link"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/about", "https://shop.example/menu.pdf", "https://shop.example/cart",
        "https://shop.example/login?next=/", "https://shop.example/?add-to-cart=5", "https://www.shop.example/index.html",
        "https://shop.example", "https://shop.example:8443/about",
    ],
)  # fmt: skip
def test_other_sites_files_and_functions_are_left_out(url: str) -> None:
    """And the home page itself, however it is written."""
    assert choose_pages(HOME, [PageLink(url, "About")], [url], 5) == []


@pytest.mark.parametrize(
    ("url", "text", "topic"),
    [
        ("https://x/p/1", "À propos", "about"),
        ("https://x/ueber-uns.html", "", "about"),
        ("https://x/legal/privacy-policy", "", "privacy"),
        ("https://x/company/contact/", "", "contact"),
        ("https://x/%C3%89quipe", "", "team"),
        ("https://x/blog/about-bread", "", ""),
    ],
)
def test_a_topic_is_found_by_the_text_or_the_path(url: str, text: str, topic: str) -> None:
    """In several languages, with or without accents."""
    assert find_topic(url, text) == topic


def test_urls_of_one_page_have_one_key() -> None:
    """The query makes another page."""
    assert same_page("http://www.x.example/a/index.php") == same_page("https://x.example/a/")
    assert same_page("https://x.example/a?b") != same_page("https://x.example/a")
