"""What France requires beyond EN 16931, of French invoices and of no others."""

from __future__ import annotations

import pytest

from tabellion.reading.einvoice.invoice import read_xml
from tests.reading.invoices import CII, changed


def errors(data: bytes) -> set[str]:
    return {issue.rule for issue in read_xml(data).issues if issue.severity == "error"}


SIREN = '<ram:ID schemeID="0002">392809137</ram:ID>'
ADDRESS = '<ram:URIUniversalCommunication><ram:URIID schemeID="0225">{}</ram:URIID></ram:URIUniversalCommunication>'
NAME = "<ram:SellerTradeParty>"


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ("<ram:ID>F-7<", f"<ram:ID>{'F' * 35}<", set()),
        ("<ram:ID>F-7<", f"<ram:ID>{'F' * 36}<", {"BR-FR-01"}),
        ("<ram:ID>F-7<", "<ram:ID>F n°7<", {"BR-FR-02"}),
        (">20260413<", ">20260301<", {"BR-FR-CO-07"}),
        (">20260314<", ">19990314<", {"BR-FR-03"}),
        ("<ram:TypeCode>380<", "<ram:TypeCode>326<", {"BR-FR-04"}),
        ("<ram:TypeCode>380<", "<ram:TypeCode>381<", {"BR-FR-CO-05"}),
        ("<ram:TypeCode>380<", "<ram:TypeCode>384<", {"BR-FR-CO-04"}),
        ("<ram:SubjectCode>PMD<", "<ram:SubjectCode>PMT<", {"BR-FR-05", "BR-FR-06"}),
        ("<ram:ID>S1<", "<ram:ID>A1<", {"BR-FR-08"}),
        ("<ram:ID>S1<", "<ram:ID>S2<", {"BR-FR-CO-09"}),
        (SIREN, "", {"BR-FR-10"}),
        (SIREN, '<ram:ID schemeID="0002">39280913700027</ram:ID>', {"BR-FR-10"}),
        (NAME, NAME + '<ram:GlobalID schemeID="0009">11111111100027</ram:GlobalID>', {"BR-FR-09"}),
        (NAME, NAME + '<ram:GlobalID schemeID="0009">39280913700027</ram:GlobalID>', set()),
        (ADDRESS.format("244500011"), "", {"BR-FR-12"}),
        (ADDRESS.format("392809137"), "", {"BR-FR-13"}),
        (">400<", ">400.00001<", {"BR-FR-DEC-02"}),
        (">30.00<", ">30.0000001<", {"BR-FR-DEC-03"}),
    ],
)
def test_a_broken_rule_is_named(old: str, new: str, rules: set[str]) -> None:
    """One change breaks exactly these rules."""
    assert errors(changed(CII, (old, new))) == rules


def test_rates_are_those_of_france() -> None:
    """19 % is German."""
    data = CII.replace(">20.00<", ">19.00<").replace(">24.00<", ">22.80<").replace("144.00", "142.80")
    data = data.replace("44.00", "42.80")
    assert errors(data.encode()) == {"BR-FR-16"}


def test_a_vat_number_of_another_company_is_a_warning() -> None:
    """The VAT number ends in the SIREN."""
    issues = read_xml(changed(CII, ("FR 40 392809137", "FR 40 392809138"))).issues
    assert [(issue.code, issue.severity, issue.fields) for issue in issues] == [
        ("vat_number", "warning", ("vendor_tax_id",))
    ]


def test_other_invoices_are_not_checked() -> None:
    """Without a French kind of operation and French addresses, none of this is required."""
    data = CII.replace("0225", "EM").replace("<ram:ID>S1</ram:ID>", "").replace("PMD", "AAI").replace("F-7", "n° 7")
    assert read_xml(data.encode()).issues == ()
