"""What commits together with a document's end: its fields, its review item, and the audit entries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.accounts.audit import AuditEntry, Statement, statement
from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.job import Job, storable
from tabellion.engine.sql import Dialect
from tabellion.messages import restore_text
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.locks import NONE, OPEN, PERSON, Locks
from tabellion.pipelines.documents.priority import Urgency
from tabellion.pipelines.documents.review.people import opening
from tabellion.pipelines.documents.review_reasons import Doubt
from tabellion.reading.alternative import Candidate
from tabellion.reading.field import FieldJson, serialize_reasons

_VALUE = ("value", "confidence", "page", "box", "quote", "source", "reasons")
_NEWEST = "place = excluded.place, read_value = excluded.read_value, candidates = excluded.candidates"
#: Values that a person has locked stay; the newest reading is stored beside them.
_HELD = ", ".join(
    f"{name} = CASE WHEN tabellion_extracted_fields.locked THEN tabellion_extracted_fields.{name} "
    f"ELSE excluded.{name} END"
    for name in _VALUE
)
_KEPT = f"""ON CONFLICT (document_id, name) DO UPDATE SET {_NEWEST}, {_HELD},
  state = CASE WHEN tabellion_extracted_fields.locked OR tabellion_extracted_fields.value = excluded.value
    THEN tabellion_extracted_fields.state END"""
_OVERWRITTEN = f"""ON CONFLICT (document_id, name) DO UPDATE SET {_NEWEST},
  {", ".join(f"{name} = excluded.{name}" for name in _VALUE)}, locked = FALSE, manually_corrected = FALSE,
  state = NULL, old_value = NULL, corrected_by = NULL, corrected_at = NULL"""
#: Decisions on the same file as another document, as fields of this one; decisions on this one stay.
_SAID = "value, page, box, quote, reasons, state, locked, corrected_by, old_value"
_CARRIED = f"""INSERT INTO tabellion_extracted_fields
  (document_id, name, place, confidence, source, manually_corrected, corrected_at, {_SAID})
SELECT CAST(:id AS text), name, 0, 1.0, '{PERSON}', TRUE, decided_at, {_SAID} FROM tabellion_field_decisions
WHERE sha256 = :sha256 AND type = :type AND locked AND name IN ({{names}})
ON CONFLICT (document_id, name) DO UPDATE SET confidence = excluded.confidence, source = excluded.source,
  manually_corrected = TRUE, corrected_at = excluded.corrected_at,
  {", ".join(f"{name} = excluded.{name}" for name in _SAID.split(", "))}
