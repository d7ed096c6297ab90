"""Taxes one by one."""

from __future__ import annotations

from decimal import Decimal

from tabellion.reading.fields.taxes import read_taxes
from tests.reading.fields.paper import sheet, values


def test_rows_whose_arithmetic_is_right_are_taxes() -> None:
    """Rate times base is the tax, within the row."""
    drawn = sheet(
        "USt. Satz   Nettopreis   Ust.-Betrag\n7%          160,00 €     11,20 €\n19%         336,00 €     63,84 €"
    )
    taxes = read_taxes(drawn, Decimal("496.00"), Decimal("75.04"))
    assert [(str(one.rate), str(one.base), str(one.amount)) for one in taxes] == [
        ("7", "160.00", "11.20"),
        ("19", "336.00", "63.84"),
    ]


def test_the_taxes_of_quebec_are_named() -> None:
    """TPS and TVQ, each with its amount, on the subtotal."""
    read = values("Sous-total   86,91 $\nTPS           4,35 $\nTVQ           8,67 $\nTotal        99,93 $")
    assert read["taxes"] == [
        {"name": "TPS", "rate": None, "base": "86.91", "amount": "4.35"},
        {"name": "TVQ", "rate": None, "base": "86.91", "amount": "8.67"},
    ]
    assert (read["tax"], read["total"]) == ("13.02", "99.93")


def test_a_round_rate_is_written_out() -> None:
    """Twenty percent is 20, not 2E+1."""
    read = values("Subtotal   100.00\nVAT 20 %    20.00\nTotal      120.00")
    assert read["taxes"] == [{"name": "VAT", "rate": "20", "base": "100.00", "amount": "20.00"}]


def test_taxes_that_do_not_add_up_are_left_out() -> None:
    """A list that contradicts the tax does not help."""
    assert read_taxes(sheet("GST 6%  1.00"), None, Decimal("2.00")) == []


def test_names_with_dots_are_the_same_taxes() -> None:
    """T.P.S. is TPS."""
    read = values("Sous-total   100,00 $\nT.P.S.         5,00 $\nT.V.Q.         9,98 $\nTotal        114,98 $")
    taxes = read["taxes"]
    assert isinstance(taxes, list)
    assert [tax["name"] for tax in taxes] == ["TPS", "TVQ"]
