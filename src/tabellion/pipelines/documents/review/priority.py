"""The priority of items: 40 % doubt, 30 % proximity of the deadline, 20 % complexity, 10 % value; parts are stored."""

from __future__ import annotations

import time
import weakref
from typing import TypedDict

from tabellion.answers import Answer
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store

CONFIDENCE, PROXIMITY, COMPLEXITY, VALUE = 0.4, 0.3, 0.2, 0.1
EVERY = 30.0  #: seconds between two updates of the proximity
STEP = 0.005  #: the smallest change of proximity that is written, so that an update writes few rows

_next: weakref.WeakKeyDictionary[Store, float] = weakref.WeakKeyDictionary()


class Measures(TypedDict):
    """The measures from which a priority is calculated, each between 0 and 1."""

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
    """The components of an item's priority: the value of each, its weight, and its points."""
    return {
        "confidence": _part(row["confidence"], CONFIDENCE, 1 - row["confidence"]),
        "proximity": _part(row["proximity"], PROXIMITY, row["proximity"]),
        "complexity": _part(row["complexity"], COMPLEXITY, row["complexity"]),
        "value": _part(row["value"], VALUE, row["value"]),
    }  # fmt: skip


def _part(value: float, weight: float, counted: float) -> Part:
    return {"value": round(value, 4), "weight": weight, "points": round(weight * counted, 4)}


async def refresh(store: Store, *, at_once: bool = False) -> None:
    """Updates the proximity of deadlines in one statement, unless this process did so recently."""
    now = time.monotonic()
    if not at_once and now < _next.get(store, 0.0):
        return
    _next[store] = now + EVERY
    await store.database.fetch(statement(store.dialect))
    # However long the queue is, this takes at most a hundredth of the time.
    _next[store] = max(_next[store], now + 100 * (time.monotonic() - now))


def statement(dialect: sql.Dialect) -> str:
    """Updates proximity and priority of the open items whose proximity has changed."""
    uploaded, due = sql.epoch("d.created_at", dialect), sql.epoch("r.due_at", dialect)
    share = f"({sql.epoch(NOW, dialect)} - {uploaded}) / ({due} - {uploaded})"
    near = f"CASE WHEN {due} <= {uploaded} OR {share} > 1 THEN 1.0 WHEN {share} < 0 THEN 0.0 ELSE {share} END"
    # A row that is locked is about to change: it is updated next time.
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
