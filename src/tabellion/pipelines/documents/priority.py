"""How urgent it is that a person looks: 40 % doubt, 30 % nearness of the deadline, 20 % complexity, 10 % value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from tabellion.pipelines.documents.review.priority import COMPLEXITY, CONFIDENCE, PROXIMITY, VALUE
from tabellion.reading.reader import Reading
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType

MANY_PAGES, MANY_ROWS, MANY_ISSUES = 20, 50, 5  #: from so many on, a document is as complex as it gets
LARGEST = 1_000_000  #: an amount from which on the value makes no difference
AMOUNTS = ("total", "amount", "price")  #: the fields that say what a document is worth, the likeliest first


@dataclass(frozen=True, slots=True)
class Urgency:
    """What makes a document urgent, as far as it does not change with time; each from 0 to 1."""

    confidence: float  #: how sure the reading is: the mean of its fields, a required one that is missing counting 0
    complexity: float
    value: float

    def priority(self, proximity: float) -> float:
        """From 0 to 1, the most urgent first; `proximity` is how much of the time until the deadline is over."""
        doubt = 1 - self.confidence
        near = min(max(proximity, 0.0), 1.0)
        parts = CONFIDENCE * doubt + PROXIMITY * near + COMPLEXITY * self.complexity + VALUE * self.value
        return round(parts, 6)


def urgency(reading: Reading, doctype: DocumentType) -> Urgency:
    """How urgent a reading is."""
    return Urgency(_confidence(reading, doctype), _complexity(reading), _value(reading, doctype))


def _confidence(reading: Reading, doctype: DocumentType) -> float:
    scores = [
        reading.fields[one.name].confidence if one.name in reading.fields else 0.0
        for one in doctype.fields
        if one.required or one.name in reading.fields
    ]
    return round(sum(scores) / len(scores), 6) if scores else 0.0


def _complexity(reading: Reading) -> float:
    """The mean of what makes a document long to look at: pages, rows, and things that are wrong."""
    rows = sum(len(field.value) for field in reading.fields.values() if isinstance(field.value, list))
    parts = (len(reading.pages) - 1) / MANY_PAGES, rows / MANY_ROWS, len(reading.issues) / MANY_ISSUES
    return round(sum(min(max(part, 0.0), 1.0) for part in parts) / len(parts), 6)


def _value(reading: Reading, doctype: DocumentType) -> float:
    """The amount on a scale on which ten times as much is the same step everywhere: 0 for nothing, 1 for a million."""
    amounts: dict[str, Decimal] = {}
    for one in doctype.fields:
        if one.kind == "money" and one.name in reading.fields:
            try:
                amounts[one.name] = abs(rules.convert_value(one, reading.fields[one.name].value) or Decimal())
            except ValueError:
                continue
    named = [amounts[name] for name in AMOUNTS if name in amounts]
    amount = named[0] if named else max(amounts.values(), default=Decimal())
    return round(min(math.log10(1 + float(amount)) / math.log10(1 + LARGEST), 1.0), 6)
