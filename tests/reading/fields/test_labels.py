"""Labels in lines."""

from __future__ import annotations

import pytest

from tabellion.reading.fields.labels import Label, Lexicon
from tabellion.reading.fields.layout import lay_out
from tabellion.reading.page import TextSource
from tests.reading.fields.paper import paper

LEXICON = Lexicon.of(
    {
        "total": ["Total", "Grand Total", "Gesamtbetrag"],
        "subtotal": ["Sub-total", "Total HT", "Sous-total"],
        "tax": ["GST", "USt."],
        "invoice_number": ["Invoice No"],
        "": ["Total Qty"],
    }
)


def found(text: str, source: TextSource = "text") -> list[Label]:
    (line,) = lay_out(paper(text, source=source)).lines
    return list(LEXICON.find(line))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("TOTAL", ["total"]), ("Sous - Total :", ["subtotal"]), ("Total HT", ["subtotal"]), ("Total Qty", [""]),
        ("Totality", []),
        ("GRAND TOTAL", ["total"]), ("InvoiceNo: 17", ["invoice_number"]), ("GST and Total", ["tax", "total"]),
    ],
)  # fmt: skip
def test_the_longest_phrase_wins(text: str, fields: list[str]) -> None:
    """Case, accents and punctuation do not matter; a longer phrase beats the shorter one inside it."""
    assert [label.field for label in found(text)] == fields


def test_words_about_tax_belong_to_the_label() -> None:
    """ "(incl. GST)" says what the total is, and is not a label itself."""
    (label,) = found("Total (Inclusive of GST @ 6%) 41.50")
    assert (label.field, label.taxed) == ("total", True)
    assert label.line.text[label.end :].strip() == "41.50"
    assert found("Total ohne USt. 473,00")[0].taxed is False


def test_a_misread_letter_is_tolerated_on_scans_only() -> None:
    """One wrong letter is an OCR error; a text layer has none."""
    assert [(label.field, label.exact) for label in found("Gesamtbetraq", "ocr")] == [("total", False)]
    assert found("Gesamtbetraq", "text") == []


def test_a_digit_for_a_letter_is_tolerated_on_scans() -> None:
    """Zero for o and one for l are common errors."""
    assert [label.field for label in found("T0ta1", "ocr")] == ["total"]


def test_a_label_knows_whether_it_leads_its_line() -> None:
    """Only punctuation is before a leading label."""
    assert found("- Total")[0].leads
    assert not found("the Total")[0].leads
