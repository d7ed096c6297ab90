"""Invoices with embedded XML: every field exact, every error reported, and no false alarms."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.reading.einvoice.invoice import EInvoice, read_einvoice, read_xml
from tests.reading.invoices import CII, UBL, ZUGFERD_1, changed

CLAIM = {"facturx": {"profile": "EN 16931", "filename": "factur-x.xml", "type": "INVOICE"}}


def values(invoice: EInvoice) -> dict[str, Any]:
    return {name: field.value for name, field in invoice.fields.items()}


def faults(data: bytes) -> set[str]:
    return {issue.rule for issue in read_xml(data).issues if issue.severity == "error"}


def test_cii_is_read_exactly() -> None:
    """Every field of a Factur-X invoice, normalised, with its quote and its reason."""
    invoice = read_xml(CII.encode())
    assert (invoice.syntax, invoice.profile, invoice.issues) == ("Factur-X", "EN 16931", ())
    assert values(invoice) == {
        "vendor": "Quincaillerie Durand", "vendor_address": "3 rue Haute, 69001 Lyon, FR",
        "vendor_tax_id": "FR40392809137", "customer": "Mairie", "invoice_number": "F-7", "invoice_date": "2026-03-14",
        "due_date": "2026-04-13", "currency": "EUR", "subtotal": "120.00", "tax": "24.00", "total": "144.00",
        "taxes": [{"rate": "20", "base": "120.00", "amount": "24.00"}],
        "line_items": [
            {"description": "Vis 🔩 M4", "quantity": "400", "unit_price": "0.30", "amount": "120.00", "tax_rate": "20"},
        ],
        "iban": "FR7630006000011234567890189", "purchase_order": "PO 9", "payment_terms": "30 jours",
    }  # fmt: skip
    date = invoice.fields["invoice_date"]
    assert (date.quote, date.source, date.confidence) == ("20260314", "xml", 0.99)
    assert date.reasons == ("embedded Factur-X XML, profile EN 16931",)


def test_ubl_is_read_exactly() -> None:
    """XRechnung in UBL gives the same fields."""
    invoice = read_xml(UBL.encode())
    assert (invoice.syntax, invoice.profile, invoice.issues) == ("XRechnung", "XRECHNUNG", ())
    result = values(invoice)
    assert result["line_items"] == [
        {"description": "Beratung", "quantity": "2.5", "unit_price": "40.00", "amount": "100.00", "tax_rate": "19"}
    ]
    assert [result[name] for name in ("vendor", "vendor_address", "vendor_tax_id", "customer", "invoice_number")] == [
        "Müller GmbH", "Ecke 12, 50667 Köln, DE", "DE123456789", "Stadt Bonn", "R-12",
    ]  # fmt: skip
    assert [result[name] for name in ("invoice_date", "due_date", "subtotal", "tax", "total", "purchase_order")] == [
        "2026-03-14", "2026-04-13", "90.00", "17.10", "107.10", "B-3",
    ]  # fmt: skip
    assert result["iban"] == "DE02120300000000202051"


def test_a_ubl_credit_note_is_read() -> None:
    """A credit note has its own root and its own names for lines, and positive amounts are fine."""
    data = (
        UBL.replace("Invoice-2", "CreditNote-2").replace("<Invoice", "<CreditNote").replace("</Invoice", "</CreditNote")
    )
    for old, new in (("InvoiceLine", "CreditNoteLine"), ("InvoicedQuantity", "CreditedQuantity")):
        data = data.replace(old, new)
    data = data.replace(
        "<cbc:InvoiceTypeCode>380</cbc:InvoiceTypeCode>", "<cbc:CreditNoteTypeCode>381</cbc:CreditNoteTypeCode>"
    )
    invoice = read_xml(data.encode())
    assert invoice.issues == ()
    assert values(invoice)["total"] == "107.10"
    assert len(values(invoice)["line_items"]) == 1


def test_zugferd_1_is_read_and_judged_mildly() -> None:
    """ZUGFeRD 1, release candidate too: remarks are not lines, and the requirements of EN 16931 do not apply."""
    invoice = read_xml(ZUGFERD_1.encode())
    assert (invoice.syntax, invoice.profile) == ("ZUGFeRD 1.0", "COMFORT")
    result = values(invoice)
    assert (result["vendor"], result["vendor_tax_id"], result["total"]) == ("Bäckerei Korn", "22/815", "11.90")
    assert [item["description"] for item in result["line_items"]] == ["Roggenbrot"]
    assert {(issue.severity, issue.rule) for issue in invoice.issues} >= {("warning", "BR-CO-10")}
    assert not [issue for issue in invoice.issues if issue.severity == "error"]


def test_a_profile_without_lines_has_no_line_items() -> None:
    """MINIMUM: the field is absent, not empty, and nothing is missing."""
    start, end = (
        CII.index(" <ram:IncludedSupplyChainTradeLineItem>"),
        CII.index(" <ram:ApplicableHeaderTradeAgreement>"),
    )
    data = (CII[:start] + CII[end:]).replace("urn:cen.eu:en16931:2017", "urn:factur-x.eu:1p0:minimum")
    invoice = read_xml(data.encode())
    assert invoice.profile == "MINIMUM"
    assert "line_items" not in invoice.fields
    assert invoice.issues == ()


def test_the_invoice_is_found_by_content_among_attachments() -> None:
    """Other attachments, XML or not, do not disturb."""
    others = [("plan.pdf", b"%PDF-1.7"), ("data.xml", b"<data/>"), ("logo.svg", b"<svg/>")]
    invoice = read_einvoice([*others, ("factur-x.xml", CII.encode())], CLAIM)
    assert invoice is not None
    assert (invoice.name, invoice.issues) == ("factur-x.xml", ())


def test_a_plain_pdf_is_not_an_einvoice() -> None:
    """No metadata and no attachment."""
    assert read_einvoice([]) is None
    assert read_einvoice([("data.xml", b"<data/>")], {}) is None


@pytest.mark.parametrize(
    ("attachments", "claims", "codes"),
    [
        ([], CLAIM, ["xml_missing"]),
        ([("facture.xml", CII.encode())], CLAIM, ["attachment_name"]),
        ([("Factur-X.XML", CII.encode())], None, ["attachment_name"]),
        ([("factur-x.xml", CII.encode())], {}, ["metadata_missing"]),
        ([("zugferd-invoice.xml", CII.encode())], CLAIM, ["metadata_filename"]),
        ([("factur-x.xml", CII.encode())], {"facturx": {"profile": "BASIC"}}, ["metadata_profile"]),
        ([("factur-x.xml", CII.encode())], {"facturx": {"type": "ORDER"}}, ["metadata_type"]),
        ([("factur-x.xml", b"")], CLAIM, ["xml_empty"]),
        ([("factur-x.xml", b"<data/>")], CLAIM, ["xml_root"]),
        ([("factur-x.xml", CII[:4000].encode())], CLAIM, ["xml_damaged"]),
        ([("factur-x.xml", CII.encode("latin-1", "ignore"))], CLAIM, ["xml_encoding"]),
        ([("factur-x.xml", changed(CII, ("?>", "?><!DOCTYPE x>")))], CLAIM, ["xml_refused"]),
        ([("factur-x.xml", changed(CII, ("Invoice:100", "Invoice:99")))], CLAIM, ["xml_namespace"]),
        ([("factur-x.xml", changed(CII, ("en16931:2017", "en16931:2099")))], CLAIM, ["profile_unknown"]),
    ],
)
def test_errors_of_the_container_are_reported(attachments: Any, claims: Any, codes: list[str]) -> None:
    """Attachment, metadata, form: each error has its code."""
    invoice = read_einvoice(attachments, claims)
    assert invoice is not None
    assert [(issue.code, issue.severity) for issue in invoice.issues] == [(code, "error") for code in codes]


def test_damage_lowers_the_confidence() -> None:
    """What is before a cut is still read, with the reason for doubt."""
    invoice = read_xml(CII[:4000].encode())
    field = invoice.fields["invoice_number"]
    assert (field.value, field.confidence) == ("F-7", 0.9)
    assert "not well-formed" in field.reasons[1]
    assert "total" not in invoice.fields


def test_two_invoices_in_one_pdf_must_agree() -> None:
    """A second identical invoice is a warning, one with another total an error."""
    same = read_einvoice([("factur-x.xml", CII.encode()), ("xrechnung.xml", CII.encode())], CLAIM)
    other = read_einvoice([("factur-x.xml", CII.encode()), ("xrechnung.xml", UBL.encode())], CLAIM)
    assert same is not None
    assert other is not None
    assert [(issue.code, issue.severity) for issue in same.issues] == [("two_invoices", "warning")]
    assert [(issue.code, issue.severity) for issue in other.issues] == [("two_invoices", "error")]


def test_an_unknown_profile_in_the_metadata_is_a_warning() -> None:
    """Wrong metadata does not make the invoice wrong."""
    invoice = read_einvoice([("factur-x.xml", CII.encode())], {"facturx": {"profile": "no thing"}})
    assert invoice is not None
    assert [(issue.code, issue.severity) for issue in invoice.issues] == [("metadata_profile", "warning")]


def test_a_decimal_comma_is_an_error_and_still_read() -> None:
    """The value is the intended one, the notation is an error."""
    invoice = read_xml(changed(CII, ("<ram:GrandTotalAmount>144.00<", "<ram:GrandTotalAmount>144,00<")))
    assert [issue.code for issue in invoice.issues] == ["number_notation"]
    assert invoice.fields["total"].value == "144.00"


def test_a_date_in_another_notation_is_an_error_and_still_read() -> None:
    """An ISO date where YYYYMMDD is required."""
    invoice = read_xml(changed(CII, (">20260314<", ">2026-03-14<")))
    assert [issue.code for issue in invoice.issues] == ["date_notation"]
    assert invoice.fields["invoice_date"].value == "2026-03-14"


def test_an_impossible_date_is_an_error_without_a_value() -> None:
    """30 February."""
    invoice = read_xml(changed(CII, (">20260314<", ">20260230<")))
    assert [(issue.code, issue.fields) for issue in invoice.issues] == [("date_impossible", ("invoice_date",))]
    assert "invoice_date" not in invoice.fields


def test_long_and_unusual_texts_are_allowed() -> None:
    """A thousand characters, emoji, another script: nothing forbids them."""
    data = changed(CII, ("Vis 🔩 M4", "Ж漢字 &lt;b&gt; " * 100))
    assert read_xml(data).issues == ()


def test_issues_are_limited() -> None:
    """A thousand wrong lines are not a thousand issues."""
    start, end = (
        CII.index(" <ram:IncludedSupplyChainTradeLineItem>"),
        CII.index(" <ram:ApplicableHeaderTradeAgreement>"),
    )
    line = CII[start:end].replace("120.00", "1,2").replace("30.00", "-3")
    assert len(read_xml((CII[:start] + line * 1000 + CII[end:]).encode()).issues) <= 100
