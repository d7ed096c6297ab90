"""Vendors, customers and addresses."""

from __future__ import annotations

import pytest

from tabellion.reading.fields.letterhead import clean_name, is_address
from tabellion.reading.fields.parties import read_customer, read_vendor
from tabellion.reading.fields.vendor import name_candidates
from tests.reading.fields.paper import sheet


def test_a_receipt_starts_with_its_vendor() -> None:
    """The name at the top, its address below, until something else begins."""
    party = read_vendor(
        sheet(
            "3180404\nKEDAI BUKU MAJU SDN BHD\n(123456-X)\nNO. 12, JALAN MAWAR 3,\nTAMAN INDAH,\n43200 CHERAS, "
            "SELANGOR\n"
            "TEL: 03-9012345\nTAX INVOICE\nTotal 12.00",
            kind="receipt",
        )
    )
    assert party.name == "KEDAI BUKU MAJU SDN BHD"
    assert party.address.text == "NO. 12, JALAN MAWAR 3, TAMAN INDAH, 43200 CHERAS, SELANGOR"


def test_the_customer_is_not_the_vendor() -> None:
    """A block under "Bill to" is the customer's, however plausible it looks."""
    drawn = sheet(
        "Bill to:                          Northern Tools Ltd\nGreat Customer GmbH               4 Mill Road\n"
        "12 Long Street                    LS1 4AB Leeds\n10115 Berlin\n\nInvoice No 17"
    )
    assert read_vendor(drawn).name == "Northern Tools Ltd"
    assert read_customer(drawn).name == "Great Customer GmbH"


def test_a_sender_line_names_the_vendor() -> None:
    """The small line above the address of a window envelope is the sender's."""
    drawn = sheet(
        "Musterbau · Ringweg 7 · 04109 Leipzig\n\nHerr Karl Beispiel\nAm Anger 3\n99084 Erfurt\n\nRechnung Nr. 5 vom "
        "01.02.2024"
    )
    party = read_vendor(drawn)
    assert (party.name, party.address.text) == ("Musterbau", "Ringweg 7, 04109 Leipzig")


def test_a_label_names_the_vendor() -> None:
    """Under "Verkäufer" is the vendor, beside "Name" its name."""
    drawn = sheet(
        "Rechnung Nr. 8\n\nVerkäufer\nNummer:       549910\nName:         Muster-Verleih\nAnschrift:    Weg 9\n"
        "              DE 99199 Hausen\n\nKäufer\nName:         Kunde AG\nAnschrift:    Ort 1"
    )
    assert read_vendor(drawn).name == "Muster-Verleih"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("AEON CO. (M) BHD (126926-H)", "AEON CO. (M) BHD"),
        ("Taste Of The WorId Sdn Bhd", "Taste Of The World Sdn Bhd"),
        ("LOGO LE FOURNISSEUR", "LE FOURNISSEUR"), ("Dion Realties Sdn Bhd (Co. No: 20154-T)", "Dion Realties Sdn Bhd"),
        ("Kraxi GmbH · Allee 17 · 12345 Feld", "Kraxi GmbH"), ("KING'S BAKERY S/B 273500-U (KSB)", "KING'S BAKERY S/B"),
    ],
)  # fmt: skip
def test_a_name_is_cleaned(text: str, name: str) -> None:
    """Registration numbers, logo words and addresses after bullets are removed."""
    assert clean_name(text) == name


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("35 rue d'ici", True), ("75018 PARIS, FR", True), ("Musterstr. 99", True), ("NO.59 JALAN PERMAS 9/5", True),
        ("Montréal (Québec) H2X 1Y4", True), ("TEL: 03-9012345", False), ("Invoice No 17", False), ("Thank you", False),
    ],
)  # fmt: skip
def test_addresses_are_recognised(text: str, yes: bool) -> None:
    """Streets and towns with their codes are addresses; phones and titles are not."""
    assert is_address(text) is yes


def test_an_address_is_taken_from_the_small_print() -> None:
    """Where the letterhead has only the name, its other mention has the address."""
    party = read_vendor(
        sheet("Lumitec Lichtsysteme GmbH\n\n\n\n\n\nRechnung Nr. 5 vom 01.02.2024\nGesamtbetrag 5,00 €" + "\n" * 46
              + "Lumitec Lichtsysteme GmbH · Auf der Höh 12 · 58511 Lüdenscheid · USt-IdNr. DE124480663")
    )  # fmt: skip
    assert (party.name, party.address.text) == ("Lumitec Lichtsysteme GmbH", "Auf der Höh 12, 58511 Lüdenscheid")


LETTER = (
    "ALPENBYTE" + "\n" * 8 + "Tischlerei Moos GmbH\nIndustriezeile 14\n68500 Dornbirn\n\nRechnung Nr. 5\n"
    + "Gesamtbetrag 5,00 €" + "\n" * 42 + "Alpenbyte GmbH | Bregenzer Straße 28 | 69000 Bregenz\n"
    + "UID ATU68811402 | IBAN AT48 2060 1000 0455 1237"
)  # fmt: skip


def test_features_describe_the_evidence_for_a_name() -> None:
    """The window has the addressee; the small print and the line with the address have the sender."""
    found = {name: features for _, name, features in name_candidates(sheet(LETTER))}
    customer, vendor = found["Tischlerei Moos GmbH"], found["Alpenbyte GmbH"]
    assert (customer["window"], customer["imprint"], customer["sender_line"]) == (1.0, 0.0, 0.0)
    assert (vendor["window"], vendor["imprint"], vendor["sender_line"]) == (0.0, 1.0, 1.0)
    assert read_vendor(sheet(LETTER)).name == "Alpenbyte GmbH"
