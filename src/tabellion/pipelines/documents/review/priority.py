"""Which item comes first: 40 % doubt, 30 % nearness of the deadline, 20 % complexity, 10 % value, each part kept."""

from __future__ import annotations

import time
import weakref
from typing import TypedDict

from tabellion.answers import Answer
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store

CONFIDENCE, PROXIMITY, COMPLEXITY, VALUE = 0.4, 0.3, 0.2, 0.1
EVERY = 30.0  #: seconds between two looks at the deadlines
STEP = 0.005  #: nearness moves in steps of this size, so that a look writes few rows however long the queue is

_next: weakref.WeakKeyDictionary[Store, float] = weakref.WeakKeyDictionary()


class Measures(TypedDict):
    """What a priority is reckoned from, each between 0 and 1."""

    confidence: float
    proximity: float
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


def parts(row: Measures) -> Parts:
    """What an item's priority is made of: each part's value, its weight, and the points that it gives."""
    return {
        "confidence": _part(row["confidence"], CONFIDENCE, 1 - row["confidence"]),
        "proximity": _part(row["proximity"], PROXIMITY, row["proximity"]),
        "complexity": _part(row["complexity"], COMPLEXITY, row["complexity"]),
        "value": _part(row["value"], VALUE, row["value"]),
    }  # fmt: skip


def _part(value: float, weight: float, counted: float) -> Part:
    return {"value": round(value, 4), "weight": weight, "points": round(weight * counted, 4)}


async def refresh(store: Store, *, at_once: bool = False) -> None:
    """Brings the nearness of deadlines up to date in one statement, if nobody did here for a while."""
    now = time.monotonic()
    if not at_once and now < _next.get(store, 0.0):
        return
    _next[store] = now + EVERY
    await store.database.fetch(statement(store.dialect))
    # However long the queue is, looking at it takes a hundredth of the time.
    _next[store] = max(_next[store], now + 100 * (time.monotonic() - now))


def statement(dialect: sql.Dialect) -> str:
    """Sets nearness and priority of the open items whose nearness has moved."""
    begun, due = sql.epoch("d.created_at", dialect), sql.epoch("r.due_at", dialect)
    share = f"({sql.epoch(NOW, dialect)} - {begun}) / ({due} - {begun})"
    near = f"CASE WHEN {due} <= {begun} OR {share} > 1 THEN 1.0 WHEN {share} < 0 THEN 0.0 ELSE {share} END"
    # Whoever holds a row at this moment is about to change it: it is seen to next time.
    lock = "FOR UPDATE OF r SKIP LOCKED" if dialect == "postgresql" else ""
    stored, fresh = _formula("t", "t.proximity"), _formula("t", "n.near")
    return f"""UPDATE tabellion_review_items AS t SET proximity = n.near, priority = {fresh}
FROM (SELECT r.id, {near} AS near FROM tabellion_review_items AS r JOIN tabellion_documents AS d ON d.id = r.document_id
  WHERE r.status IN ('pending', 'in_review') {lock}) AS n
WHERE t.id = n.id AND (abs(n.near - t.proximity) >= {STEP} OR abs(t.priority - {stored}) > 0.0001)"""


def _formula(row: str, near: str) -> str:
    return (
        f"({CONFIDENCE} * (1 - {row}.confidence) + {PROXIMITY} * {near} + {COMPLEXITY} * {row}.complexity"
        f" + {VALUE} * {row}.value)"
    )
