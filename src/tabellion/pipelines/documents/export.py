"""Exports the documents of a range from the database, a batch at a time, into one file."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tabellion.engine import sql
from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import NotMigrated
from tabellion.pipelines.documents import columns, outputs, tables
from tabellion.pipelines.documents.export_formats import WRITERS, ExportTarget, Format
from tabellion.pipelines.documents.extracted_fields import FieldRow
from tabellion.pipelines.documents.lookup import problem, serialize_field
from tabellion.pipelines.documents.review.queue import OPEN, public_status
from tabellion.pipelines.documents.row import STATUSES
from tabellion.reading.types.doctype import DocumentType
from tabellion.storage import files

BATCH = 500  #: documents that are in memory at once
MOST_MISHAPS = 20  #: errors that are reported one by one
REVIEWS = ("none", "pending", "approved", "corrected", "rejected")  #: the states of the review of a document
Progress = Callable[[int, int], None]  #: documents written, and their total
Types = Callable[[str], DocumentType | None]  #: the type of a name, None if it no longer exists


@dataclass(frozen=True, slots=True)
class Range:
    """Which documents to export."""

    since: float | None = None  #: seconds since 1970, included
    until: float | None = None  #: excluded
    types: tuple[str, ...] = ()  #: empty: all
    statuses: tuple[str, ...] = ("completed",)
    reviews: tuple[str, ...] = ()  #: states of their review; empty: any

    def __post_init__(self) -> None:
        for review in self.reviews:
            if review not in REVIEWS:
                raise ValueError(f"unknown review {review!r}; known: {', '.join(REVIEWS)}")
        for status in self.statuses:
            if status not in STATUSES:
                raise ValueError(f"unknown status {status!r}; known: {', '.join(STATUSES)}")

    @property
    def is_limited(self) -> bool:
        """Whether the range is limited in time."""
        return self.since is not None or self.until is not None


@dataclass(slots=True)
class Exported:
    """The result of an export."""

    documents: int = 0
    failed: int = 0  #: documents whose row could not be exported
    mishaps: list[str] = field(default_factory=list)  #: the first errors, a sentence each


def moment_of(text: str, *, end: bool = False) -> float:
    """A day or a time in UTC, as seconds; the last day of a range is included. Raises ValueError."""
    stripped = text.strip()
    try:
        instant = columns.moment(stripped)
        if end and re.fullmatch(r"\d{4}-\d\d-\d\d", stripped):
            instant += timedelta(days=1)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a day such as 2024-02-29 nor a time such as 2024-02-29T13:30Z") from None
    return instant.timestamp()


async def export(
    store: Store,
    format: Format,  # noqa: A002 - the word for it everywhere
    target: ExportTarget,
    *,
    types: Types,
    range: Range = Range(),  # noqa: A002, B008 - frozen, and the word for it
    progress: Progress | None = None,
) -> Exported:
    """Writes the documents of a range, oldest first, as they are now: corrections included.

    A few hundred are in memory at a time, whatever their number. Documents that arrive meanwhile are not included.
    """
    done = Exported()
    try:
        await store.open()
        if await tables.SCHEMA.version(store.database) == 0:
            raise NotMigrated("this database has no documents: nothing has been submitted yet")
        where, values = _condition(store, range)
        [bounds] = await store.database.fetch(
            f"SELECT count(*) AS count, max(d.id) AS last FROM {_FROM} WHERE {where}", *values
        )
        names = columns.merge_columns([])
        if format != "jsonl":
            names = await _columns(store, where, values, range.types, types)
        writer = WRITERS[format](target, names, range.statuses != ("completed",))
        async for rows in _batches(store, where, values, bounds["last"], range.is_limited):
            documents = [document for row in rows if (document := _serialize_document(row, done)) is not None]
            await files.in_thread(writer.write, documents)
            done.documents += len(documents)
            if progress is not None:
                progress(done.documents + done.failed, int(bounds["count"]))
        await files.in_thread(writer.close)
        await files.in_thread(target.finish)
    finally:
        await files.in_thread(target.discard)
    return done


#: A duplicate has the values of its original.
_FROM = """tabellion_documents AS d LEFT
JOIN tabellion_documents AS o ON o.id = d.duplicate_of AND d.status = 'duplicate'"""
_TYPE = "coalesce(o.found_type, d.found_type, o.type, d.type)"


def _condition(store: Store, range: Range) -> tuple[str, list[Any]]:  # noqa: A002
    values: list[Any] = []

    def mark(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    def instant(value: float) -> str:
        placeholder = mark(value)
        return (
            f"to_timestamp(CAST({placeholder} AS double precision))" if store.dialect == "postgresql" else placeholder
        )

    plain = _plain(store.dialect, range.is_limited)
    conditions = [f"{plain}d.status IN ({', '.join(map(mark, range.statuses))})"]
    if range.since is not None:
        conditions.append(f"d.created_at >= {instant(range.since)}")
    if range.until is not None:
        conditions.append(f"d.created_at < {instant(range.until)}")
    if range.types:
        conditions.append(f"{_TYPE} IN ({', '.join(map(mark, range.types))})")
    if range.reviews:
        statuses = [status for review in range.reviews for status in (OPEN if review == "pending" else (review,))]
        review = "SELECT 1 FROM tabellion_review_items AS w WHERE w.document_id = coalesce(o.id, d.id)"
        matching = f"EXISTS ({review} AND w.status IN ({', '.join(map(mark, statuses))}))"
        conditions.append(f"({matching} OR NOT EXISTS ({review}))" if "none" in statuses else matching)
    return " AND ".join(conditions), values


def _plain(dialect: Dialect, timed: bool) -> str:
    """A prefix that keeps SQLite, which has no statistics, from preferring another index to the one on times."""
    return "+" if timed and dialect == "sqlite" else ""


async def _columns(
    store: Store, where: str, values: Sequence[Any], type_names: Sequence[str], types: Types
) -> columns.Columns:
    """The columns of every type in the range, and of fields that no type has any more."""
    kinds = await store.database.fetch(f"SELECT DISTINCT {_TYPE} AS type FROM {_FROM} WHERE {where}", *values)
    selected = sorted({*type_names, *(row["type"] for row in kinds if row["type"])})
    known = [found for name in selected if (found := types(name)) is not None]
    names = await store.database.fetch(
        f"""SELECT f.name AS name, min(f.place) AS place FROM {_FROM}
