"""Alternative values found in the words for each field."""

from __future__ import annotations

from typing import Any

from tabellion.reading.alternative import MOST, Alternative
from tabellion.reading.fields.reader import read_fields, read_fields_and_alternatives
from tabellion.reading.types import typefile
from tests.reading.fields.paper import paper

INVOICE = """
Northern Tool Hire Ltd                                    Invoice number: INV-2024-118
12 High Street                                            Date: 14 March 2024
London

Bill to: Example Builders Ltd

Drill                                                      35.00
Saw                                                        149.00

                              Subtotal                 184.00
                              VAT                       36.80
                              Total                    220.80

Order PO-88123      Delivered 12 March 2024        Please pay by 13 April 2024
"""


def offered(drawing: str, name: str, kind: str = "invoice") -> list[Alternative]:
    return list(read_fields_and_alternatives(paper(drawing), typefile.load(kind, ()))[1][name])


def values(drawing: str, name: str, kind: str = "invoice") -> list[Any]:
    return [one.value for one in offered(drawing, name, kind)]


def test_amounts_dates_numbers_and_names_are_offered() -> None:
    """The candidates first, then all others of the same kind; never the field's own value."""
    assert values(INVOICE, "total") == ["184.00", "149.00", "36.80", "35.00"]
    assert values(INVOICE, "tax")[:2] == ["220.80", "184.00"]
    assert values(INVOICE, "invoice_date") == ["2024-03-12", "2024-04-13"]
    assert values(INVOICE, "invoice_number") == ["PO-88123"]
    assert "Example Builders Ltd" in values(INVOICE, "vendor")
    assert values(INVOICE, "customer")[0] == "Northern Tool Hire Ltd"


def test_an_offer_has_its_place() -> None:
    """Page, box and the words."""
    [first, *_] = offered(INVOICE, "total")
    assert (first.page, first.quote, first.source) == (1, "184.00", "page")
    assert first.box is not None
    assert 0.65 < first.box[0] < first.box[2] < 0.8


def test_a_field_that_was_not_found_has_offers() -> None:
    """A missing total can be chosen with one key too."""
    drawing = "Acme Ltd\n\nNothing said of these: 12.50 and 99.00 of 3 May 2024"
    fields, offers = read_fields_and_alternatives(paper(drawing), typefile.load("receipt", ()))
    assert "due_date" not in fields
    assert [one.value for one in offers["tax"]][-1] == "12.50"


def test_an_ambiguous_date_is_offered_the_other_way() -> None:
    """Day and month are swapped."""
    assert values("Acme Ltd\nInvoice date: 03/04/2024\nTotal 12.00", "invoice_date") == ["2024-03-04"]


def test_a_misread_sum_is_offered_corrected() -> None:
    """With the one character that makes the sums add up."""
    pages = paper("Subtotal: 150.00\nTax: 37.50\nTotal: 137.50", source="ocr")
    fields, offers = read_fields_and_alternatives(pages, typefile.load("invoice", ()))
    assert fields["total"].value == "137.50"
    assert offers["total"][0].value == "187.50"


def test_offers_do_not_change_what_is_read() -> None:
    """The same fields with the same confidence, with and without."""
    kind = typefile.load("invoice", ())
    assert read_fields_and_alternatives(paper(INVOICE), kind)[0] == read_fields(paper(INVOICE), kind)


def test_the_number_of_offers_is_limited() -> None:
    """Nine of a hundred amounts, as many as there are keys; pages without words offer nothing."""
    many = "Acme Ltd\n" + "\n".join(f"Item {number}      {number}.50" for number in range(1, 100)) + "\nTotal 9999.00"
    assert len(values(many, "total")) == MOST
    assert read_fields_and_alternatives([], typefile.load("invoice", ())) == ({}, {})
