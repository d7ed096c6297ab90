"""The main text: the article where there is one, what is visible elsewhere."""

from __future__ import annotations

from tabellion.pipelines.websites.site.html_tree import parse_html
from tabellion.pipelines.websites.site.main_text import extract_article, extract_main_text
from tests.pipelines.websites.site.sites import PROSE, page

URL = "https://shop.example/"


def text(html: str) -> str:
    return extract_main_text(html, parse_html(html), URL)


def test_an_article_is_read_without_what_surrounds_it() -> None:
    """Menus, footers and comments are not part of it."""
    body = f"""<nav><a href=/>Home</a> <a href=/x>Deals of the week</a></nav><article><h1>Bread</h1><p>{PROSE}</p>
    <p>{PROSE}</p></article><footer>All rights reserved by the shop</footer>"""
    found = text(page(body))
    assert found.count(PROSE[:50]) >= 1
    assert "Deals of the week" not in found
    assert "All rights reserved" not in found


def test_a_page_of_short_blocks_is_read_as_it_is_seen() -> None:
    """A home page often has no article; inline elements do not break its lines."""
    body = """<nav>Menu</nav><div><h2>Bread</h2><span>From <b>two</b> mills</span></div><div>Cakes</div>
    <script>var hidden</script><footer>Imprint</footer>"""
    assert text(page(body)) == "Bread\nFrom two mills\nCakes"


def test_a_page_that_is_all_menu_keeps_it() -> None:
    """Rather than to have no text at all."""
    assert text(page("<nav>Bread Cakes</nav>")) == "Bread Cakes"
    assert text(page("")) == ""


def test_author_and_date_of_an_article_are_found_in_its_markup() -> None:
    """Where the page states them for people only."""
    stated = '<p class="author">By Ann Baker</p><time datetime="2024-03-01"></time>'
    body = f"<article><h1>Bread</h1>{stated}<p>{PROSE}</p></article>"
    assert extract_article(page(body), URL) == {"byline": "Ann Baker", "published": "2024-03-01"}
    assert extract_article("", URL) == {"byline": "", "published": ""}