WHERE NOT tabellion_extracted_fields.locked"""
_CONFIRMED = """UPDATE tabellion_extracted_fields SET state = 'confirmed'
WHERE document_id = :id AND state IS NULL AND NOT locked AND EXISTS (
  SELECT 1 FROM tabellion_field_decisions AS s WHERE s.sha256 = :sha256 AND s.type = :type
    AND s.name = tabellion_extracted_fields.name AND s.value = tabellion_extracted_fields.value
    AND s.state = 'confirmed')"""
_COLUMNS = f"document_id, name, place, {', '.join(_VALUE)}, read_value, candidates"


@dataclass(frozen=True, slots=True)
class Review:
    """The parts of a review item."""

    reasons: list[Doubt]
    urgency: Urgency
    created_at: float  #: when the document was uploaded, in seconds since 1970
    now: float
    sla: float

    @property
    def proximity(self) -> float:
        """The share of the time until the deadline that has passed."""
        return round(min(max((self.now - self.created_at) / self.sla, 0.0), 1.0), 6)

    @property
    def priority(self) -> float:
        """The current priority."""
        return self.urgency.priority(self.proximity)


@dataclass(frozen=True, slots=True)
class Found:
    """What a reading has found."""

    fields: Mapping[str, FieldJson]  #: the current values, with those of people in place of what was read
    read: Mapping[str, Any]  #: the values that were read
    offers: Mapping[str, list[Candidate]]  #: alternative values


def find_departures(fields: Mapping[str, FieldJson], locks: Locks) -> list[str]:
    """The fields whose values are no longer those that a person approved."""
    if not locks.reviewed:
        return []
    values = {name: field["value"] for name, field in fields.items()}
    names = [*values, *(name for name in locks.approved if name not in values)]
    return [name for name in names if values.get(name) != locks.approved.get(name)]


def attach(
    job: Job, dialect: Dialect, found: Found, review: Review | None, *, keep_locked: bool, again: bool,
    locks: Locks = NONE, type_: str = "", first: Iterable[Statement] = (),
) -> None:  # fmt: skip
    """Attaches to the job's finish everything that belongs to a document that was read.

    `again`: it was read before; leftovers of that are removed, except people's decisions. `locks` are the decisions
    that were known when the reading began: if more were made meanwhile, the document is read once more. `first` are
    statements that come before all others.
    """
    identity = {"id": job.text_key, "sha256": job["sha256"], "type": type_}
    carried = [(_CARRIED.format(names=_select_names(dialect)), identity | {"names": _names(locks.carried)})]
    for text, values in [
        *first,
        *(carried if locks.carried else []),
        *_statements(job, dialect, found, review, keep_locked=keep_locked),
        *([(_CONFIRMED, identity)] if locks.confirmed else []),
    ]:
        job.also(text, **values)
    if again:
        _attach_again(job, dialect, found, review, locks, keep_locked=keep_locked)
    if keep_locked and (again or locks.carried):
        _attach_check(job, dialect, locks)


def _attach_again(
    job: Job, dialect: Dialect, found: Found, review: Review | None, locks: Locks, *, keep_locked: bool
) -> None:
    id_ = job.text_key
    others = f"document_id = :id AND name NOT IN ({_select_names(dialect)})"
    names = _names(found.fields)
    unlocked = "AND NOT locked" if keep_locked else ""
    job.also(f"DELETE FROM tabellion_extracted_fields WHERE {others} {unlocked}", id=id_, names=names)
    if keep_locked and locks.fields:
        job.also(
            f"UPDATE tabellion_extracted_fields SET read_value = 'null', candidates = NULL WHERE {others}",
            id=id_,
            names=names,
        )
    if review is None:
        # An untouched item is no longer needed. If a person has started on it, they must see that its fields have
        # changed; and an item that was reopened must not disappear.
        job.also(
            """DELETE FROM tabellion_review_items WHERE document_id = :id AND status = 'pending' AND NOT EXISTS (
  SELECT 1 FROM tabellion_audit_log AS a
WHERE a.item_id = tabellion_review_items.id AND a.action NOT IN ('created', 'assigned'))""",
            id=id_,
        )
        job.also(
            f"""UPDATE tabellion_review_items SET version = version + 1, reasons = '[]'
WHERE document_id = :id AND status IN {OPEN}""",
            id=id_,
        )
    overtaken(job, "approved", "rejected")
    # Duplicates that shared its failure share its success.
    states.commit_with(job, states.wait_again(job.text_key, "failed"))


def _attach_check(job: Job, dialect: Dialect, locks: Locks) -> None:
    """Has the document read once more if decisions were made that this reading does not know of."""
    newest = f"coalesce(max({sql.epoch('corrected_at', dialect)}), 0)"
    more = f"""SELECT count(*) <> {len(locks.fields)} OR {newest} > {float(locks.latest)!r}
  FROM tabellion_extracted_fields WHERE document_id = :id AND locked"""
    states.commit_with(job, states.read_with_more(job.text_key, more))


def _select_names(dialect: Dialect) -> str:
    """A SELECT of the names in `:names`."""
    if dialect == "postgresql":
        return "SELECT json_array_elements_text(CAST(:names AS json))"
    return "SELECT value FROM json_each(:names)"


def _names(names: Iterable[str]) -> str:
    return json.dumps(sorted(names))


def overtaken(job: Job, *actions: str) -> None:
    """Has outputs written again if one of these actions happened since the document was queued again: its outputs may
    not reflect it, and no webhook has reported it."""
    later = f"""
  SELECT max(CASE WHEN action = 'reprocessed' THEN 0 ELSE n END) > max(CASE WHEN action = 'reprocessed' THEN n END)
  FROM tabellion_audit_log WHERE document_id = :id AND action IN {("reprocessed", *actions)}"""
    states.commit_with(job, states.rewrite_where(job.text_key, later))


def _statements(
    job: Job, dialect: Dialect, found: Found, review: Review | None, *, keep_locked: bool
) -> list[Statement]:
    """One statement on PostgreSQL, where each is a round trip; two on SQLite, where none is."""
    statements: list[Statement] = []
    if found.fields:
        statements.append(_fields(job, dialect, found, _KEPT if keep_locked else _OVERWRITTEN))
    if review is not None:
        statements.append(_review(job, dialect, review))
    if dialect == "postgresql" and len(statements) == 2:
        (first, first_values), (second, second_values) = statements
        return [(f"WITH tabellion_fields AS ({first}) {second}", first_values | second_values)]
    return statements


def _fields(job: Job, dialect: Dialect, found: Found, conflict: str) -> Statement:
    rows = [
        {
            "name": name, "place": place, "value": json.dumps(field["value"], ensure_ascii=False),
            "confidence": field["confidence"], "page": field["page"],
            "box": json.dumps(field["box"]) if field["box"] else None, "quote": field["quote"],
            "source": field["source"],
            "reasons": json.dumps(serialize_reasons(restore_text(field, "reasons")), ensure_ascii=False),
            "read_value": json.dumps(found.read.get(name), ensure_ascii=False),
            "candidates": json.dumps(found.offers[name], ensure_ascii=False) if name in found.offers else None,
        }
        for place, (name, field) in enumerate(found.fields.items())
    ]  # fmt: skip
    values = {"id": job.text_key, "fields": json.dumps(rows, ensure_ascii=False)}
    if dialect == "postgresql":
        return (
            f"""INSERT INTO tabellion_extracted_fields ({_COLUMNS})