JOIN tabellion_extracted_fields AS f ON f.document_id = coalesce(o.id, d.id) WHERE {where} GROUP BY f.name""",
        *values,
    )
    return columns.merge_columns(
        known, [row["name"] for row in sorted(names, key=lambda row: (row["place"], row["name"]))]
    )


async def _batches(
    store: Store, where: str, values: Sequence[Any], last: str | None, timed: bool
) -> AsyncIterator[list[dict[str, Any]]]:
    place: list[Any] = []
    while last is not None:
        rows = await store.database.fetch(
            _page(store.dialect, where, len(values), timed, first=not place), *values, last, *place
        )
        if not rows:
            return
        place = [rows[-1]["id"], *([rows[-1]["instant"]] if timed else [])]
        await _add_fields(store, rows)
        yield rows


def _page(dialect: Dialect, where: str, count: int, timed: bool, *, first: bool) -> str:
    """The query of the next documents: by id, or by time of arrival, which is indexed, if the range is limited in time.

    After the condition's own values come the last id of the range, the id after which to continue, and its time.
    """
    end, after, instant = (f"${count + number}" for number in (1, 2, 3))
    text = dialect == "postgresql"  # its times have no exact representation as a number
    if text:
        instant = f"CAST(CAST({instant} AS text) AS timestamptz)"
    onward = "" if first else f" AND (d.created_at, d.id) > ({instant}, {after})" if timed else f" AND d.id > {after}"
    times = ", ".join(f"{sql.epoch(f'd.{name}', dialect)} AS {name}" for name in ("created_at", "completed_at"))
    return f"""SELECT d.id, d.status, {_TYPE} AS found_type, coalesce(o.type_key, d.type_key) AS type_key, d.model,
  d.sha256, d.name, d.duplicate_of, coalesce(o.pages, d.pages) AS page_count,
  coalesce(o.verdict, d.verdict) AS verdict, d.cost, d.error, d.attempts, d.version,
  coalesce(o.result, d.result) AS result, coalesce(o.id, d.id) AS source,
  r.status AS review, {times}, {"CAST(d.created_at AS text)" if text else "d.created_at"} AS instant
FROM {_FROM} LEFT JOIN tabellion_review_items AS r ON r.document_id = coalesce(o.id, d.id)
WHERE {where} AND {_plain(dialect, timed)}d.id <= {end}{onward}
ORDER BY {"d.created_at, " if timed else ""}d.id LIMIT {BATCH}"""


async def _add_fields(store: Store, rows: Sequence[dict[str, Any]]) -> None:
    sources = sorted({row["source"] for row in rows})
    marks = ", ".join(f"${number}" for number in range(1, len(sources) + 1))
    found: dict[str, list[dict[str, Any]]] = {}
    for field_row in await store.database.fetch(
        f"""SELECT document_id, {", ".join(FieldRow.__annotations__)} FROM tabellion_extracted_fields
WHERE document_id IN ({marks}) ORDER BY document_id, place, name""",
        *sources,
    ):
        found.setdefault(field_row["document_id"], []).append(field_row)
    for row in rows:
        row["extracted"] = found.get(row["source"], [])


def _serialize_document(row: Mapping[str, Any], done: Exported) -> dict[str, Any] | None:
    """The document as every format writes it; None, with an error in `done`, if its row is broken."""
    try:
        fields = {field_row["name"]: serialize_field(field_row) for field_row in row["extracted"]}
        serialized = outputs.serialize_document({**row, "fields": fields, "review": public_status(row["review"])})
        return serialized | {
            "status": row["status"], "page_count": row["page_count"], "duplicate_of": row["duplicate_of"],
            "completed_at": iso(row["completed_at"]),
            "error": problem(row["error"], row["attempts"]),
        }  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        done.failed += 1
        if len(done.mishaps) < MOST_MISHAPS:
            done.mishaps.append(f"{row['id']}: its row cannot be exported ({type(error).__name__}: {error})")
        return None
