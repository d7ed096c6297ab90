"""A review item with everything that is shown of it: document, fields, what is wrong, who has it, where it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tabellion.engine import sql
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.messages import translatable
from tabellion.pipelines.documents.judging import read_issues
from tabellion.pipelines.documents.review import editing, fields, items
from tabellion.pipelines.documents.review.claims import sweep
from tabellion.pipelines.documents.review.fields import Types
from tabellion.pipelines.documents.review.finishing import REJECTIONS
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.queue import ENDINGS

PREVIOUS = 5  #: items that somebody has just finished, to go back to


async def get(store: Store, types: Types, id: str, person: Person) -> dict[str, Any]:  # noqa: A002
    """Everything about one item, as this person sees it; raises Missing."""
    await sweep(store)
    item = await items.row(store, id)
    read = await fields.reading(store, item["document_id"])
    found = await fields.rows(store, item["document_id"])
    doctype = fields.shown_type(types, item["type"])
    absent = [name for name, row in found.items() if row["state"] == "absent"]
    judged = fields.issues(doctype, fields.values_of(found), absent, read_issues(read), fields.decided(found))
    return items.told(item) | {
        "document": _document(item, read), "issues": judged,
        "fields": fields.told(doctype, found, judged, read.get("candidates")),
        "draft": await _draft(store, id, person), "claim": _claim(item, person),
        "instructions": doctype.instructions or None,
        "reject_reasons": [
            {"code": code, "text": text, **translatable(text=text)} for code, text in REJECTIONS.items()
        ],
        "position": await items.position(store, item), "today": await items.finished_today(store, person),
        "previous": await _previous(store, person, id),
    }  # fmt: skip


async def check(store: Store, types: Types, id: str, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
    """What would be wrong with an item if these values were given; writes nothing, and asks for no claim."""
    item = await items.row(store, id)
    read = await fields.reading(store, item["document_id"])
    found = await fields.rows(store, item["document_id"])
    judged, answers = editing.check(types, item, found, given, read)
    return {"issues": judged, "fields": answers}


def _document(item: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    pages = [
        {name: page.get(name) for name in ("number", "size", "rotation", "source", "quality")}
        for page in read.get("pages", [])
    ]
    return {
        "id": item["document_id"], "name": item["name"], "type": item["type"], "type_version": read.get("type_version"),
        "model": item["model"], "sha256": item["sha256"], "pages": pages, "verdict": item["verdict"],
        "cost": item["cost"], "created_at": iso(item["uploaded_at"]), "status": item["document_status"],
    }  # fmt: skip


async def _draft(store: Store, id: str, person: Person) -> dict[str, Any] | None:  # noqa: A002
    """What this person has typed and not saved; nobody sees somebody else's."""
    found = await store.database.fetch(
        f"""SELECT body, {sql.epoch("saved_at", store.dialect)} AS saved_at FROM tabellion_review_drafts
WHERE item_id = $1 AND person = $2""",
        id, person.name,
    )  # fmt: skip
    return dict(json.loads(found[0]["body"])) | {"saved_at": iso(found[0]["saved_at"])} if found else None


def _claim(item: Mapping[str, Any], person: Person) -> dict[str, Any] | None:
    if item["holder"] is None:
        return None
    return {"mine": item["holder"] == person.name, "holder": item["holder"], "until": iso(item["lease_until"])}


async def _previous(store: Store, person: Person, id: str) -> list[dict[str, Any]]:  # noqa: A002
    rows = await store.database.fetch(
        f"""{items.selected(store.dialect)} WHERE r.reviewer = $1 AND r.id <> $2 AND r.finished_at IS NOT NULL
  AND r.status IN {ENDINGS} ORDER BY r.finished_at DESC LIMIT {PREVIOUS}""",
        person.name, id,
    )  # fmt: skip
    return [
        {"id": row["id"], "name": row["name"], "status": row["status"], "finished_at": iso(row["finished_at"])}
        for row in rows
    ]
