"""The local reader as a whole."""

from __future__ import annotations

from tabellion.reading.fields.reader import read_fields
from tabellion.reading.types import typefile
from tests.reading.fields.paper import fields, paper, values

INVOICE = """
Nordlicht Werkzeuge GmbH                                  Rechnung Nr. 2024-118
Hafenstr. 9                                               Datum: 14.03.2024
24103 Kiel

Firma Beispiel AG
Ringweg 1
20095 Hamburg

Pos  Beschreibung             Menge   Einzelpreis      Betrag
1    Bohrer 8 mm              10      3,50              35,00
2    Akkuschrauber            1       149,00           149,00

                              Nettobetrag              184,00 €
                              zzgl. 19 % MwSt.          34,96 €
                              Gesamtbetrag             218,96 €

Zahlbar bis 13.04.2024        IBAN DE88 2008 0000 0970 3757 00
"""


def test_an_invoice_is_read() -> None:
    """Every field of a typical invoice."""
    read = values(INVOICE)
    assert read["vendor"] == "Nordlicht Werkzeuge GmbH"
    assert read["vendor_address"] == "Hafenstr. 9 24103 Kiel"
    assert (read["invoice_number"], read["invoice_date"], read["due_date"]) == ("2024-118", "2024-03-14", "2024-04-13")
    assert (read["subtotal"], read["tax"], read["total"], read["currency"]) == ("184.00", "34.96", "218.96", "EUR")
    assert read["iban"] == "DE88200800000970375700"
    items = read["line_items"]
    assert isinstance(items, list)
    assert [item["description"] for item in items] == ["Bohrer 8 mm", "Akkuschrauber"]


def test_every_field_has_its_place_and_reasons() -> None:
    """Page, box, quote, source, reasons and a confidence."""
    total = fields(INVOICE)["total"]
    assert (total.page, total.quote, total.source) == (1, "218,96 €", "text")
    assert total.box is not None
    assert 0.68 < total.box[0] < total.box[2] < 0.8
    assert "amounts add up" in total.reasons
    assert total.confidence > 0.9


def test_badly_read_words_are_trusted_less() -> None:
    """The same page, read from an image with a low score."""
    doctype = typefile.load("invoice", ())
    clear, poor = (read_fields(paper(INVOICE, source="ocr", score=score), doctype) for score in (1.0, 0.8))
    assert poor["vendor"].confidence < clear["vendor"].confidence
    assert "OCR score 0.80" in poor["vendor"].reasons


def test_a_digit_that_contradicts_the_arithmetic_is_reported() -> None:
    """The value stays as it was read; the reasons say which digit would make the sums add up."""
    total = fields("Subtotal  156.25\nVAT        31.25\nTotal     137.50", source="ocr")["total"]
    assert total.value == "137.50"
    assert any(reason.startswith("but possibly 187.50 (3 read instead of 8") for reason in total.reasons)


def test_an_empty_page_has_no_fields() -> None:
    """No words, no fields."""
    assert values("") == {}
