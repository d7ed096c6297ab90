"""Reads Cross Industry Invoice, the XML of Factur-X, ZUGFeRD (1.0 too) and XRechnung, as business terms."""

from __future__ import annotations

import re

from tabellion.reading.einvoice.terms import Charge, InvoiceLine, InvoiceTerms, TradeParty, VatCategory, text_of
from tabellion.reading.einvoice.xmltree import EMPTY_NODE, XmlNode

SPACE = re.compile(r"urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100")
FIRST_SPACE = re.compile(r"urn:ferd:(CrossIndustryDocument:)?invoice:(1p0|rc).*")

# ZUGFeRD 1.0 has the same tree with other names: each path has both.
AGREEMENT = "ApplicableHeaderTradeAgreement|ApplicableSupplyChainTradeAgreement"
DELIVERY = "ApplicableHeaderTradeDelivery|ApplicableSupplyChainTradeDelivery"
SETTLEMENT = "ApplicableHeaderTradeSettlement|ApplicableSupplyChainTradeSettlement"
LINE_AGREEMENT = "SpecifiedLineTradeAgreement|SpecifiedSupplyChainTradeAgreement"
LINE_DELIVERY = "SpecifiedLineTradeDelivery|SpecifiedSupplyChainTradeDelivery"
LINE_SETTLEMENT = "SpecifiedLineTradeSettlement|SpecifiedSupplyChainTradeSettlement"
SUMMATION = "SpecifiedTradeSettlementHeaderMonetarySummation|SpecifiedTradeSettlementMonetarySummation"
LINE_SUMMATION = "SpecifiedTradeSettlementLineMonetarySummation|SpecifiedTradeSettlementMonetarySummation"
DAY = "DateTimeString|DateString|DateTime"

SUMS = {
    "lines": "LineTotalAmount",
    "allowances": "AllowanceTotalAmount",
    "charges": "ChargeTotalAmount",
    "basis": "TaxBasisTotalAmount",
    "total": "GrandTotalAmount",
    "prepaid": "TotalPrepaidAmount",
    "rounding": "RoundingAmount",
    "due": "DuePayableAmount",
}


def is_cii(root: XmlNode) -> bool:
    """Whether this is a Cross Industry Invoice of any version."""
    return root.name in ("CrossIndustryInvoice", "CrossIndustryDocument")


def read_cii(root: XmlNode) -> InvoiceTerms:
    """The terms of an invoice in CII."""
    is_first_version = root.name == "CrossIndustryDocument"
    terms = InvoiceTerms("ZUGFeRD 1.0" if is_first_version else "CII", root)
    context = _at(root, "ExchangedDocumentContext|SpecifiedExchangedDocumentContext")
    terms.guideline = context.first("GuidelineSpecifiedDocumentContextParameter/ID")
    terms.process = context.first("BusinessProcessSpecifiedDocumentContextParameter/ID")
    header = _at(root, "ExchangedDocument|HeaderExchangedDocument")
    terms.number, terms.kind = header.first("ID"), header.first("TypeCode")
    terms.issued = _day(header, "IssueDateTime")
    terms.notes = [
        (text_of(note.first("SubjectCode")), text_of(note.first("Content"))) for note in header.all("IncludedNote")
    ]
    trade = _at(root, "SupplyChainTradeTransaction|SpecifiedSupplyChainTradeTransaction")
    agreement, settlement = _at(trade, AGREEMENT), _at(trade, SETTLEMENT)
    terms.seller = _party(agreement.first("SellerTradeParty"))
    terms.buyer = _party(agreement.first("BuyerTradeParty"))
    terms.order = agreement.first("BuyerOrderReferencedDocument/IssuerAssignedID|ID")
    terms.delivered = _day(_at(trade, DELIVERY), "ActualDeliverySupplyChainEvent/OccurrenceDateTime")
    terms.lines = [_line(node) for node in trade.all("IncludedSupplyChainTradeLineItem")]
    _settle(terms, settlement)
    return terms


