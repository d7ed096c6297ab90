"""The rules of EN 16931: each is broken once, and reported under its name."""

from __future__ import annotations

import pytest

from tabellion.reading.einvoice.invoice import read_xml
from tests.reading.invoices import CII, UBL, changed

ALONE = "<ram:ApplicableHeaderTradeDelivery/>"
PERIOD = (
    "<ram:BillingSpecifiedPeriod><ram:StartDateTime><udt:DateTimeString format='102'>20260301</udt:DateTimeString>"
    "</ram:StartDateTime><ram:EndDateTime><udt:DateTimeString format='102'>20260228</udt:DateTimeString>"
    "</ram:EndDateTime></ram:BillingSpecifiedPeriod>"
)


def errors(data: bytes) -> set[str]:
    return {issue.rule for issue in read_xml(data).issues if issue.severity == "error"}


def warnings(data: bytes) -> set[str]:
    return {issue.code for issue in read_xml(data).issues if issue.severity == "warning"}


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ("<ram:ID>urn:cen.eu:en16931:2017</ram:ID>", "", {"BR-01"}),
        ("<ram:ID>F-7</ram:ID>", "<ram:ID> </ram:ID>", {"BR-02"}),
        ("<ram:TypeCode>380</ram:TypeCode>", "", {"BR-04"}),
        ("<ram:InvoiceCurrencyCode>EUR</ram:InvoiceCurrencyCode>", "", {"BR-05"}),
        ("<ram:Name>Mairie</ram:Name>", "", {"BR-07"}),
        ("<ram:DuePayableAmount>100.00</ram:DuePayableAmount>", "", {"BR-15"}),
        ("<ram:LineID>1</ram:LineID>", "", {"BR-21"}),
        ("<ram:Name>Vis 🔩 M4</ram:Name>", "", {"BR-25"}),
        ("<ram:ChargeAmount>30.00<", "<ram:ChargeAmount>-30.00<", {"BR-27"}),
        ("120.00</ram:LineTotalAmount></ram:Spec", "110.00</ram:LineTotalAmount></ram:Spec", {"BR-CO-10", "BR-S-08"}),
        ("120.00</ram:LineTotalAmount><ram:Tax", "121.00</ram:LineTotalAmount><ram:Tax", {"BR-CO-10", "BR-CO-13"}),
        ('currencyID="EUR">24.00<', 'currencyID="EUR">25.00<', {"BR-CO-14", "BR-CO-15"}),
        ("<ram:GrandTotalAmount>144.00<", "<ram:GrandTotalAmount>140.00<", {"BR-CO-15", "BR-CO-16"}),
        ("<ram:DuePayableAmount>100.00<", "<ram:DuePayableAmount>144.00<", {"BR-CO-16"}),
        ("<ram:CalculatedAmount>24.00<", "<ram:CalculatedAmount>29.00<", {"BR-CO-14", "BR-CO-17"}),
        ("<ram:GrandTotalAmount>144.00<", "<ram:GrandTotalAmount>144.000<", {"BR-DEC"}),
        ("<ram:GrandTotalAmount>144.00<", "<ram:GrandTotalAmount>EUR 144<", {"xs:decimal"}),
        ("<ram:InvoiceCurrencyCode>EUR<", "<ram:InvoiceCurrencyCode>EURO<", {"BR-CL-04", "BR-FR-CO-12"}),
        ('currencyID="EUR"', 'currencyID="€"', {"BR-CL-03"}),
        ("Lyon</ram:CityName><ram:CountryID>FR<", "Lyon</ram:CityName><ram:CountryID>FRA<", {"BR-CL-14"}),
        ("<ram:TypeCode>380<", "<ram:TypeCode>999<", {"BR-CL-01", "BR-FR-04"}),
        ('unitCode="C62">400', 'unitCode="pièce">400', {"BR-CL-23"}),
        ("<ram:TypeCode>58<", "<ram:TypeCode>1000<", {"BR-CL-16"}),
        ('format="102">20260413', 'format="203">202604130000', {"CII-DT-097"}),
        (ALONE, ALONE + "<ram:x/>", set()),
        ("EUR</ram:InvoiceCurrencyCode>", f"EUR</ram:InvoiceCurrencyCode>{PERIOD}", {"BR-29"}),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(old: str, new: str, rules: set[str]) -> None:
    """One change breaks exactly these rules."""
    assert errors(changed(CII, (old, new))) == rules


