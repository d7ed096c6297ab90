"""The priority of items: 40 % doubt, 30 % proximity of the deadline, 20 % complexity, 10 % value."""

from __future__ import annotations

import math
import time
import weakref
from decimal import Decimal
from typing import TypedDict, cast

from tabellion.answers import Answer
from tabellion.engine.store import Store
from tabellion.pipelines.documents.review import item_changes
from tabellion.reading.reader import Reading
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType

#: The measures of an item and their weights. Doubt, which is 1 - confidence, counts.
WEIGHTS = {"confidence": 0.4, "proximity": 0.3, "complexity": 0.2, "value": 0.1}
MANY_PAGES, MANY_ROWS, MANY_ISSUES = 20, 50, 5  #: from these counts on, a document has the highest complexity
LARGEST = 1_000_000  #: the amount from which on the value is 1
AMOUNTS = ("total", "amount", "price")  #: the fields that contain the value of a document, the likeliest first
EVERY = 30.0  #: seconds between two updates of the proximity
STEP = 0.005  #: the smallest change of proximity that is written, so that an update writes few rows

_next: weakref.WeakKeyDictionary[Store, float] = weakref.WeakKeyDictionary()


class Measures(TypedDict):
    """The measures from which a priority is calculated, each between 0 and 1."""

    confidence: float  #: the mean of its fields, a missing required one counting 0
    proximity: float  #: the share of the time until the deadline that has passed
    complexity: float
    value: float


class Part(Answer):
    """One component of a priority."""

    value: float
    weight: float
    points: float


class Parts(Answer):
    """The components of a priority."""

    confidence: Part
    proximity: Part
    complexity: Part
    value: Part


def measure(reading: Reading, doctype: DocumentType, proximity: float) -> Measures:
    """The measures of a reading, `proximity` limited to 0 to 1."""
    return {
        "confidence": _confidence(reading, doctype), "proximity": round(min(max(proximity, 0.0), 1.0), 6),
        "complexity": _complexity(reading), "value": _value(reading, doctype),
    }  # fmt: skip


def formula(measures: dict[str, str]) -> str:
    """The priority as SQL, from an expression for each measure."""
    counted = measures | {"confidence": f"(1 - {measures['confidence']})"}
    return f"({' + '.join(f'{weight} * {counted[name]}' for name, weight in WEIGHTS.items())})"


def parts(row: Measures) -> Parts:
    """The components of an item's priority: the value of each, its weight, and its points."""
    counted = row | {"confidence": 1 - row["confidence"]}
    return cast("Parts", {
        name: {"value": round(row[name], 4), "weight": weight, "points": round(weight * counted[name], 4)}  # type: ignore[literal-required]
        for name, weight in WEIGHTS.items()
    })  # fmt: skip


async def refresh(store: Store, *, at_once: bool = False) -> None:
    """Updates the proximity of deadlines in one statement, unless this process did so recently."""
    now = time.monotonic()
    if not at_once and now < _next.get(store, 0.0):
        return
    _next[store] = now + EVERY
    stored = {name: f"t.{name}" for name in WEIGHTS}
    fresh = formula(stored | {"proximity": "n.near"})
    await store.database.fetch(item_changes.update_priorities(store.dialect, formula(stored), fresh, STEP))
    # However long the queue is, this takes at most a hundredth of the time.
    _next[store] = max(_next[store], now + 100 * (time.monotonic() - now))


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
