"""Assembly: what several pages say is listed once, with the page that said it first."""

from __future__ import annotations

from typing import Any

from tabellion.pipelines.websites.site.assembly import (
    contacts_of,
    json_ld_of,
    links_of,
    page_info,
    social_of,
    technologies_of,
)
from tabellion.pipelines.websites.site.sandbox import ParsedPage

A, B = "https://shop.example/a", "https://shop.example/b"


def technology(version: str, evidence: str) -> dict[str, str]:
    return {"name": "PHP", "category": "language", "version": version, "kind": "header", "evidence": evidence}


def test_each_finding_is_listed_once_with_its_page() -> None:
    """The first page that has it; for technologies the first that knows the version."""
    first = ParsedPage({}, {
        "contacts": {"emails": ["x@bakery.fr"]}, "social": [{"network": "X", "url": "https://x.com/a"}],
        "technologies": [technology("", "cookie")],
    })  # fmt: skip
    second = ParsedPage({}, {
        "contacts": {"emails": ["X@bakery.fr", "y@bakery.fr"]}, "social": [{"network": "X", "url": "https://x.com/A"}],
        "technologies": [technology("8.3", "header")],
    })  # fmt: skip
    pages = [(A, first), (B, second)]
    assert [(one.value, one.page) for one in contacts_of(pages).emails] == [("x@bakery.fr", A), ("y@bakery.fr", B)]
    assert [(one.url, one.page) for one in social_of(pages)] == [("https://x.com/a", A)]
    assert [(one.version, one.page) for one in technologies_of(pages)] == [("8.3", B)]


def test_a_child_may_send_anything() -> None:
    """A compromised child cannot make the worker fail."""
    odd: Any
    for odd in (None, 5, "text", [1], {"emails": 5, "internal": [None], "internal_count": "x"}):
        parsed = ParsedPage(
            {"title": odd, "page_title": odd, "headings": odd, "links": odd, "json_ld": odd},
            {"contacts": odd, "social": odd, "technologies": odd},
            {"text": odd, "byline": odd},
        )
        assert contacts_of([(A, parsed)]).emails == ()
        assert social_of([(A, parsed)]) == ()
        assert technologies_of([(A, parsed)]) == ()
        assert links_of(parsed).internal_count == 0
        assert all(isinstance(block, dict) for block in json_ld_of(parsed))
        assert page_info(A, "home", 200, parsed, rendered=False).headings == ()


def test_without_a_main_text_the_visible_text_counts() -> None:
    """Only if the main text could not be extracted: a page may have none."""
    shown = {"visible": "Bread and cakes"}
    assert (
        page_info(A, "link", 200, ParsedPage({}, shown, {}, "took too long"), rendered=False).text == "Bread and cakes"
    )
    assert page_info(A, "link", 200, ParsedPage({}, shown, {"text": ""}), rendered=False).text == ""
