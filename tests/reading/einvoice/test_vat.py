"""VAT categories: each requires its own rate, base, reason and numbers."""

from __future__ import annotations

import pytest

from tabellion.reading.einvoice.invoice import read_xml
from tests.reading.invoices import CII, UBL, changed

SCHEME = (
    "<cac:PartyTaxScheme><cbc:CompanyID>{}</cbc:CompanyID><cac:TaxScheme><cbc:ID>VAT</cbc:ID></cac:TaxScheme>"
    "</cac:PartyTaxScheme>"
)
SELLER = SCHEME.format("DE123456789")
NAME = "<cbc:RegistrationName>Müller GmbH</cbc:RegistrationName>"
REASON = "<cbc:TaxExemptionReason>§ 4</cbc:TaxExemptionReason>"
TOTAL = '<cbc:TaxAmount currencyID="EUR">17.10</cbc:TaxAmount>'


def errors(data: bytes) -> set[str]:
    return {issue.rule for issue in read_xml(data).issues if issue.severity == "error"}


def exempt(category: str, reason: str = REASON, buyer: str = "") -> str:
    """The UBL invoice without tax, under another category."""
    text = UBL.replace(
        "<cbc:ID>S</cbc:ID><cbc:Percent>19</cbc:Percent>", f"<cbc:ID>{category}</cbc:ID><cbc:Percent>0</cbc:Percent>"
    )
    text = text.replace(">17.10<", ">0.00<").replace(">107.10<", ">90.00<")
    text = text.replace("<cbc:Percent>0</cbc:Percent></cac:TaxCategory></cac:TaxSubtotal>",
                        f"<cbc:Percent>0</cbc:Percent>{reason}</cac:TaxCategory></cac:TaxSubtotal>")  # fmt: skip
    if buyer:
        scheme = SCHEME.format(buyer)
        text = text.replace(
            " <cac:PartyLegalEntity><cbc:RegistrationName>Stadt",
            scheme + " <cac:PartyLegalEntity><cbc:RegistrationName>Stadt",
        )
    return text


@pytest.mark.parametrize(
    "text", [exempt("E"), exempt("Z", ""), exempt("G"), exempt("AE", buyer="FR1"), exempt("K", buyer="FR1")]
)
def test_a_valid_exemption(text: str) -> None:
    """Zero rate, zero tax, and the reason where one is required."""
    assert errors(text.encode()) == set()


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (exempt("E", ""), {"BR-E-10"}),
        (exempt("AE"), {"BR-AE-02"}),
        (exempt("K"), {"BR-IC-02"}),
        (exempt("Z"), {"BR-Z-10"}),
        (exempt("S", ""), {"BR-S-05"}),
        (exempt("Q"), {"BR-CL-17"}),
        (UBL.replace("<cbc:ID>S</cbc:ID>", "<cbc:ID>E</cbc:ID>"), {"BR-E-05", "BR-E-09", "BR-E-10"}),
        (UBL.replace(SELLER, "").replace(NAME, NAME + "<cbc:CompanyID>HRB 1</cbc:CompanyID>"), {"BR-S-02"}),
        (UBL.replace(SELLER, ""), {"BR-CO-26", "BR-S-02"}),
    ],
)
def test_the_requirements_of_a_category(text: str, rules: set[str]) -> None:
    """Each rule of a category under its own name."""
    assert errors(text.encode()) == rules


def test_every_category_of_the_lines_is_in_the_breakdown_with_its_base() -> None:
    """A line with another rate or category than the breakdown is an error."""
    line = "<cac:ClassifiedTaxCategory><cbc:ID>S</cbc:ID><cbc:Percent>19</cbc:Percent>"
    assert errors(changed(UBL, (line, line.replace("19", "7")))) == {"BR-S-08"}
    assert errors(changed(UBL, (line, line.replace("S<", "Z<").replace("19", "0")))) == {"BR-Z-01", "BR-S-08"}


def test_a_rate_is_in_the_breakdown_once() -> None:
    """Of two entries with one rate neither has the base of all its lines."""
    part = CII[CII.index("  <ram:ApplicableTradeTax><ram:Calc") : CII.index("  <ram:SpecifiedTradePaymentTerms>")]
    half = part.replace("24.00", "12.00").replace("120.00", "60.00")
    assert errors(changed(CII, (part, half + half.replace("20.00<", "20<")))) == {"BR-S-08"}


def test_a_few_cents_of_rounding_are_a_warning() -> None:
    """Validators allow the tax to be up to one unit off its base."""
    part = TOTAL + "<cac:TaxSubtotal>"
    assert UBL.count(part)
    data = UBL.replace(TOTAL, TOTAL.replace("17.10", "17.14")).replace(">107.10<", ">107.14<").encode()
    assert [(issue.rule, issue.severity) for issue in read_xml(data).issues] == [("BR-CO-17", "warning")]
