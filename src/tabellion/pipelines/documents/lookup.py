"""What is known of documents: one with all it says, many in a list, and how far those are that somebody waits for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from tabellion.engine import sql
from tabellion.engine.paths import hide_folders
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError
from tabellion.messages import translatable
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.judging import Result, is_settled, read_issues
from tabellion.pipelines.documents.locks import REVIEWED, load_locked_field, standing
from tabellion.pipelines.documents.review.fields import DECIDED, FIELDS, FieldRow, Types, type_or_empty
from tabellion.pipelines.documents.review.fields import issues as judge
from tabellion.pipelines.documents.review_reasons import GRAVE, Reason
from tabellion.pipelines.documents.row import (
    REVIEWS,
    STATUSES,
    TIMES,
    Brief,
    DocumentRow,
    Failure,
    FoundField,
    ListedDocument,
    Progress,
    ReadDocument,
    Review,
    ReviewState,
    State,
    Verdict,
    WholeDocument,
)
from tabellion.pipelines.documents.submit import is_id
from tabellion.reading.field import restore_reasons
from tabellion.reading.issue import ToldIssue
from tabellion.reading.types.doctype import DocumentType

ENDED = ("completed", "failed", "duplicate")
MOST = 500  #: documents in one list
#: What a list may be narrowed by, and the condition; `$` is the value's place.
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
#: What a duplicate tells of the document it follows.
_BORROWED = (
    "found_type", "pages", "done_pages", "verdict", "reasons", "json_path", "json_sha256", "parquet_path",
    "parquet_sha256",
)  # fmt: skip


class _Found(DocumentRow):
    source: str  #: the document whose fields it has
    review: str | None
    result: str | None  #: JSON


class BadQuery(TabellionError):  # noqa: N818 - what it is
    """A list was asked for in a way that there is none."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


async def get(
    store: Store,
    id: str,  # noqa: A002 - the column's name
    types: Types | None = None,
) -> WholeDocument | None:
    """A document with everything that is known of it; a duplicate says what its original says. None: there is none.

    While people are at it, what is wrong with it is judged anew if `types` say by which rules.
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
    result: Result = json.loads(row["result"] or "{}")
    said = {one["name"] for one in fields if one["locked"] or one["state"] in DECIDED}
    issues = result.get("issues", [])
    if said and types is not None and (doctype := type_or_empty(types, row["found_type"])).fields:
        issues = _judge_fields(result, fields, doctype, said)
    told = brief(row)
    reasons = [one for one in told["reasons"] if is_open(one, said, issues)]
    if said and review is not None and standing(review["status"]) == "pending":
        told["verdict"] = _verdict(issues, reasons)
    return {
        **told,
        "reasons": reasons,
        "reviewed": review is not None and review["status"] in REVIEWED,
        "review": review,
        "fields": {field["name"]: serialize_field(field) for field in fields},
        "issues": issues,
        "notes": result.get("notes", []),
        "page_details": result.get("pages", []),
    }


def _judge_fields(
    result: Result, rows: Sequence[FieldRow], doctype: DocumentType, said: Collection[str]
) -> list[ToldIssue]:
    """What is wrong with the fields as they are now."""
    values = {row["name"]: json.loads(row["value"] or "null") for row in rows}
    absent = [row["name"] for row in rows if row["state"] == "absent"]
    return judge(doctype, values, absent, read_issues(result), said)


def _verdict(issues: Sequence[ToldIssue], reasons: Sequence[Reason]) -> Verdict:
    """How a document is judged that people are at: never `accept` while something about it is in doubt."""
    worst = {one["severity"] for one in issues}
    grave = any(one["code"] in GRAVE for one in reasons)
    return "reject" if "error" in worst else "warn" if grave or "warning" in worst else "accept"


def is_open(reason: Reason, said: Collection[str], issues: Sequence[ToldIssue]) -> bool:
    """Whether a reason for looking at a document still holds: people may have had their word on what it is about."""
    if not said or not reason["fields"]:
        return True
    if reason["code"] in ("issue", "missing"):
        return any(reason["fields"] == one["fields"] for one in issues)
    return not is_settled(reason["fields"], said)


async def listing(
    store: Store, filters: Mapping[str, Any] | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[list[ListedDocument], str | None]:
    """Documents without their fields, the newest first, and where the next page begins; None: it was the last.

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
    found: list[ListedDocument] = [
        {**brief(row), "review": cast("Review | None", standing(row["review"]))} for row in rows[:limit]
    ]
    return found, rows[limit - 1]["id"] if len(rows) > limit else None


