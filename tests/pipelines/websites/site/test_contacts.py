"""Contacts: real addresses and numbers are found once, look-alikes are not."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.pipelines.websites.site.contacts import check_address, check_email, decode_protected, read_contacts
from tabellion.pipelines.websites.site.html_tree import parse_html, visible_text


def contacts(
    body: str, blocks: list[dict[str, Any]] | None = None, url: str = "https://shop.example/", language: str = ""
) -> dict[str, list[str]]:
    tree = parse_html(f"<body>{body}</body>")
    return read_contacts(tree, visible_text(tree), blocks or [], url, language)


@pytest.mark.parametrize(
    ("text", "email"),
    [
        ("info@Bakery.FR", "info@bakery.fr"),
        ("first.last+tag@sub.bakery.co.uk", "first.last+tag@sub.bakery.co.uk"),
        ("logo@2x.png", ""),
        ("icon@3x.retina.webp", ""),
        ("you@example.com", ""),
        ("name@domain.com", ""),
        ("0123456789abcdef0123456789abcdef@o1.ingest.bakery.io", ""),
        ("a..b@bakery.fr", ""),
        ("@bakery.fr", ""),
        ("info@bakery", ""),
        ("info@-bakery.fr", ""),
    ],
)
def test_an_email_address_is_one_that_a_person_would_write_to(text: str, email: str) -> None:
    """Images, placeholders and keys of error trackers are not."""
    assert check_email(text) == email


def test_emails_come_from_links_hidden_attributes_data_and_text_once() -> None:
    """Links first."""
    hidden = "5a" + bytes(byte ^ 0x5A for byte in b"hidden@bakery.fr").hex()
    found = contacts(
        f'<p>Write to text@bakery.fr. <a href="MAILTO:link%40bakery.fr?subject=x">mail</a> INFO@bakery.fr'
        f'<span data-cfemail="{hidden}"></span></p>',
        [{"@type": "Organization", "contactPoint": [{"email": "mailto:info@bakery.fr"}]}],
    )
    assert found["emails"] == ["link@bakery.fr", "hidden@bakery.fr", "info@bakery.fr", "text@bakery.fr"]
    assert decode_protected("zz") == decode_protected("") == ""


@pytest.mark.parametrize(
    ("body", "options", "phones"),
    [
        ('<a href="tel:+33472101030">call</a>', {}, ["+33 4 72 10 10 30"]),
        ("<p>Tél. 04 72 10 10 30</p>", {"language": "fr"}, ["+33 4 72 10 10 30"]),
        ("<p>Tél. 514 555-0199, depuis 1950</p>", {"language": "fr-CA"}, ["+1 514-555-0199"]),
        ("<p>Telefon 030 901820</p>", {"url": "https://shop.de/"}, ["+49 30 901820"]),
        ("<p>Tel. 04 72 10 10 30</p>", {}, []),
        ("<p>+44 20 7946 0958 and again +442079460958</p>", {}, ["+44 20 7946 0958"]),
        ("<p>2024-05-17 12:30, 1 234 567,89 EUR, 192.168.100.200</p>", {"language": "fr"}, []),
        ('<a href="tel:123">short</a>', {"language": "fr"}, []),
    ],
)
def test_phone_numbers_are_those_that_can_exist(body: str, options: dict[str, str], phones: list[str]) -> None:
    """In international form; without a country only those with a country code."""
    assert (
        contacts(body, None, options.get("url", "https://shop.example/"), options.get("language", ""))["phones"]
        == phones
    )


def test_addresses_come_from_data_and_markup() -> None:
    """The byline of an article is not one."""
    blocks = [{"@type": "Store", "address": {"streetAddress": "1 Mill Lane", "addressLocality": "Ely",
                                             "addressCountry": {"name": "United Kingdom"}}}]  # fmt: skip
    found = contacts("<address>By Jane Doe</address><address>5 Rue Haute<br>69001 Lyon</address>", blocks)
    assert found["addresses"] == ["1 Mill Lane, Ely, United Kingdom", "5 Rue Haute 69001 Lyon"]
    assert check_address("2024") == check_address("somewhere") == ""


def test_a_page_of_addresses_yields_a_few() -> None:
    """However many it has."""
    found = contacts("".join(f"<p>user{number}@bakery.fr</p>" for number in range(500)))
    assert len(found["emails"]) == 20
