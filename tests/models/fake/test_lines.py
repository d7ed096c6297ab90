"""Labels and the values after them."""

from __future__ import annotations

import pytest

from tabellion.models.fake.lines import LabelledLines, words

TEXT = "Invoice No.: 17   Date: 2026-11-30\nTotal amount due 99.50\nVAT : 5\nSee https://example.com"


@pytest.mark.parametrize(
    ("phrase", "values"),
    [
        ("invoice no", ["17"]),
        ("date", ["2026-11-30"]),
        ("total amount due", ["99.50"]),
        ("total", ["amount due 99.50"]),
        ("vat", ["5"]),
        ("iban", []),
        ("", []),
    ],
)
def test_the_value_after_a_label(phrase: str, values: list[str]) -> None:
    """With a colon, without one, or in the middle of a line."""
    assert list(LabelledLines(TEXT).behind(phrase)) == values


def test_names_of_every_style_are_the_same_words() -> None:
    """snake_case, camelCase and prose match."""
    assert words("invoice_number") == words("invoiceNumber") == words("Invoice Number") == "invoice number"
