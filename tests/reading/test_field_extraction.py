"""Fields of pages, with and without XML beside them."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from tabellion.reading.einvoice.invoice import EInvoice
from tabellion.reading.field import Field
from tabellion.reading.field_extraction import DOUBTED, extract_fields, extract_in_child
from tabellion.reading.issue import Issue
from tabellion.reading.page import serialize_page
from tabellion.reading.types import typefile
from tabellion.reading.xml_difference import describe_difference
from tests.reading import invoices
from tests.reading.fields.paper import paper

INVOICE = typefile.load("invoice", ())
PAGES = paper(
    "Nordlicht GmbH\nHafenstr. 9\n24103 Kiel\n\nRechnung Nr. 118 vom 14.03.2024\n\nNettobetrag   100,00 €\nMwSt. 19 "
    "%     19,00 €\n"
    "Gesamtbetrag  119,00 €"
)
XML = EInvoice(
    "Factur-X", "EN 16931", "factur-x.xml",
    {
        name: Field(value, 0.99, quote=value, source="xml")
        for name, value in {
            "vendor": "Nordlicht GmbH", "invoice_number": "118", "invoice_date": "2024-03-14", "currency": "EUR",
            "subtotal": "100.00", "tax": "19.00", "total": "119.00",
        }.items()
    },
)  # fmt: skip


def test_xml_is_exact_and_located_on_the_page() -> None:
    """The XML's value wins, with the box where the page has the same."""
    fields, issues = extract_fields(PAGES, XML, INVOICE)
    assert (fields["total"].source, fields["total"].value, fields["total"].page) == ("xml", "119.00", 1)
    assert fields["total"].box is not None
    assert "printed on the page" in fields["total"].reasons
    assert (fields["total"].quote, fields["subtotal"].quote) == ("119,00 €", "100,00 €")
    assert issues == []


def test_words_complete_the_xml() -> None:
    """An address that the profile lacks is read from the page; sums are not."""
    fields, _ = extract_fields(PAGES, XML, INVOICE)
    assert (fields["vendor_address"].value, fields["vendor_address"].source) == ("Hafenstr. 9 24103 Kiel", "text")
    less = replace(XML, fields={name: field for name, field in XML.fields.items() if name != "tax"})
    assert "tax" not in extract_fields(PAGES, less, INVOICE)[0]


def test_truncated_xml_is_completed() -> None:
    """Without a total in the XML, the words supply everything that is missing."""
    broken = replace(XML, fields={"vendor": XML.fields["vendor"]}, issues=(Issue("xml_damaged", "error", "cut"),))
    fields, issues = extract_fields(PAGES, broken, INVOICE)
    assert (fields["total"].value, fields["total"].source, issues[0].code) == ("119.00", "text", "xml_damaged")


def test_a_difference_between_page_and_xml_is_reported() -> None:
    """Someone would pay by one and book by the other."""
    other = replace(XML, fields={**XML.fields, "total": Field("911.00", 0.99, quote="911.00", source="xml")})
    _, issues = extract_fields(PAGES, other, INVOICE)
    assert issues == [describe_difference("119.00", "911.00")]


def test_values_of_the_page_are_offered_beside_xml() -> None:
    """Where they differ, the printed value comes first, with its place; only on request."""
    arguments: dict[str, Any] = {
        "pages": [serialize_page(page) for page in PAGES], "types": [str(typefile.SHIPPED / "invoice.yaml")],
        "attachments": [("factur-x.xml", base64.b64encode(invoices.CII.encode()).decode())],
    }  # fmt: skip
    [reading] = extract_in_child(None, **arguments, offers=True)
    assert (reading["fields"]["total"]["value"], reading["fields"]["total"]["source"]) == ("144.00", "xml")
    first = reading["offers"]["total"][0]
    assert (first["value"], first["from"], first["page"], first["quote"]) == ("119.00", "words", 1, "119,00 €")
    [silent] = extract_in_child(None, **arguments)
    assert "offers" not in silent
    assert silent["fields"] == reading["fields"]


def test_wrong_check_digits_are_doubted() -> None:
    """An IBAN with wrong check digits is kept, with a low confidence and the reason."""
    fields, _ = extract_fields(paper("Rechnung Nr. 5\nIBAN DE88 2008 0000 0970 3757 01"), None, INVOICE)
    assert (fields["iban"].value, fields["iban"].confidence) == ("DE88200800000970375701", DOUBTED)
    assert "but its check digits are wrong" in fields["iban"].reasons


def test_rules_of_the_type_are_checked() -> None:
    """Sums that do not add up are an error of the document."""
    _, issues = extract_fields(
        paper(
            "Shop GmbH\nRechnung Nr. 5 vom 01.02.2024\nNettobetrag   100,00 €\nMwSt. 19 %     19,00 €\nGesamtbetrag  "
            "120,00 €"
        ),
        None,
        INVOICE,
    )
    assert ("rule", "error", "total adds up") in [(issue.code, issue.severity, issue.rule) for issue in issues]
