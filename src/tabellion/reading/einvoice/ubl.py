"""Reads UBL 2.1 Invoice and CreditNote, the other XML of EN 16931 (XRechnung, Peppol), as business terms."""

from __future__ import annotations

from tabellion.reading.einvoice.terms import Charge, InvoiceLine, InvoiceTerms, TradeParty, VatCategory, text_of
from tabellion.reading.einvoice.xmltree import EMPTY_NODE, XmlNode

SPACE = "urn:oasis:names:specification:ubl:schema:xsd:"
LINES = {"Invoice": "InvoiceLine", "CreditNote": "CreditNoteLine"}
SUMS = {
    "lines": "LineExtensionAmount",
    "allowances": "AllowanceTotalAmount",
    "charges": "ChargeTotalAmount",
    "basis": "TaxExclusiveAmount",
    "total": "TaxInclusiveAmount",
    "prepaid": "PrepaidAmount",
    "rounding": "PayableRoundingAmount",
    "due": "PayableAmount",
}


def is_ubl(root: XmlNode) -> bool:
    """Whether this is a UBL invoice or credit note."""
    return root.name in LINES and root.space.startswith(SPACE)


def read_ubl(root: XmlNode) -> InvoiceTerms:
    """The terms of an invoice or a credit note in UBL."""
    terms = InvoiceTerms("UBL", root)
    terms.guideline, terms.process = root.first("CustomizationID"), root.first("ProfileID")
    terms.number, terms.kind = root.first("ID"), root.first("InvoiceTypeCode|CreditNoteTypeCode")
    terms.issued = root.first("IssueDate")
    terms.due = root.all("DueDate") or root.all("PaymentMeans/PaymentDueDate")
    terms.delivered = root.first("Delivery/ActualDeliveryDate")
    terms.period = _period(root)
    terms.currency, terms.tax_currency = root.first("DocumentCurrencyCode"), root.first("TaxCurrencyCode")
    terms.seller = _party(root.first("AccountingSupplierParty/Party"))
    terms.buyer = _party(root.first("AccountingCustomerParty/Party"))
    terms.order = root.first("OrderReference/ID")
    terms.terms = root.all("PaymentTerms/Note")
    terms.means = root.all("PaymentMeans/PaymentMeansCode")
    terms.accounts = root.all("PaymentMeans/PayeeFinancialAccount/ID")
    terms.notes = [_note(node.text) for node in root.all("Note")]
    terms.preceding = [
        (node.first("ID"), node.first("IssueDate")) for node in root.all("BillingReference/InvoiceDocumentReference")
    ]
    terms.lines = [_line(node) for node in root.all(LINES[root.name])]
    terms.charges = [_charge(node) for node in root.all("AllowanceCharge")]
    summation = root.first("LegalMonetaryTotal") or EMPTY_NODE
    for name, element in SUMS.items():
        if (node := summation.first(element)) is not None:
            terms.sums[name] = node
    for total in root.all("TaxTotal"):
        amount = total.first("TaxAmount")
        if amount is not None and amount.attributes.get("currencyID") in (None, text_of(terms.currency)):
            terms.sums.setdefault("tax", amount)
            terms.taxes += [_breakdown(node) for node in total.all("TaxSubtotal")]
    return terms


def _note(text: str) -> tuple[str, str]:
    """The subject and text of a note: UBL has no element for the subject, which is a prefix such as #PMT#."""
    parts = text.split("#", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and not parts[0] else ("", text)


def _party(node: XmlNode | None) -> TradeParty:
    if node is None:
        return TradeParty()
    taxes = {
        text_of(scheme_node.first("TaxScheme/ID")): scheme_node.first("CompanyID")
        for scheme_node in reversed(node.all("PartyTaxScheme"))
    }
    address = node.first("PostalAddress")
    party = TradeParty(
        name=node.first("PartyLegalEntity/RegistrationName") or node.first("PartyName/Name"),
        trading_name=node.first("PartyName/Name"),
        vat=taxes.get("VAT"),
        tax_number=next((number for scheme, number in taxes.items() if scheme != "VAT"), None),
        legal=node.first("PartyLegalEntity/CompanyID"),
        ids=node.all("PartyIdentification/ID"),
        endpoint=node.first("EndpointID"),
    )
    if address is not None:
        party.has_address = True
        lines = ("StreetName", "AdditionalStreetName", "AddressLine/Line")
        party.address = [line for path in lines for line in address.all(path)]
        party.postcode, party.city = address.first("PostalZone"), address.first("CityName")
        party.country = address.first("Country/IdentificationCode")
    return party


def _line(node: XmlNode) -> InvoiceLine:
    tax = node.first("Item/ClassifiedTaxCategory")
    return InvoiceLine(
        id=node.first("ID"),
        name=node.first("Item/Name"),
        quantity=node.first("InvoicedQuantity|CreditedQuantity"),
        price=node.first("Price/PriceAmount"),
        gross=node.first("Price/AllowanceCharge/BaseAmount"),
        per=node.first("Price/BaseQuantity"),
        amount=node.first("LineExtensionAmount"),
        tax=_tax(tax) if tax is not None else None,
        charges=[_charge(charge) for charge in node.all("AllowanceCharge")],
        period=_period(node),
    )


def _tax(node: XmlNode) -> VatCategory:
    return VatCategory(
        node.first("ID"), node.first("Percent"), reason=node.first("TaxExemptionReason|TaxExemptionReasonCode")
    )


def _breakdown(node: XmlNode) -> VatCategory:
    category = node.first("TaxCategory")
    tax = _tax(category) if category is not None else VatCategory()
    tax.amount, tax.basis = node.first("TaxAmount"), node.first("TaxableAmount")
    return tax


def _charge(node: XmlNode) -> Charge:
    tax = node.first("TaxCategory")
    reason = node.first("AllowanceChargeReason|AllowanceChargeReasonCode")
    is_charge = text_of(node.first("ChargeIndicator")).lower() in ("true", "1")
    return Charge(is_charge, node.first("Amount"), _tax(tax) if tax is not None else None, reason)


def _period(node: XmlNode) -> tuple[XmlNode | None, XmlNode | None]:
    return node.first("InvoicePeriod/StartDate"), node.first("InvoicePeriod/EndDate")
