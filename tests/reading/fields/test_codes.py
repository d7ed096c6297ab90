"""Invoice numbers and other codes."""

from __future__ import annotations

import pytest

from tabellion.reading.fields.codes import read_codes, read_ibans, read_tax_numbers
from tests.reading.fields.paper import sheet


@pytest.mark.parametrize(
    ("drawing", "number"),
    [
        ("Invoice No: 2024/0017", "2024/0017"), ("Facture N° F20260023 du 31/01/2026", "F20260023"),
        ("Rechnungsnummer   RE-20170509/505", "RE-20170509/505"),
        ("Mietrechnung (387) Nr. 9314110911/00/M/00/N vom 01.10.2018", "9314110911/00/M/00/N"),
        ("Invoice # RE-20190610/507 issued at 2019-06-10", "RE-20190610/507"),
        ("FACTURE N° :        F20200027", "F20200027"),
        ("Rechnungs-Nr.   Kunden-Nr.\n4711            88", "4711"),
    ],
)  # fmt: skip
def test_an_invoice_number_is_read_from_usual_layouts(drawing: str, number: str) -> None:
    """After, beside and below its label, and in headings."""
    assert read_codes(sheet(drawing), "invoice_number")[0].value == number


def test_other_numbers_are_not_the_invoice_number() -> None:
    """Customer and order numbers are near by."""
    drawn = sheet("Kundennummer: 987-654\nIhre Auftragsnummer: ABC-123\nRechnungsnummer: 2014-03")
    assert read_codes(drawn, "invoice_number")[0].value == "2014-03"


def test_a_date_is_not_an_invoice_number() -> None:
    """The date beside "Facture" is not its number."""
    drawn = sheet("Facture   12/05/2024\nFacture n° 88-A")
    assert read_codes(drawn, "invoice_number")[0].value == "88-A"


def test_a_bank_account_is_recognised_by_its_form() -> None:
    """An IBAN needs no label."""
    assert [one.value for one in read_ibans(sheet("IBAN DE88 2008 0000 0970 3757 00"))] == ["DE88200800000970375700"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("USt-ID: DE136695976", "VAT", "DE136695976"),
        ("N° TVA intra : FR 11 123 456 782", "VAT", "FR11123456782"),
        ("TPS : 12345 6789 RT0001", "GST", "123456789RT0001"),
        ("T.V.Q. 1012345678 TQ 0001", "QST", "1012345678TQ0001"),
    ],
)
def test_tax_numbers_are_recognised_and_named_by_their_form(text: str, kind: str, value: str) -> None:
    """With spaces as people write them, each listed once."""
    assert [(one.how, one.value) for one in read_tax_numbers(sheet(f"{text}\n{text}"))] == [(kind, value)]


def test_canadas_federal_number_comes_first() -> None:
    """It is the vendor's; the provincial one is printed beside it."""
    drawn = sheet("TVQ 1012345678 TQ 0001\nTPS 123456789 RT 0001")
    assert [one.how for one in read_tax_numbers(drawn)] == ["GST", "QST"]