async def states(store: Store, ids: Iterable[str]) -> dict[str, State]:
    """How far these documents are: status, progress and version, in one statement for however many are waited for."""
    wanted = [one for one in ids if is_id(one)]
    if not wanted:
        return {}
    await tables.SCHEMA.prepare(store)
    marks = ", ".join(f"${number}" for number in range(1, len(wanted) + 1))
    rows = await store.database.fetch(
        f"SELECT id, status, pages, done_pages, version FROM tabellion_documents WHERE id IN ({marks})", *wanted
    )
    return {row["id"]: {"status": row["status"], "progress": _progress(row), "version": row["version"]} for row in rows}


async def _review(store: Store, id: str) -> ReviewState | None:  # noqa: A002
    """The review state of a document."""
    rows = await store.database.fetch(
        f"""SELECT id, status, assigned_to, reviewer, reason, {sql.epoch("finished_at", store.dialect)} AS finished_at
FROM tabellion_review_items WHERE document_id = $1""",
        id,
    )
    return cast("ReviewState", rows[0] | {"finished_at": iso(rows[0]["finished_at"])}) if rows else None


def read_document(row: DocumentRow, result: Result) -> ReadDocument:
    """A document as its outputs and its listeners are told of it."""
    return {
        **brief(row), "fields": cast("dict[str, FoundField]", result["fields"]), "issues": result["issues"],
        "notes": result.get("notes") or [], "page_details": result.get("pages") or [],
    }  # fmt: skip


def brief(row: DocumentRow) -> Brief:
    """A row as everybody is told of it."""
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
    """A row of `extracted_fields` as JSON tells it, wherever it is told: what a person has locked is theirs."""
    if row["locked"]:
        return {**load_locked_field(row).as_dict(), "locked": True}
    reasons = restore_reasons(json.loads(row["reasons"] or "[]"))
    return {
        "value": json.loads(row["value"]) if row["value"] is not None else None,
        "confidence": round(float(row["confidence"]), 3), "page": row["page"],
        "box": json.loads(row["box"]) if row["box"] else None, "quote": row["quote"], "source": row["source"],
        "reasons": reasons, "locked": False, **translatable(reasons=reasons),
    }  # fmt: skip


def problem(text: str | None, attempts: int = 0) -> Failure | None:
    """The error column as a problem: JSON, but for what an older version or another program wrote there."""
    if text is None:
        return None
    text = hide_folders(text)
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict) and "code" in found:
            return cast("Failure", found)
    return {"code": "try_failed", "message": text, "attempts": attempts}


def _progress(row: DocumentRow) -> Progress | None:
    if row["status"] != "processing" or row["pages"] is None:
        return None
    return {"done": row["done_pages"] or 0, "pages": row["pages"]}


async def _rows(
    store: Store, where: str, values: Sequence[Any], limit: int = 1, *, result: str = "NULL"
) -> list[_Found]:  # fmt: skip
    borrowed = "CASE WHEN o.id IS NULL THEN d.{0} ELSE o.{0} END AS {0}"
    told = ", ".join(
        f"{sql.epoch(f'd.{name}', store.dialect)} AS {name}" if name in TIMES
        else borrowed.format(name) if name in _BORROWED else f"d.{name}"
        for name in DocumentRow.__annotations__
    )  # fmt: skip
    return await store.database.fetch(
        f"""SELECT {told}, {result} AS result, coalesce(o.id, d.id) AS source, r.status AS review
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
