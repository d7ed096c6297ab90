"""Fields of a page: what it states about itself, in any quality of markup."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.pipelines.websites.site.html_tree import parse_html
from tabellion.pipelines.websites.site.page_fields import KEPT_LINKS, read_fields

URL = "https://www.shop.example/en/"
DATA = '<script type="application/ld+json">'


def fields(head: str = "", body: str = "", attributes: str = "", language: str = "") -> dict[str, Any]:
    return read_fields(parse_html(f"<html {attributes}><head>{head}</head><body>{body}</body></html>"), URL, language)


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title> Bread\n and  cakes </title>", "Bread and cakes"),
        ('<title>Bread | Shop</title><meta property="og:site_name" content="Shop">', "Bread"),
        ('<title>Shop - Bread - fresh</title><meta property="og:site_name" content="shop">', "Bread - fresh"),
        ("<title>Bread | Shop</title>", "Bread | Shop"),
        ('<title>Bread | Shop</title><meta property="og:title" content="All our bread">', "All our bread"),
        (f'<title>Bread – Shop</title>{DATA}{{"@type":"Article","headline":"No","name":"Bread"}}</script>', "Bread"),
        ("", ""),
        ("<svg><title>Logo</title></svg>", ""),
    ],
)  # fmt: skip
def test_the_title_is_that_of_the_page_not_of_the_site(head: str, title: str) -> None:
    """As far as the page says which is which."""
    assert fields(head)["title"] == title


@pytest.mark.parametrize(
    ("attributes", "head", "header", "language"),
    [
        ('lang="fr-CA"', "", "en", "fr-CA"),
        ('xml:lang="de"', "", "", "de"),
        ("", '<meta http-equiv="Content-Language" content="es">', "", "es"),
        ("", '<meta property="og:locale" content="pt_BR">', "", "pt-BR"),
        ("", "", "it, en", "it"),
        ('lang="{{ language }}"', "", "", ""),
    ],
)
def test_the_language_is_what_is_declared(attributes: str, head: str, header: str, language: str) -> None:
    """By the page first, then by its server."""
    assert fields(head, "", attributes, header)["language"] == language


def test_structured_data_is_read_whatever_surrounds_it() -> None:
    """Lists, graphs, comments and CDATA; invalid blocks are skipped."""
    head = """<script type="application/ld+json">[{"@type": "A"}, {"@graph": [{"@type": "B"}, {"@type": "C"}]}]</script>
    <script type="Application/LD+JSON">//<![CDATA[
    {"@type": "D", "text": "line
break"}
    //]]></script><script type="application/ld+json"><!-- {"@type": "E"}; --></script>
    <script type="application/ld+json">{"broken": </script><script type="application/ld+json">[[[[[[5]]]]]]</script>"""
    assert [block["@type"] for block in fields(head)["json_ld"]] == ["A", "B", "C", "D", "E"]


def test_structured_data_is_limited_in_size_and_depth() -> None:
    """A page cannot fill the database with it."""
    deep = '{"a":' * 500 + "1" + "}" * 500
    large = '<script type="application/ld+json">{"@type":"X","text":"' + "x" * 4000 + '"}</script>'
    assert len(fields(f'<script type="application/ld+json">{deep}</script>')["json_ld"]) == 1
    assert len(str(fields(large * 200)["json_ld"])) < 110_000


def test_links_are_absolute_distinct_and_counted() -> None:
    """Also with a base; only a limited number is kept."""
    body = """<a href="/a">First</a><a href="/a#x">Again</a><a href="https://shop.example/b"><img alt=x></a>
    <a href="https://other.example/">Other</a><a href="mailto:x@y.z">mail</a><a href="javascript:x()">x</a><a>no</a>"""
    links = fields("<base href='/fr/'>", body + '<a href="c" title="Third">&nbsp;</a>')["links"]
    assert [(link["url"], link["text"]) for link in links["internal"]] == [
        ("https://www.shop.example/a", "First"), ("https://shop.example/b", ""),
        ("https://www.shop.example/fr/c", "Third"),
    ]  # fmt: skip
    assert [link["url"] for link in links["external"]] == ["https://other.example/"]
    many = fields("", "".join(f'<a href="/{number}">x</a>' for number in range(1000)))["links"]
    assert (many["internal_count"], len(many["internal"])) == (1000, KEPT_LINKS)


def test_headings_canonical_icons_and_forwarding_are_read() -> None:
    """Icons as vectors are left out: they are not drawn."""
    found = fields(
        '<link rel="shortcut icon" href="/i.ico"><link rel=icon type="image/svg+xml" href="/i.svg">'
        '<link rel="canonical" href="/en/?a"><meta http-equiv="Refresh" content="3; URL=\'/next\'">',
        "<h1>One <b>two</b></h1><h3></h3><h2>Three<script>x</script></h2>",
    )
    assert [(one["level"], one["text"]) for one in found["headings"]] == [(1, "One two"), (2, "Three")]
    assert (found["canonical"], found["icons"]) == (
        "https://www.shop.example/en/?a",
        ["https://www.shop.example/i.ico"],
    )
    assert found["refresh"] == "https://www.shop.example/next"
    assert fields('<meta http-equiv="refresh" content="600; url=/next">')["refresh"] == ""


@pytest.mark.parametrize(
    ("head", "byline"),
    [
        (
            '<script type="application/ld+json">{"@type":"Article","author":[{"name":"Ann Baker"}]}</script>',
            "Ann Baker",
        ),
        ('<meta name="author" content="Bob Miller">', "Bob Miller"),
        ('<meta name="DC.Creator" content="Cy Oven"><meta name="author" content="Program 1.0">', "Cy Oven"),
        ('<meta property="article:author" content="https://facebook.com/x">', ""),
    ],
)
def test_the_byline_is_what_is_stated(head: str, byline: str) -> None:
    """A profile is not a name."""
    assert fields(head)["byline"] == byline
