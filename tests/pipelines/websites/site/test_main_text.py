"""The main text: the article where there is one, what is visible elsewhere."""

from __future__ import annotations

from tabellion.pipelines.websites.site.html_tree import parse_html, visible_text
from tabellion.pipelines.websites.site.main_text import (
    LONGEST_AROUND,
    extract_article,
    extract_main_text,
    extract_text_around,
)
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


def test_what_surrounds_the_main_text_is_kept_apart() -> None:
    """The footer, also one without a footer element, and the menu; not what is in the main text."""
    html = page(f"""<nav>Deals of the week</nav><article><h1>Bread</h1><p>{PROSE}</p><p>{PROSE}</p></article>
    <div class=footer>SIRET : 732 829 320 00074</div>""")
    tree = parse_html(html)
    around = extract_text_around(visible_text(tree), extract_main_text(html, tree, URL))
    assert around.split("\n")[0] == "Deals of the week"
    assert around.split("\n")[-1] == "SIRET : 732 829 320 00074"
    assert PROSE[:50] not in around


def test_of_a_long_surrounding_the_end_is_kept() -> None:
    """Whole lines, because the footer is at the end; a single line that is too long is cut."""
    lines = [f"Menu entry {number}" for number in range(2000)]
    kept = extract_text_around("\n".join(lines), "").split("\n")
    assert kept == lines[-len(kept) :]
    assert 4000 < len("\n".join(kept)) <= LONGEST_AROUND
    assert len(extract_text_around("x" * 20_000, "")) == LONGEST_AROUND


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
