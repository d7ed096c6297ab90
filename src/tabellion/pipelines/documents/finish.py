"""What commits together with a document's end: its fields, its review item, and what others are told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.job import Job, storable
from tabellion.engine.sql import Dialect
from tabellion.pipelines.documents.doubts import Doubt
from tabellion.pipelines.documents.priority import Urgency
from tabellion.pipelines.documents.submit import new_id

Statement = tuple[str, dict[str, Any]]

_UPDATES = ", ".join(
    f"{name} = excluded.{name}"
    for name in ("place", "value", "confidence", "page", "box", "quote", "source", "reasons")
)
_KEPT = f"ON CONFLICT (document_id, name) DO UPDATE SET {_UPDATES} WHERE NOT extracted_fields.locked"
_OVERWRITTEN = f"""ON CONFLICT (document_id, name) DO UPDATE SET {_UPDATES}, locked = FALSE, corrected_by = NULL,
  corrected_at = NULL"""
_COLUMNS = "document_id, name, place, value, confidence, page, box, quote, source, reasons"


@dataclass(frozen=True, slots=True)
class Review:
    """What a review item is made of."""

    reasons: list[Doubt]
    urgency: Urgency
    created_at: float  #: when the document came, in seconds since 1970
    now: float
    sla: float

    @property
    def priority(self) -> float:
        """As of now."""
        return self.urgency.priority((self.now - self.created_at) / self.sla)


def attach(
    job: Job, dialect: Dialect, fields: Mapping[str, Mapping[str, Any]], review: Review | None, *, keep_locked: bool,
    again: bool, locks: tuple[int, float] = (0, 0.0),
) -> None:  # fmt: skip
    """Attaches to a job's finish all that belongs to a document which was read.

    `again`: it was read before; then what is left of that goes, but for what people have said. `locks` are what was
    known of that when the reading began: where somebody has said more meanwhile, the document is read once more.
    """
    for text, values in _statements(job, dialect, fields, review, keep_locked=keep_locked):
        job.also(text, **values)
    if not again:
        return
    names = json.dumps(list(fields))
    unlocked = "AND NOT locked" if keep_locked else ""
    listed = (
        "SELECT json_array_elements_text(CAST(:names AS json))"
        if dialect == "postgresql"
        else "SELECT value FROM json_each(:names)"
    )
    job.also(
        f"DELETE FROM extracted_fields WHERE document_id = :id {unlocked} AND name NOT IN ({listed})",
        id=job.text_key, names=names,
    )  # fmt: skip
    if review is None:
        # Nobody has begun with it, and nobody need.
        job.also("DELETE FROM review_items WHERE document_id = :id AND status = 'pending'", id=job.text_key)
    if keep_locked:
        count, latest = locks
        newest = f"coalesce(max({sql.epoch('corrected_at', dialect)}), 0)"
        job.also(
            f"""UPDATE documents SET status = 'queued', completed_at = NULL WHERE id = :id AND (
  SELECT count(*) <> {int(count)} OR {newest} > {float(latest)!r} FROM extracted_fields
  WHERE document_id = :id AND locked)""",
            id=job.text_key,
        )
    # Those who shared its failure share its success.
    job.also(
        """UPDATE documents SET status = 'queued', chore = 'follow', completed_at = NULL
WHERE duplicate_of = :id AND status = 'failed'""",
        id=job.text_key,
    )


def _statements(
    job: Job, dialect: Dialect, fields: Mapping[str, Mapping[str, Any]], review: Review | None, *, keep_locked: bool
) -> list[Statement]:
    """One statement on PostgreSQL, where each is a round trip; two on SQLite, where none is."""
    statements: list[Statement] = []
    if fields:
        statements.append(_fields(job, dialect, fields, _KEPT if keep_locked else _OVERWRITTEN))
    if review is not None:
        statements.append(_review(job, dialect, review))
    if dialect == "postgresql" and len(statements) == 2:
        (first, some), (second, others) = statements
        return [(f"WITH tabellion_fields AS ({first}) {second}", some | others)]
    return statements


def _fields(job: Job, dialect: Dialect, fields: Mapping[str, Mapping[str, Any]], conflict: str) -> Statement:
    rows = [
        {
            "name": name, "place": place, "value": json.dumps(told["value"], ensure_ascii=False),
            "confidence": told["confidence"], "page": told["page"],
            "box": json.dumps(told["box"]) if told["box"] else None, "quote": told["quote"], "source": told["source"],
            "reasons": json.dumps(told["reasons"], ensure_ascii=False),
        }
        for place, (name, told) in enumerate(fields.items())
    ]  # fmt: skip
    values = {"id": job.text_key, "fields": json.dumps(rows, ensure_ascii=False)}
    if dialect == "postgresql":
        return (
            f"""INSERT INTO extracted_fields ({_COLUMNS})
SELECT CAST(:id AS text), f.name, f.place, f.value, f.confidence, f.page, f.box, f.quote, f.source, f.reasons
FROM json_to_recordset(CAST(:fields AS json)) AS f (name text, place integer, value text, confidence double precision,
  page integer, box text, quote text, source text, reasons text)
{conflict}""",
            values,
        )
    parts = ", ".join(f"json_extract(f.value, '$.{name}')" for name in _COLUMNS.split(", ")[1:])
    source = "FROM json_each(:fields) AS f WHERE 1"
    return f"INSERT INTO extracted_fields ({_COLUMNS}) SELECT :id, {parts} {source} {conflict}", values


def _review(job: Job, dialect: Dialect, review: Review) -> Statement:
    """A new item; one that is there is brought up to date, and one that is finished stays as people left it."""
    due: str = "to_timestamp(CAST(:due AS double precision))" if dialect == "postgresql" else ":due"
    urgency = review.urgency
    return (
        f"""INSERT INTO review_items (id, document_id, status, priority, confidence, complexity, value, reasons,
  created_at, due_at)
VALUES (:item, :document, 'pending', :priority, :confidence, :complexity, :worth, :reasons, {sql.CLOCK[dialect]}, {due})
ON CONFLICT (document_id) DO UPDATE SET priority = excluded.priority, confidence = excluded.confidence,
  complexity = excluded.complexity, value = excluded.value, reasons = excluded.reasons,
  version = review_items.version + 1
WHERE review_items.status IN ('pending', 'in_review')""",
        {
            "item": new_id(), "document": job.text_key, "priority": review.priority, "confidence": urgency.confidence,
            "complexity": urgency.complexity, "worth": urgency.value,
            "reasons": json.dumps(review.reasons, ensure_ascii=False), "due": review.created_at + review.sla,
        },
    )  # fmt: skip


def cleaned(value: Any) -> Any:
    """A value as every database and every JSON parser takes it: NULs and lone surrogates written out."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    return value
