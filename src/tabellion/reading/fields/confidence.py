"""Turns evidence into a confidence: a small logistic model, fitted on labelled documents (`make calibrate`)."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path

from tabellion.messages import Message
from tabellion.reading.field import Field
from tabellion.reading.fields.answer import FieldAnswer

WEIGHTS = Path(__file__).with_name("confidence.json")
#: Fields that fail in similar ways share weights.
GROUPS = {
    "vendor": "name", "customer": "name", "vendor_address": "address", "invoice_date": "date", "due_date": "date",
    "subtotal": "sum", "tax": "sum", "total": "sum", "currency": "currency", "invoice_number": "code",
    "line_items": "items",
}  # fmt: skip
LEAST, MOST = 0.02, 0.99


def group_of(name: str) -> str:
    """The group of a field; "other" for fields without measurements."""
    return GROUPS.get(name, "other")


def confidence(answer: FieldAnswer) -> float:
    """The probability that the answer is right."""
    weights = _weights()
    group = weights.get(group_of(answer.name), {})
    features = answer.features()
    logit = group.get("bias", 0.0) + sum(
        (weights["all"].get(name, 0.0) + group.get(name, 0.0)) * value for name, value in features.items()
    )
    return min(max(1 / (1 + math.exp(-logit)), LEAST), MOST, answer.ceiling)


def field_of(answer: FieldAnswer) -> Field:
    """The answer as a field."""
    reasons = [*answer.reasons, *answer.proofs, *(Message("reason.but", detail=doubt) for doubt in answer.doubts)]
    if answer.source == "ocr":
        reasons.append(Message("reason.ocr_score", n=f"{answer.reading:.2f}"))
    return Field(
        value=answer.value, confidence=confidence(answer), page=answer.page, box=answer.box, quote=answer.quote,
        source=answer.source, reasons=(Message("reason.grounded"), *dict.fromkeys(reasons)),
    )  # fmt: skip


@lru_cache(maxsize=1)
def _weights() -> dict[str, dict[str, float]]:
    loaded: dict[str, dict[str, float]] = json.loads(WEIGHTS.read_text(encoding="utf-8"))["weights"]
    return loaded