def test_missing_seller_and_date_are_reported() -> None:
    """A name and a date that are empty elements are missing too."""
    name = CII[CII.index("<ram:Name>Quinc") : CII.index("<ram:SpecifiedLegalOrganization>")]
    assert errors(changed(CII, (name, "<ram:Name/>"))) == {"BR-06"}
    date = '<ram:IssueDateTime><udt:DateTimeString format="102">20260314</udt:DateTimeString></ram:IssueDateTime>'
    assert errors(changed(CII, (date, ""))) == {"BR-03"}


def test_payment_terms_are_required_only_if_something_is_due() -> None:
    """BR-CO-25: the payer must know when to pay."""
    start, end = CII.index("  <ram:SpecifiedTradePaymentTerms>"), CII.index("  <ram:SpecifiedTradeSettlementHeader")
    bare = CII[:start] + CII[end:]
    assert errors(bare.encode()) == {"BR-CO-25"}
    paid = changed(bare, (">44.00<", ">144.00<"), ("<ram:DuePayableAmount>100.00", "<ram:DuePayableAmount>0.00"))
    assert errors(paid) == set()


def test_quantity_times_price_is_checked() -> None:
    """No rule forbids a difference, so it is a warning; allowances of the line count."""
    assert warnings(changed(CII, ('unitCode="C62">400', 'unitCode="C62">300'))) == {"line_amount"}
    allowance = (
        "<ram:SpecifiedTradeAllowanceCharge><ram:ChargeIndicator><udt:Indicator>true</udt:Indicator></ram:ChargeIndicator>"
        "<ram:ActualAmount>30.00</ram:ActualAmount></ram:SpecifiedTradeAllowanceCharge>"
    )
    mark = "   <ram:SpecifiedTradeSettlementLineMonetarySummation>"
    data = changed(CII, ('unitCode="C62">400', 'unitCode="C62">300'), (mark, allowance + mark))
    assert warnings(data) == set()


def test_negative_quantities_are_allowed() -> None:
    """Returned goods are on an invoice with a minus."""
    data = CII.replace("120.0", "-120.0").replace(">24.00<", ">-24.00<").replace(">400<", ">-400<")
    data = (
        data.replace(">144.00<", ">-144.00<")
        .replace(">44.00<", ">0<")
        .replace("<ram:DuePayableAmount>100", "<ram:DuePayableAmount>-144")
    )
    assert errors(data.encode()) == set()


def test_the_same_line_twice_is_a_warning() -> None:
    """Line identifiers are unique by convention."""
    start, end = (
        CII.index(" <ram:IncludedSupplyChainTradeLineItem>"),
        CII.index(" <ram:ApplicableHeaderTradeAgreement>"),
    )
    assert "line_twice" in warnings((CII[:start] + CII[start:end] * 2 + CII[end:]).encode())


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ("<cbc:IssueDate>2026-03-14<", "<cbc:IssueDate>14.03.2026<", {"xs:date"}),
        ("<cbc:IssueDate>2026-03-14<", "<cbc:IssueDate>2026-02-30<", {"xs:date"}),
        ('<cbc:PayableAmount currencyID="EUR">107.10<', '<cbc:PayableAmount currencyID="EUR">107.11<', {"BR-CO-16"}),
        ('<cbc:AllowanceTotalAmount currencyID="EUR">10.00<', '<cbc:AllowanceTotalAmount currencyID="EUR">9.00<',
         {"BR-CO-11", "BR-CO-13"}),
        ('<cbc:PriceAmount currencyID="EUR">40<', '<cbc:PriceAmount currencyID="EUR">40.00001<', set()),
    ],
)  # fmt: skip
def test_ubl_is_judged_the_same(old: str, new: str, rules: set[str]) -> None:
    """The rules do not depend on the syntax."""
    assert errors(changed(UBL, (old, new))) == rules


def test_a_due_date_before_the_invoice_is_a_warning_in_general() -> None:
    """Only France forbids it."""
    assert warnings(changed(UBL, ("2026-04-13", "2026-03-01"))) == {"due_before_issue"}
