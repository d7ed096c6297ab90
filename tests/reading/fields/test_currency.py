"""The currency of a document."""

from __future__ import annotations

import pytest

from tests.reading.fields.paper import values


@pytest.mark.parametrize(
    ("drawing", "code"),
    [
        ("Total 12,00 €", "EUR"), ("Währung: CHF\nTotal 12.00", "CHF"),
        ("Beträge in          EUR\nSumme 12,00", "EUR"), ("TOTAL RM 12.00", "MYR"),
        ("TPS 0,60 $\nTVQ 1,20 $\nTotal 13,80 $", "CAD"), ("Sales tax $1.00\nTotal $13.00\nBoston, MA 02108", "USD"),
        ("Total US$ 13.00\nShipped to Toronto, Canada", "USD"), ("Total $13.00\nShipped to Toronto, Canada", "CAD"),
        ("Total 12.00", None),
        ("Wirt Franz\n1010 Wien, Österreich\nSumme 12,00", "EUR"),
        ("Total SFr. 12.50", "CHF"), ("Total SFR 12.50", "CHF"), ("SFR\nFacture mobile SFR\nTotal 12.00", None),
        ("Celkem 1 250,00 Kč", "CZK"), ("Razem 12,50 zł", "PLN"), ("Mo. - Fr. 8.00 - 18.00\nSumme 12,00", None),
        ("Kedai Sdn Bhd\nKuala Lumpur\nTotal 12.00", "MYR"),
    ],
)  # fmt: skip
def test_a_currency_is_read_or_left_open(drawing: str, code: str | None) -> None:
    """Signs, codes, labels; which dollar, by the country; and none where nothing indicates one."""
    assert values(drawing).get("currency") == code
