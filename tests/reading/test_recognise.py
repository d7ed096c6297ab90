"""Detecting the type of a document."""

from __future__ import annotations

import pytest

from tabellion.reading.recognise import recognise
from tabellion.reading.types import typefile
from tests.reading.fields.paper import paper

TYPES = [typefile.load(name, ()) for name in ("invoice", "receipt", "deed")]


@pytest.mark.parametrize(
    ("drawing", "name"),
    [
        ("Rechnung Nr. 5\nRechnungsdatum 01.02.2024\nNettobetrag 5,00\nUSt-IdNr. DE1", "invoice"),
        ("FACTURE N° 5\nTotal HT 5,00\nNet à payer 6,00\nSIRET 123", "invoice"),
        ("SHOP\nReceipt no 5\nTotal 5.00\nCash 10.00\nChange 5.00\nThank you", "receipt"),
        (
            "Acte de vente\nNuméro d'inscription 27 123 456\nle lot 1 234 567 du cadastre du Québec\ncirconscription "
            "foncière",
            "deed",
        ),
    ],
)
def test_a_type_is_detected_by_its_words(drawing: str, name: str) -> None:
    """The type with the most of its phrases on the page."""
    kind, share = recognise(paper(drawing), TYPES)
    assert kind is not None
    assert kind.name == name
    assert share > 0.5


def test_without_evidence_there_is_no_type() -> None:
    """Prose is not an invoice."""
    assert recognise(paper("Lorem ipsum"), TYPES) == (None, 0.0)
