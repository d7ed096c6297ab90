"""What commits together with a document's end: its fields, its review item, and what others are told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.accounts.audit import AuditEntry, Statement, statement
from tabellion.engine import sql
from tabellion.engine.job import Job, storable
from tabellion.engine.sql import Dialect
from tabellion.messages import restore_text
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.locks import NONE, OPEN, PERSON, Locks
from tabellion.pipelines.documents.priority import Urgency
from tabellion.pipelines.documents.review.people import opening
from tabellion.pipelines.documents.review_reasons import Doubt
from tabellion.pipelines.documents.submit import new_id
from tabellion.reading.alternative import Candidate
from tabellion.reading.field import ToldField, serialize_reasons

_VALUE = ("value", "confidence", "page", "box", "quote", "source", "reasons")
_NEWEST = "place = excluded.place, read_value = excluded.read_value, candidates = excluded.candidates"
#: What a person has locked stays, and what the newest reading says of it is told beside it.
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
#: What people said of the same bytes as another document, as fields of this one; what they said of this one stays.
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
    """What a review item is made of."""

    reasons: list[Doubt]
    urgency: Urgency
    created_at: float  #: when the document came, in seconds since 1970
    now: float
    sla: float

    @property
    def proximity(self) -> float:
        """How much of the time until the deadline is over, as of now."""
        return round(min(max((self.now - self.created_at) / self.sla, 0.0), 1.0), 6)

    @property
    def priority(self) -> float:
        """As of now."""
        return self.urgency.priority(self.proximity)


@dataclass(frozen=True, slots=True)
class Found:
    """What a reading has found."""

    fields: Mapping[str, ToldField]  #: as they are told: with what people have said in their place
    read: Mapping[str, Any]  #: the values that the reading itself has
    offers: Mapping[str, list[Candidate]]  #: other values there are


def find_departures(fields: Mapping[str, ToldField], locks: Locks) -> list[str]:
    """The fields that are not any more what a person has approved."""
    if not locks.reviewed:
        return []
    values = {name: told["value"] for name, told in fields.items()}
    names = [*values, *(name for name in locks.approved if name not in values)]
    return [name for name in names if values.get(name) != locks.approved.get(name)]


def attach(
    job: Job, dialect: Dialect, found: Found, review: Review | None, *, keep_locked: bool, again: bool,
    locks: Locks = NONE, type_: str = "", first: Iterable[Statement] = (),
) -> None:  # fmt: skip
    """Attaches to a job's finish all that belongs to a document which was read.

    `again`: it was read before; then what is left of that goes, but for what people have said. `locks` are what was
    known of that when the reading began: where somebody has said more meanwhile, the document is read once more.
    `first` is what comes before all of it.
    """
    said = {"id": job.text_key, "sha256": job["sha256"], "type": type_}
    carried = [(_CARRIED.format(names=_select_names(dialect)), said | {"names": _names(locks.carried)})]
    for text, values in [
        *first,
        *(carried if locks.carried else []),
        *_statements(job, dialect, found, review, keep_locked=keep_locked),
        *([(_CONFIRMED, said)] if locks.confirmed else []),
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
        # Nobody has begun with it, and nobody need. Whoever has begun must see that fields are others now; and what
        # somebody has opened again is not theirs to be lost.
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
    # Those who shared its failure share its success.
    states.commit_with(job, states.wait_again(job.text_key, "failed"))


def _attach_check(job: Job, dialect: Dialect, locks: Locks) -> None:
    """Has the document read once more where somebody has said more than this reading knows of."""
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
    """Attaches that outputs are written again if one of these was done to a document since it was put back in line: its
    outputs may not say so, and nobody has been told."""
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
        (first, some), (second, others) = statements
        return [(f"WITH tabellion_fields AS ({first}) {second}", some | others)]
    return statements


def _fields(job: Job, dialect: Dialect, found: Found, conflict: str) -> Statement:
    rows = [
        {
            "name": name, "place": place, "value": json.dumps(told["value"], ensure_ascii=False),
            "confidence": told["confidence"], "page": told["page"],
            "box": json.dumps(told["box"]) if told["box"] else None, "quote": told["quote"], "source": told["source"],
            "reasons": json.dumps(serialize_reasons(restore_text(told, "reasons")), ensure_ascii=False),
            "read_value": json.dumps(found.read.get(name), ensure_ascii=False),
            "candidates": json.dumps(found.offers[name], ensure_ascii=False) if name in found.offers else None,
        }
        for place, (name, told) in enumerate(found.fields.items())
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
    """A new item; one that is there is brought up to date, and one that is finished stays as people left it."""
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
    """Attaches what the trail is told: that the document was read, and of its review item, which goes to somebody.

    To be called last: whoever writes to the trail keeps others from it until the transaction ends.
    """
    assigned, *told = opening(dialect, job.text_key) if opened else [None]
    for text, values in [*([assigned] if assigned else []), statement(dialect, entry), *last, *told]:
        job.also(text, **values)


def clean_value(value: Any) -> Any:
    """A value as every database and every JSON parser takes it: NULs and lone surrogates written out."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {clean_value(key): clean_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(inner) for inner in value]
    return value
