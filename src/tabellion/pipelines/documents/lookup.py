"""Reads documents: one with everything, many in a list, and the progress of those that somebody waits for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from tabellion.engine import sql
from tabellion.engine.ids import is_id
from tabellion.engine.paths import hide_folders
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError
from tabellion.messages import translatable
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.extracted_fields import FIELDS, FieldRow, parse_values
from tabellion.pipelines.documents.judging import DocumentResult, StoredDocument, judge_stored
from tabellion.pipelines.documents.locks import load_locked_field
from tabellion.pipelines.documents.review import items
from tabellion.pipelines.documents.review.fields import Types, usable_type
from tabellion.pipelines.documents.review.queue import REVIEWED, public_status
from tabellion.pipelines.documents.review.rejection import load_rejection, summarize
from tabellion.pipelines.documents.row import (
    REVIEWS,
    STATUSES,
    TIMES,
    Brief,
    DocumentDetail,
    DocumentFailure,
    DocumentRow,
    FoundField,
    ListedDocument,
    PageProgress,
    ReadDocument,
    Review,
    ReviewState,
    State,
)
from tabellion.reading.field import restore_reasons

ENDED = ("completed", "failed", "duplicate")  #: the statuses that only a new reading changes
MOST = 500  #: documents in one list
#: The filters of a list and their conditions; `$` is the placeholder of the value.
FILTERS = {
    "status": "d.status = $",
    "type": "coalesce(o.found_type, d.found_type, d.type) = $",
    "model": "d.model = $",
    "verdict": "coalesce(o.verdict, d.verdict) = $",
    "sha256": "d.sha256 = $",
    "duplicate_of": "d.duplicate_of = $",
    "name": "d.name = $",
    "name_like": "lower(d.name) LIKE $ ESCAPE '!'",
    "created_after": "d.created_at >= $",
    "created_before": "d.created_at < $",
    "review": "CASE WHEN r.status = 'in_review' THEN 'pending' ELSE r.status END = $",
}
#: The columns that a duplicate takes from its original.
_BORROWED = (
    "found_type", "pages", "done_pages", "verdict", "reasons", "json_path", "json_sha256", "parquet_path",
    "parquet_sha256",
)  # fmt: skip


class _Found(DocumentRow):
    source: str  #: the document that has its fields
    review: str | None
    result: str | None  #: JSON


class BadQuery(TabellionError):  # noqa: N818 - what it is
    """The parameters of a list are not valid."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


async def get(
    store: Store,
    id: str,  # noqa: A002 - the column's name
    types: Types | None = None,
) -> DocumentDetail | None:
    """A document with everything known about it; a duplicate has the values of its original. None if there is none.

    If `types` is given, it is judged again as in `judge_stored`.
    """
    if not is_id(id):
        return None
    await tables.SCHEMA.prepare(store)
    rows = await _rows(store, "d.id = $1", [id], result="CASE WHEN o.id IS NULL THEN d.result ELSE o.result END")
    if not rows:
        return None
    row = rows[0]
    fields: list[FieldRow] = await store.database.fetch(FIELDS, row["source"])
    review = await _review(store, row["source"])
    result: DocumentResult = json.loads(row["result"] or "{}")
    summary = brief(row)
    judgement = judge_stored(
        StoredDocument(
            result, summary["reasons"], summary["verdict"], review["status"] if review is not None else None,
            parse_values(fields),
        ),
        usable_type(types, row["found_type"]) if types is not None else None,
    )  # fmt: skip
    return {
        **summary,
        "verdict": judgement.verdict,
        "reasons": judgement.reasons,
        "reviewed": review is not None and review["status"] in REVIEWED,
        "review": review,
        "fields": {field["name"]: serialize_field(field) for field in fields},
        "issues": [issue.as_dict() for issue in judgement.issues],
        "notes": result.get("notes", []),
        "page_details": result.get("pages", []),
    }