def _settle(terms: InvoiceTerms, settlement: XmlNode) -> None:
    terms.currency = settlement.first("InvoiceCurrencyCode")
    terms.tax_currency = settlement.first("TaxCurrencyCode")
    terms.period = _period(settlement)
    for payment_terms in settlement.all("SpecifiedTradePaymentTerms"):
        terms.due += [day for due_date in payment_terms.all("DueDateDateTime") if (day := _leaf(due_date)) is not None]
        terms.terms += payment_terms.all("Description")
    terms.means = settlement.all("SpecifiedTradeSettlementPaymentMeans/TypeCode")
    account = "SpecifiedTradeSettlementPaymentMeans/PayeePartyCreditorFinancialAccount"
    terms.accounts = settlement.all(f"{account}/IBANID") + settlement.all(f"{account}/ProprietaryID")
    terms.preceding = [
        (node.first("IssuerAssignedID"), _day(node, "FormattedIssueDateTime"))
        for node in settlement.all("InvoiceReferencedDocument")
    ]
    terms.taxes = [_tax(node) for node in settlement.all("ApplicableTradeTax")]
    terms.charges = [_charge(node) for node in settlement.all("SpecifiedTradeAllowanceCharge")]
    for node in settlement.all("SpecifiedLogisticsServiceCharge"):
        taxes = node.all("AppliedTradeTax")
        tax = _tax(taxes[0]) if taxes else None
        terms.charges.append(Charge(True, node.first("AppliedAmount"), tax, node.first("Description")))
    summation = _at(settlement, SUMMATION)
    for name, element in SUMS.items():
        if (amount := summation.first(element)) is not None:
            terms.sums[name] = amount
    taxes = summation.all("TaxTotalAmount")
    in_currency = [node for node in taxes if node.attributes.get("currencyID") in (None, text_of(terms.currency))]
    if in_currency or taxes:
        terms.sums["tax"] = (in_currency or taxes)[0]


def _party(node: XmlNode | None) -> TradeParty:
    if node is None:
        return TradeParty()
    address = node.first("PostalTradeAddress")
    taxes = {
        registration.attributes.get("schemeID", ""): registration
        for registration in reversed(node.all("SpecifiedTaxRegistration/ID"))
    }
    party = TradeParty(
        name=node.first("Name"),
        trading_name=node.first("SpecifiedLegalOrganization/TradingBusinessName"),
        vat=taxes.get("VA"),
        tax_number=taxes.get("FC"),
        legal=node.first("SpecifiedLegalOrganization/ID"),
        ids=node.all("ID") + node.all("GlobalID"),
        endpoint=node.first("URIUniversalCommunication/URIID"),
    )
    if address is not None:
        party.has_address = True
        party.address = address.all("LineOne") + address.all("LineTwo") + address.all("LineThree")
        party.postcode, party.city = address.first("PostcodeCode"), address.first("CityName")
        party.country = address.first("CountryID")
    return party


def _line(node: XmlNode) -> InvoiceLine:
    agreement, settlement = _at(node, LINE_AGREEMENT), _at(node, LINE_SETTLEMENT)
    document = _at(node, "AssociatedDocumentLineDocument")
    price = _at(agreement, "NetPriceProductTradePrice")
    tax = settlement.first("ApplicableTradeTax")
    amount = _at(settlement, LINE_SUMMATION).first("LineTotalAmount")
    status = text_of(document.first("LineStatusReasonCode"))
    return InvoiceLine(
        id=document.first("LineID"),
        name=node.first("SpecifiedTradeProduct/Name"),
        quantity=_at(node, LINE_DELIVERY).first("BilledQuantity"),
        price=price.first("ChargeAmount"),
        gross=agreement.first("GrossPriceProductTradePrice/ChargeAmount"),
        per=price.first("BasisQuantity"),
        amount=amount,
        tax=_tax(tax) if tax is not None else None,
        charges=[_charge(charge) for charge in settlement.all("SpecifiedTradeAllowanceCharge")],
        period=_period(settlement),
        counts=status not in ("GROUP", "INFORMATION"),
    )


def _tax(node: XmlNode) -> VatCategory:
    return VatCategory(
        category=node.first("CategoryCode"),
        rate=node.first("RateApplicablePercent|ApplicablePercent"),
        amount=node.first("CalculatedAmount"),
        basis=node.first("BasisAmount"),
        reason=node.first("ExemptionReason|ExemptionReasonCode"),
    )


def _charge(node: XmlNode) -> Charge:
    tax = node.first("CategoryTradeTax")
    indicator = text_of(node.first("ChargeIndicator/Indicator")).lower()
    reason = node.first("Reason|ReasonCode")
    return Charge(
        indicator in ("true", "1"), node.first("ActualAmount"), _tax(tax) if tax is not None else None, reason
    )


def _period(node: XmlNode) -> tuple[XmlNode | None, XmlNode | None]:
    return _day(node, "BillingSpecifiedPeriod/StartDateTime"), _day(node, "BillingSpecifiedPeriod/EndDateTime")


def _at(node: XmlNode, path: str) -> XmlNode:
    return node.first(path) or EMPTY_NODE


def _day(node: XmlNode, path: str) -> XmlNode | None:
    parent = node.first(path)
    return _leaf(parent) if parent is not None else None


def _leaf(node: XmlNode) -> XmlNode | None:
    """The node with the digits: ZUGFeRD 1.0 sometimes has no inner element for them."""
    return node.first(DAY) or (node if node.text else None)
