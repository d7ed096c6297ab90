"""Confidence from evidence."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tabellion.reading.fields.answer import FieldAnswer
from tabellion.reading.fields.confidence import LEAST, MOST, confidence, field_of

ANSWER = FieldAnswer("total", "12.00", 1, (0.1, 0.1, 0.2, 0.2), "12.00", "text", score=0.9)


def test_evidence_raises_and_doubts_lower_it() -> None:
    """Each piece of evidence counts in its own direction."""
    plain = confidence(ANSWER)
    assert confidence(replace(ANSWER, proofs=["amounts add up"])) > plain
    assert confidence(replace(ANSWER, doubts=["subtotal and tax do not add up to the total"])) < plain
    assert confidence(replace(ANSWER, reading=0.8)) < plain


def test_a_field_says_why() -> None:
    """Reasons, evidence and doubts are listed, and the OCR score where it was OCR."""
    field = field_of(
        replace(
            ANSWER, source="ocr", reading=0.91, proofs=["cash minus change"], doubts=["far away"], reasons=["alone"]
        )
    )
    assert field.reasons == ("grounded", "alone", "cash minus change", "but far away", "OCR score 0.91")


def test_an_unmeasured_field_is_trusted_less() -> None:
    """A field of a type that was never measured gets less than one that was."""
    assert confidence(replace(ANSWER, name="policy_number")) < confidence(ANSWER)


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0, 1), st.integers(0, 50))
def test_it_stays_between_zero_and_one(score: float, margin: float, reading: float, rivals: int) -> None:
    """Whatever the evidence."""
    value = confidence(replace(ANSWER, score=score, margin=margin, reading=reading, rivals=rivals))
    assert LEAST <= value <= MOST
    assert math.isfinite(value)