async def list_documents(
    store: Store, filters: Mapping[str, Any] | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[list[ListedDocument], str | None]:
    """Documents without their fields, newest first, and the cursor of the next page; None: this was the last.

    `filters` has any of FILTERS; times are datetimes or seconds since 1970. Raises BadQuery, which names the field.
    """
    if not 1 <= limit <= MOST:
        raise BadQuery("limit", f"limit is 1 to {MOST}")
    if cursor is not None and not is_id(cursor):
        raise BadQuery("cursor", "the cursor is not valid: use the `next` value of the previous page")
    conditions, values = ["1 = 1"], []
    for name, value in (filters or {}).items():
        if name not in FILTERS:
            raise BadQuery(name, f"unknown filter {name!r}; known: {', '.join(FILTERS)}")
        if name == "status" and value not in STATUSES:
            raise BadQuery(name, f"status is one of {', '.join(STATUSES)}")
        if name == "review" and value not in REVIEWS:
            raise BadQuery(name, f"review is one of {', '.join(REVIEWS)}")
        timed = name.startswith("created_")
        values.append(_seconds(name, value) if timed else str(value))
        mark = f"${len(values)}"
        if timed and store.dialect == "postgresql":
            mark = f"to_timestamp(CAST({mark} AS double precision))"
        conditions.append(FILTERS[name].replace("$", mark))
    if cursor is not None:
        values.append(cursor)
        conditions.append(f"d.id < ${len(values)}")
    await tables.SCHEMA.prepare(store)
    rows = await _rows(store, " AND ".join(conditions), values, limit + 1)
    documents: list[ListedDocument] = [
        {**brief(row), "review": cast("Review | None", public_status(row["review"]))} for row in rows[:limit]
    ]
    return documents, rows[limit - 1]["id"] if len(rows) > limit else None


listing = list_documents  #: the name it had before, which programs may still use


async def states(store: Store, ids: Iterable[str]) -> dict[str, State]:
    """Status, progress and version of these documents, in one query however many there are."""
    valid_ids = [id_ for id_ in ids if is_id(id_)]
    if not valid_ids:
        return {}
    await tables.SCHEMA.prepare(store)
    marks = ", ".join(f"${number}" for number in range(1, len(valid_ids) + 1))
    rows = await store.database.fetch(
        f"SELECT id, status, pages, done_pages, version FROM tabellion_documents WHERE id IN ({marks})", *valid_ids
    )
    return {row["id"]: {"status": row["status"], "progress": _progress(row), "version": row["version"]} for row in rows}


async def _review(store: Store, id: str) -> ReviewState | None:  # noqa: A002
    """The review state of a document."""
    rows = await store.database.fetch(
        items.of_document(
            f"id, status, assigned_to, reviewer, reason, {sql.epoch('finished_at', store.dialect)} AS finished_at"
        ),
        id,
    )
    if not rows:
        return None
    rejection, at = load_rejection(rows[0]["reason"]), iso(rows[0]["finished_at"])
    reason = summarize(rejection) if rejection else rows[0]["reason"]
    return cast("ReviewState", rows[0] | {"finished_at": at, "reason": reason})


def read_document(row: DocumentRow, result: DocumentResult) -> ReadDocument:
    """A document as its outputs contain it and webhooks report it."""
    return {
        **brief(row), "fields": cast("dict[str, FoundField]", result["fields"]), "issues": result["issues"],
        "notes": result.get("notes") or [], "page_details": result.get("pages") or [],
    }  # fmt: skip


def brief(row: DocumentRow) -> Brief:
    """The public form of a row."""
    return {
        "id": row["id"], "status": row["status"], "type": row["found_type"] or row["type"],
        "asked_type": row["type"], "type_key": row["type_key"], "model": row["model"], "sha256": row["sha256"],
        "bytes": row["bytes"], "name": row["name"], "media": row["media"], "duplicate_of": row["duplicate_of"],
        "progress": _progress(row), "pages": row["pages"], "verdict": row["verdict"],
        "reasons": json.loads(row["reasons"] or "[]"),
        "outputs": {"json": row["json_path"], "parquet": row["parquet_path"]},
        "hashes": {"json": row["json_sha256"], "parquet": row["parquet_sha256"]},
        "cost": row["cost"], "error": problem(row["error"], row["attempts"]), "attempts": row["attempts"],
        "webhook": row["webhook"], "version": row["version"],
        "created_at": iso(row["created_at"]), "started_at": iso(row["started_at"]),
        "completed_at": iso(row["completed_at"]),
    }  # fmt: skip


def serialize_field(row: FieldRow) -> FoundField:
    """A row of `extracted_fields` as JSON; a locked one has the person's value."""
    if row["locked"]:
        return {**load_locked_field(row).as_dict(), "locked": True}
    reasons = restore_reasons(json.loads(row["reasons"] or "[]"))
    return {
        "value": json.loads(row["value"]) if row["value"] is not None else None,
        "confidence": round(float(row["confidence"]), 3), "page": row["page"],
        "box": json.loads(row["box"]) if row["box"] else None, "quote": row["quote"], "source": row["source"],
        "reasons": reasons, "locked": False, **translatable(reasons=reasons),
    }  # fmt: skip


def problem(text: str | None, attempts: int = 0) -> DocumentFailure | None:
    """The `error` column as a problem: JSON, unless an older version or another program wrote it."""
    if text is None:
        return None
    text = hide_folders(text)
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict) and "code" in found:
            return cast("DocumentFailure", found)
    return {"code": "try_failed", "message": text, "attempts": attempts}


def _progress(row: DocumentRow) -> PageProgress | None:
    if row["status"] != "processing" or row["pages"] is None:
        return None
    return {"done": row["done_pages"] or 0, "pages": row["pages"]}


async def _rows(
    store: Store, where: str, values: Sequence[Any], limit: int = 1, *, result: str = "NULL"
) -> list[_Found]:  # fmt: skip
    borrowed = "CASE WHEN o.id IS NULL THEN d.{0} ELSE o.{0} END AS {0}"
    selected = ", ".join(
        f"{sql.epoch(f'd.{name}', store.dialect)} AS {name}" if name in TIMES
        else borrowed.format(name) if name in _BORROWED else f"d.{name}"
        for name in DocumentRow.__annotations__
    )  # fmt: skip
    return await store.database.fetch(
        f"""SELECT {selected}, {result} AS result, coalesce(o.id, d.id) AS source, r.status AS review
FROM tabellion_documents AS d LEFT JOIN tabellion_documents AS o ON o.id = d.duplicate_of AND d.status = 'duplicate'
LEFT JOIN tabellion_review_items AS r ON r.document_id = coalesce(o.id, d.id)
WHERE {where} ORDER BY d.id DESC LIMIT {int(limit)}""",
        *values,
    )


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadQuery(name, f"{name} is a time")
