"""People's decisions on a document: the fields they have locked, and the state of its review."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tabellion.engine import sql
from tabellion.engine.context import JobContext
from tabellion.engine.job import Job
from tabellion.pipelines.documents.extracted_fields import PERSON, FieldRow
from tabellion.pipelines.documents.judging import clean_value
from tabellion.pipelines.documents.review import item_changes
from tabellion.pipelines.documents.review.fields import ABSENT, CORRECTED
from tabellion.pipelines.documents.review.queue import OPEN, REVIEWED, public_status
from tabellion.reading.field import Field
from tabellion.reading.types.doctype import DocumentType


@dataclass(frozen=True, slots=True)
class Locks:
    """The fields that people have locked, with their values."""

    fields: Mapping[str, Field] = field(default_factory=dict)
    latest: float = 0.0  #: the time of the last decision, in seconds since 1970
    review: str | None = None  #: the state of the review, as outputs show it
    is_started: bool = False  #: whether a person has worked on the open review: it stays, whatever is read now
    absent: frozenset[str] = frozenset()  #: fields that the document does not have, according to a person
    carried: frozenset[str] = frozenset()  #: fields that were decided on another document with the same bytes
    confirmed: Mapping[str, Any] = field(default_factory=dict)  #: the values that were read and confirmed there
    kept: Mapping[str, Any] = field(default_factory=dict)  #: the values that were read and confirmed on this document
    approved: Mapping[str, Any] = field(default_factory=dict)  #: the values of all fields, if a person approved them

    def decided_fields(self, read: Mapping[str, Field]) -> set[str]:
        """The fields that people have decided: a confirmation is valid as long as the same value is read."""
        confirmed = {**self.confirmed, **self.kept}
        same = (name for name in confirmed if name in read and clean_value(read[name].value) == confirmed[name])
        return {*self.fields, *same}


NONE = Locks()


async def locks_of(context: JobContext, document: str) -> Locks:
    """The decisions on a document so far."""
    rows = await context.fetch(
        f"""SELECT f.name, f.value, f.page, f.box, f.quote, f.state, f.locked,
  tabellion_review_items.status AS review, {item_changes.IS_STARTED} AS is_started,
  {sql.epoch("f.corrected_at", context.dialect)} AS corrected_at
FROM tabellion_documents AS d LEFT JOIN tabellion_review_items ON tabellion_review_items.document_id = d.id
LEFT JOIN tabellion_extracted_fields AS f ON f.document_id = d.id WHERE d.id = $1""",
        document,
    )
    held = [row for row in rows if row["locked"]]
    latest = max((row["corrected_at"] or 0.0 for row in held), default=0.0)
    review = public_status(rows[0]["review"]) if rows else None
    values = {row["name"]: json.loads(row["value"] or "null") for row in rows if row["name"] is not None}
    return Locks(
        {row["name"]: load_locked_field(row) for row in held}, latest, review,
        review in OPEN and bool(rows[0]["is_started"] or rows[0]["review"] != OPEN[0]),
        frozenset(row["name"] for row in held if row["state"] == "absent"),
        kept={row["name"]: values[row["name"]] for row in rows if row["state"] == "confirmed" and not row["locked"]},
        approved=values if review in REVIEWED else {},
    )  # fmt: skip


async def with_decisions(context: JobContext, locks: Locks, job: Job, doctype: DocumentType) -> Locks:
    """The locks, extended by decisions on any document with these bytes and this type: another model or another version
    of the type that still has the field does not lose them. Decisions on this document itself take precedence."""
    rows = await context.fetch(
        f"""SELECT name, value, page, box, quote, state, locked,
  {sql.epoch("decided_at", context.dialect)} AS decided_at
FROM tabellion_field_decisions WHERE sha256 = $1 AND type = $2""",
        job["sha256"], doctype.name,
    )  # fmt: skip
    relevant = [row for row in rows if row["name"] in doctype and row["name"] not in locks.fields]
    held = [row for row in relevant if row["locked"]]
    return replace(
        locks,
        fields={**locks.fields, **{row["name"]: load_locked_field(row) for row in held}},
        latest=max([locks.latest, *(row["decided_at"] or 0.0 for row in held)]),
        absent=locks.absent | {row["name"] for row in held if row["state"] == "absent"},
        carried=frozenset(row["name"] for row in held),
        confirmed={row["name"]: json.loads(row["value"] or "null") for row in relevant if not row["locked"]},
    )


def load_locked_field(row: FieldRow) -> Field:
    """A row of `extracted_fields` that a person has locked, as a field; its confidence is 1."""
    value = json.loads(row["value"]) if row["value"] is not None else None
    box = json.loads(row["box"]) if row["box"] else None
    reasons = ABSENT if row["state"] == "absent" else CORRECTED
    return Field(value, 1.0, row["page"], tuple(box) if box else None, row["quote"], PERSON, reasons)
