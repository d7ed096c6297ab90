"""Dates of issue and due dates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tabellion.reading.fields.dates import read_dates
from tests.reading.fields.paper import fields, sheet, values


def dates(drawing: str, kind: str = "invoice") -> tuple[str | None, str | None]:
    read = read_dates(sheet(drawing, kind=kind))
    return tuple(read[name][0].value.isoformat() if read[name] else None for name in ("invoice_date", "due_date"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    "drawing",
    [
        "Invoice date: 05 March 2024\nDue date: 04 April 2024",
        "Date de facture   05/03/2024\nDate d'échéance   04/04/2024",
        "Rechnungsdatum    Fällig am\n05.03.2024        04.04.2024",
        "Rechnung Nr. 17 vom 05.03.2024\nBitte überweisen Sie bis zum 04.04.2024.",
        "Invoice # 17 issued at 2024-03-05\nPlease remit until 2024-04-04.",
    ],
)
def test_issued_and_due_are_read_from_usual_layouts(drawing: str) -> None:
    """Beside, below and after their labels, and in sentences."""
    assert dates(drawing) == ("2024-03-05", "2024-04-04")


def test_other_dates_are_not_the_invoice_date() -> None:
    """Delivery, order and period have their own dates."""
    drawing = "Lieferdatum: 01.02.2024\nDatum: 05.02.2024\nBestellung vom 20.01.2024\nZeitraum 01.01.2024 - 31.01.2024"
    assert dates(drawing)[0] == "2024-02-05"


def test_a_discount_deadline_is_not_the_due_date() -> None:
    """Skonto ends earlier."""
    drawing = (
        "Rechnungsdatum 01.06.2024\nZahlbar innerhalb 30 Tagen netto bis 01.07.2024, 3% Skonto innerhalb 10 "
        "Tagen bis 11.06.2024"
    )
    assert dates(drawing)[1] == "2024-07-01"


def test_a_receipt_has_its_date_without_a_label() -> None:
    """The date beside a time is the date of purchase."""
    assert dates("SHOP\nTotal 5.00\n23-01-2019 13:14:15 PRINT BY: root", "receipt")[0] == "2019-01-23"


def test_an_ambiguous_date_is_doubted() -> None:
    """Where day and month cannot be distinguished, the reasons say so."""
    assert values("Invoice date: 03/04/2024\nInvoice No 7")["invoice_date"] == "2024-04-03"
    assert values("Invoice date: 03/04/2024\nBoston, MA 02108\nInvoice No 7")["invoice_date"] == "2024-03-04"


def test_the_due_date_is_never_before_the_invoice_date() -> None:
    """An ambiguous date is read so that the due date is later, and doubted."""
    read = fields(
        "Maple Tools Inc.\n5 King St\nToronto ON M5V 1K4\nInvoice No 7\nDate: 03/04/2024\nDue date: 04/03/2024"
    )
    assert (read["invoice_date"].value, read["due_date"].value) == ("2024-03-04", "2024-04-03")
    assert read["invoice_date"].confidence <= 0.65
    assert "but day and month could be swapped" in read["invoice_date"].reasons


def test_reading_dates_in_the_other_order_leaves_the_labels_alone() -> None:
    """A copy of the sheet with another order has its own labels by line, each once."""
    original = sheet("Date: 03/04/2024\nDue date: 04/03/2024")
    labels = sum(map(len, original.on_line.values()))
    copy = replace(original, order="mdy")
    assert [sum(map(len, one.on_line.values())) for one in (original, copy)] == [labels, labels]
