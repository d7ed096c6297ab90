"""Numbers of an e-invoice."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tabellion.reading.einvoice.terms import number
from tabellion.reading.einvoice.xmltree import XmlNode


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1500.00", "1500"), ("-.5", "-0.5"), ("1.500,25", "1500.25"), ("1,500.25", "1500.25"), ("1 500,25", "1500.25"),
        ("12.50 EUR", "12.5"), ("EUR 12.50", "12.5"),
        ("1.5E3", None), ("1e2", None), ("12 of 13", None), ("twelve", None), ("", None),
    ],
)  # fmt: skip
def test_a_number_is_read_leniently_but_never_as_another(text: str, value: str | None) -> None:
    """Separators and units are accepted; a letter between digits makes it invalid."""
    node = XmlNode("Amount", "", {}, 1)
    node.pieces.append(text)
    assert number(node) == (None if value is None else Decimal(value))