SELECT CAST(:id AS text), f.name, f.place, f.value, f.confidence, f.page, f.box, f.quote, f.source, f.reasons,
  f.read_value, f.candidates
FROM json_to_recordset(CAST(:fields AS json)) AS f (name text, place integer, value text, confidence double precision,
  page integer, box text, quote text, source text, reasons text, read_value text, candidates text)
{conflict}""",
            values,
        )
    parts = ", ".join(f"json_extract(f.value, '$.{name}')" for name in _COLUMNS.split(", ")[1:])
    source = "FROM json_each(:fields) AS f WHERE 1"
    return f"INSERT INTO tabellion_extracted_fields ({_COLUMNS}) SELECT :id, {parts} {source} {conflict}", values


def _review(job: Job, dialect: Dialect, review: Review) -> Statement:
    """A new item; an open one is updated, and a finished one stays as it is."""
    due: str = "to_timestamp(CAST(:due AS double precision))" if dialect == "postgresql" else ":due"
    urgency = review.urgency
    return (
        f"""INSERT INTO tabellion_review_items
  (id, document_id, status, priority, confidence, proximity, complexity, value,
  reasons, created_at, due_at)
VALUES (:item, :document, 'pending', :priority, :confidence, :proximity, :complexity, :worth, :reasons,
  {sql.CLOCK[dialect]}, {due})
ON CONFLICT (document_id) DO UPDATE SET priority = excluded.priority, confidence = excluded.confidence,
  proximity = excluded.proximity, complexity = excluded.complexity, value = excluded.value,
  reasons = excluded.reasons, version = tabellion_review_items.version + 1
WHERE tabellion_review_items.status IN ('pending', 'in_review')""",
        {
            "item": new_id(), "document": job.text_key, "priority": review.priority, "confidence": urgency.confidence,
            "proximity": review.proximity, "complexity": urgency.complexity, "worth": urgency.value,
            "reasons": json.dumps(review.reasons, ensure_ascii=False), "due": review.created_at + review.sla,
        },
    )  # fmt: skip


def tell(job: Job, dialect: Dialect, entry: AuditEntry, *, opened: bool, last: Iterable[Statement] = ()) -> None:
    """Attaches the audit entries: of the reading, and of its review item, which is also assigned.

    To be called last: the audit log is locked until the transaction ends.
    """
    assigned, *opened_entries = opening(dialect, job.text_key) if opened else [None]
    for text, values in [*([assigned] if assigned else []), statement(dialect, entry), *last, *opened_entries]:
        job.also(text, **values)


def clean_value(value: Any) -> Any:
    """A value that every database and every JSON parser accepts: NULs and lone surrogates are escaped."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {clean_value(key): clean_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(inner) for inner in value]
    return value
