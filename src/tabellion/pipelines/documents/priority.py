"""The urgency of a review: 40 % doubt, 30 % proximity of the deadline, 20 % complexity, 10 % value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from tabellion.pipelines.documents.review.priority import COMPLEXITY, CONFIDENCE, PROXIMITY, VALUE
from tabellion.reading.reader import Reading
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType

MANY_PAGES, MANY_ROWS, MANY_ISSUES = 20, 50, 5  #: from these counts on, a document has the highest complexity
LARGEST = 1_000_000  #: the amount from which on the value is 1
AMOUNTS = ("total", "amount", "price")  #: the fields that contain the value of a document, the likeliest first


@dataclass(frozen=True, slots=True)
class Urgency:
    """The parts of the priority that do not change with time, each from 0 to 1."""

    confidence: float  #: the mean of its fields, a missing required one counting 0
    complexity: float
    value: float

    def priority(self, proximity: float) -> float:
        """From 0 to 1; `proximity` is the share of the time until the deadline that has passed."""
        doubt = 1 - self.confidence
        near = min(max(proximity, 0.0), 1.0)
        parts = CONFIDENCE * doubt + PROXIMITY * near + COMPLEXITY * self.complexity + VALUE * self.value
        return round(parts, 6)


def urgency(reading: Reading, doctype: DocumentType) -> Urgency:
    """The urgency of a reading."""
    return Urgency(_confidence(reading, doctype), _complexity(reading), _value(reading, doctype))


def _confidence(reading: Reading, doctype: DocumentType) -> float:
    scores = [
        reading.fields[spec.name].confidence if spec.name in reading.fields else 0.0
        for spec in doctype.fields
        if spec.required or spec.name in reading.fields
    ]
    return round(sum(scores) / len(scores), 6) if scores else 0.0


def _complexity(reading: Reading) -> float:
    """The mean of what makes a document slow to review: pages, rows and issues."""
    rows = sum(len(field.value) for field in reading.fields.values() if isinstance(field.value, list))
    parts = (len(reading.pages) - 1) / MANY_PAGES, rows / MANY_ROWS, len(reading.issues) / MANY_ISSUES
    return round(sum(min(max(part, 0.0), 1.0) for part in parts) / len(parts), 6)


def _value(reading: Reading, doctype: DocumentType) -> float:
    """The amount on a logarithmic scale: 0 for nothing, 1 for a million."""
    amounts: dict[str, Decimal] = {}
    for spec in doctype.fields:
        if spec.kind == "money" and spec.name in reading.fields:
            try:
                amounts[spec.name] = abs(rules.convert_value(spec, reading.fields[spec.name].value) or Decimal())
            except ValueError:
                continue
    named = [amounts[name] for name in AMOUNTS if name in amounts]
    amount = named[0] if named else max(amounts.values(), default=Decimal())
    return round(min(math.log10(1 + float(amount)) / math.log10(1 + LARGEST), 1.0), 6)
