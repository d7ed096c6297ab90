"""The numbers of the states."""

from __future__ import annotations

from tabellion.extractions.states import ExtractionStatus


def test_the_numbers_are_those_of_the_table() -> None:
    """One for each state, and none means two."""
    assert [(one.value, one.name) for one in ExtractionStatus] == [
        (1, "EN_ATTENTE"), (2, "EN_TRAITEMENT"), (3, "COMPLETE"), (4, "ERREUR"), (5, "EXTRACTION_COMPLETE"),
        (6, "OCR_PROCESSING"),
    ]  # fmt: skip
