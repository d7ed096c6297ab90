"""Postal addresses in plain text: found by street and postal code, and nothing else is."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.postal import find_postal_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("© Birch SARL, 12 bis, rue de la République, 69002 Lyon, France", "12 bis, rue de la République, 69002 Lyon"),
        ("Cabinet – 4 place Royale – 44000 Nantes et Paris", "4 place Royale – 44000 Nantes"),
        ("Birch GmbH, Lindenstraße 4, 10969 Berlin", "Lindenstraße 4, 10969 Berlin"),
        ("Registered office: 5 Mill Lane, Leeds LS1 4AP.", "5 Mill Lane, Leeds LS1 4AP"),
        ("100 King Street West, Toronto, ON M5X 1A9", "100 King Street West, Toronto, ON M5X 1A9"),
        ("1 Main Street, Springfield, IL 62701", "1 Main Street, Springfield, IL 62701"),
    ],
)
def test_an_address_is_found_in_its_line(text: str, address: str) -> None:
    """Without what stands before and after it."""
    assert list(find_postal_addresses(f"Contact\n{text}\nPrivacy")) == [address]


@pytest.mark.parametrize(
    "text", ["Since 1987 we sell 12000 toys", "SIRET 732 829 320 00074", "3 rue\n69002 Lyon", "1 " * 5000, "Aa " * 5000]
)
def test_other_numbers_are_not_addresses(text: str) -> None:
    """Nor is an address put together from two lines."""
    assert list(find_postal_addresses(text)) == []
