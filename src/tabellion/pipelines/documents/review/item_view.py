"""A review item with everything that is shown of it: document, fields, issues, holder, position in the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from tabellion.answers import Answer, Doc
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.pipelines.documents.judging import DocumentResult, StoredDocument, judge_stored
from tabellion.pipelines.documents.review import drafts, editing, fields, items
from tabellion.pipelines.documents.review import rejection as rejections
from tabellion.pipelines.documents.review.claims import sweep
from tabellion.pipelines.documents.review.editing import CheckedField
from tabellion.pipelines.documents.review.fields import ReviewField, Types
from tabellion.pipelines.documents.review.items import ItemRow, Position
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.priority import Parts, parts
from tabellion.pipelines.documents.review.queue import ENDINGS, Status
from tabellion.pipelines.documents.review_reasons import Reason
from tabellion.pipelines.documents.row import DocumentIssue

PREVIOUS = 5  #: items that the person has just finished, to return to


class Escalation(Answer):
    """Who escalated an item, when and why."""

    by: str | None
    at: str
    why: str | None


class Item(Answer):
    """A document that is waiting for review, claimed or finished."""

    id: str
    document_id: str
    name: str
    type: str | None
    status: Status
    priority: float
    parts: Parts
    reasons: list[Reason]
    assigned_to: str | None
    holder: str | None
    lease_until: str | None
    postponed_until: str | None
    escalated: Escalation | None
    created_at: str
    due_at: str
    sla_left: Annotated[float, Doc("Seconds until it is due; negative: overdue by that long.")]
    pages: int | None
    version: int
    reviewer: str | None
    finished_at: str | None
    reason: Annotated[str | None, Doc("Why it was rejected: a code, or `code: note`.")]
    rejection: Annotated[rejections.Rejection | None, Doc("Why it was rejected, in parts.")]
    url: str


class ItemPage(Answer):
    """A page of the document."""

    number: int
    size: list[float] | None
    rotation: int | None
    source: str | None
    quality: float | None


class ItemDocument(Answer):
    """The document that an item is about."""

    id: str
    name: str
    type: str | None
    type_version: str | None
    model: str
    sha256: str
    pages: list[ItemPage]
    verdict: str | None
    cost: float | None
    created_at: str
    status: str


class Claim(Answer):
    """The holder of the item."""

    mine: bool
    holder: str
    until: str


class Finished(Answer):
    """An item that the caller has finished."""

    id: str
    name: str
    status: Status
    finished_at: str


class ItemDetail(Item):
    """An item with everything that is shown of it."""

    document: ItemDocument
    fields: list[ReviewField]
    issues: list[DocumentIssue]
    draft: dict[str, Any] | None
    claim: Claim | None
    instructions: str | None
    reject_reasons: list[rejections.RejectionReason]
    position: Position
    today: int
    previous: list[Finished]


class Checked(Answer):
    """The issues that the values would have."""

    issues: list[DocumentIssue]
    fields: dict[str, CheckedField]


def serialize_item(item: ItemRow) -> Item:
    """An item as JSON."""
    at, escalated = item["escalated_at"], None
    if at is not None:
        escalated = Escalation(by=item["escalated_by"], at=iso(at), why=item["escalation"])
    closed = item["status"] in ENDINGS
    rejection = rejections.load_rejection(item["reason"])
    return {
        "id": item["id"], "document_id": item["document_id"], "name": item["name"], "type": item["type"],
        "status": item["status"], "priority": round(float(item["priority"]), 4), "parts": parts(item),
        "reasons": json.loads(item["reasons"] or "[]"), "assigned_to": item["assigned_to"], "holder": item["holder"],
        "lease_until": iso(item["lease_until"]), "postponed_until": iso(item["postponed_until"]),
        "escalated": escalated,
        "created_at": iso(item["created_at"]), "due_at": iso(item["due_at"]),
        "sla_left": round(item["due_at"] - ((closed and item["finished_at"]) or item["now"]), 1),
        "pages": item["pages"], "version": item["version"], "reviewer": item["reviewer"],
        "finished_at": iso(item["finished_at"]), "rejection": rejection,
        "reason": rejections.summarize(rejection) if rejection else item["reason"], "url": f"/review/{item['id']}",
    }  # fmt: skip


async def get(store: Store, types: Types, id: str, person: Person) -> ItemDetail:  # noqa: A002
    """Everything about one item, as this person sees it; raises NoSuchItem."""
    await sweep(store)
    item = await items.row(store, id)
    read, reasons = await fields.load_judged(store, item["document_id"])
    found = await fields.rows(store, item["document_id"])
    usable = fields.usable_type(types, item["type"])
    doctype = usable or fields.NO_TYPE
    stored = StoredDocument(read, reasons, item["verdict"], item["status"], [*found.values()])
    judgement = judge_stored(stored, usable)
    judged = [issue.as_dict() for issue in judgement.issues]
    return {
        **serialize_item(item), "document": _document(item, read, judgement.verdict), "issues": judged,
        "fields": fields.serialize_fields(doctype, found, judged, read.get("candidates")),
        "draft": await drafts.load(store, id, person.name), "claim": _claim(item, person),
        "instructions": doctype.instructions or None,
        "reject_reasons": [rejections.describe_reason(code) for code in rejections.REJECTIONS],
        "position": await items.position(store, item), "today": await items.count_finished_today(store, person),
        "previous": await _previous(store, person, id),
    }  # fmt: skip


async def check(store: Store, types: Types, id: str, values: Mapping[str, Any]) -> Checked:  # noqa: A002
    """The issues that an item would have with these values; writes nothing, and requires no claim."""
    item = await items.row(store, id)
    read = await fields.load_reading(store, item["document_id"])
    found = await fields.rows(store, item["document_id"])
    judged, answers = editing.check(types, item, found, values, read)
    return {"issues": judged, "fields": answers}


def _document(item: ItemRow, read: DocumentResult, verdict: str | None) -> ItemDocument:
    pages: list[ItemPage] = [
        {
            "number": page["number"], "size": page.get("size"), "rotation": page.get("rotation"),
            "source": page.get("source"), "quality": page.get("quality"),
        }
        for page in read.get("pages", [])
    ]  # fmt: skip
    return {
        "id": item["document_id"], "name": item["name"], "type": item["type"], "type_version": read.get("type_version"),
        "model": item["model"], "sha256": item["sha256"], "pages": pages, "verdict": verdict,
        "cost": item["cost"], "created_at": iso(item["uploaded_at"]), "status": item["document_status"],
    }  # fmt: skip


def _claim(item: ItemRow, person: Person) -> Claim | None:
    holder, until = item["holder"], item["lease_until"]
    if holder is None or until is None:
        return None
    return {"mine": holder == person.name, "holder": holder, "until": iso(until)}


async def _previous(store: Store, person: Person, id: str) -> list[Finished]:  # noqa: A002
    rows: list[ItemRow] = await store.database.fetch(
        f"""{items.select_items(store.dialect)} WHERE r.reviewer = $1 AND r.id <> $2 AND r.finished_at IS NOT NULL
  AND r.status IN {ENDINGS} ORDER BY r.finished_at DESC LIMIT {PREVIOUS}""",
        person.name, id,
    )  # fmt: skip
    return [
        {"id": row["id"], "name": row["name"], "status": row["status"], "finished_at": iso(at)}
        for row in rows
        if (at := row["finished_at"]) is not None
    ]
