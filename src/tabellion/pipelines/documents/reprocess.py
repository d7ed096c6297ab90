"""Reads a document once more, and deletes documents for good."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from tabellion.accounts.audit import SYSTEM, AuditEntry, bind_entry, bind_statement
from tabellion.engine import sql
from tabellion.engine.ids import is_id
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.table import Row
from tabellion.errors import TabellionError
from tabellion.pipelines.documents import states, tables
from tabellion.pipelines.documents.compact import forget, templates_of
from tabellion.pipelines.documents.daily import root_of
from tabellion.pipelines.documents.output_pointers import Point, pointing
from tabellion.pipelines.documents.outputs import possible_paths
from tabellion.pipelines.documents.review import decisions
from tabellion.pipelines.documents.review.finishing import reopening
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.submit import Submitted, key_of

Statement = tuple[str, Sequence[Any]]
#: The columns that belong to the current result and that a new reading changes before it has its own.
FORMER = ("type", "type_key", "model", "asked_model", "key", "duplicate_of")
_TOGETHER = """UPDATE tabellion_documents SET type = $2, type_key = $3, model = $4, key = $5, asked_model = $6
WHERE duplicate_of = $1"""
_FIELDS = """name, place, value, confidence, page, box, quote, source, reasons, locked, corrected_by, corrected_at,
  state, manually_corrected, read_value, old_value, candidates"""


class NoSuchDocument(TabellionError):  # noqa: N818 - what it is
    """There is no such document."""


class DocumentRunning(TabellionError):  # noqa: N818 - what it is
    """The document is waiting or being read: try again when it has ended."""


async def reprocess(
    store: Store,
    settings: Settings,
    id: str,  # noqa: A002 - the column's name
    *,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    model: str | None = None,
    reopen: bool = False,
    actor: str = SYSTEM,
) -> Submitted:
    """Queues a finished document once more, as another type or with another model if requested.

    Corrections stay. A finished review stays finished unless `reopen` is set, or an approved value is read differently
    now. Answers that were paid for are remembered: the same question costs nothing. A duplicate becomes a document of
    its own. Its duplicates follow, but not to another type or model: then the oldest is read in its place, and the
    others follow that. Duplicates of a document whose type was unknown move with it.

    Its result, its outputs and their hashes stay until the new reading commits its own. If that fails for good, it
    returns to its former result, and its error says so.
    """
    row = await _get_document(store, id)
    type_name = type if type is not None else row["type"]
    doctype = settings.types.get(type_name) if type_name is not None else None
    asked_model = model or row["asked_model"]
    chosen = settings.choose_model(asked_model or (row["model"] if type_name == row["type"] else None), doctype)
    type_key = doctype.key if doctype else settings.types.key(None)
    key = key_of(row["sha256"], type_name, type_key, chosen)
    attempts = (doctype.processing.retries if doctype else 3) + 1
    moved = (type_name, chosen) != (row["type"], row["model"])
    # Naming the type of an unknown document does not change what it is: its duplicates move with it.
    together = moved and row["type"] is None and row["found_type"] is None
    moved = moved and not together
    heir = await _heir(store, id, "AND status <> 'failed'") if moved else None
    statements: list[Statement] = [
        bind_statement(*states.read_again(
            id, type=type_name, type_key=type_key, model=chosen, key=key, max_attempts=attempts, former=_former(row),
            asked_model=asked_model,
        )),
        *(_hand_over(row, heir) if moved else []),
        *([(_TOGETHER, (id, type_name, type_key, chosen, key, asked_model))] if together else []),
        # Its old key would give others a result that is no longer theirs; it takes the new key if that is free.
        ("DELETE FROM tabellion_processed_documents WHERE document_id = $1 AND key <> $2", (id, key)),
        (
            f"""INSERT INTO tabellion_processed_documents (key, document_id, created_at) VALUES ($1, $2, {NOW})
ON CONFLICT (key) DO NOTHING""",
            (key, id),
        ),
        # Duplicates that failed with it wait with it.
        bind_statement(*states.wait_again(id, "failed", forget_error=True)),
    ]  # fmt: skip
    details = {"type": type_name, "model": chosen, **({"reopen": True} if reopen else {}), **_describe_heir(heir)}
    entries: list[Statement] = [bind_entry(store.dialect, AuditEntry("reprocessed", actor, id, more=details))]
    if reopen:
        update, audit_entry = reopening(store.dialect, id, actor, "read_again")
        statements.append(bind_statement(*update))
        entries.append(bind_statement(*audit_entry))
    if not await store.database.transact([*statements, *entries], guarded=True):
        raise DocumentRunning()
    await store.database.wake()
    return Submitted(id, "queued")


def _hand_over(row: Row, heir: Row | None) -> list[Statement]:
    """Puts the oldest duplicate, with the corrections, in the place of a document that becomes something else.
    Duplicates that failed with it are detached."""
    statements: list[Statement] = []
    if heir is not None:
        inherited = (
            f"""INSERT INTO tabellion_extracted_fields (document_id, {_FIELDS})
SELECT CAST($2 AS text), {_FIELDS} FROM tabellion_extracted_fields WHERE document_id = $1 AND locked
ON CONFLICT (document_id, name) DO NOTHING""",
            (row["id"], heir["id"]),
        )
        statements = [*_replace_by_heir(row["id"], heir["id"], _former(heir)), inherited]
    return [*statements, bind_statement(*states.detach_failed(row["id"]))]


def _replace_by_heir(id: str, heir: str, former: str | None = None) -> list[Statement]:  # noqa: A002
    return [
        *(bind_statement(*change) for change in states.take_place(id, heir, former)),
        ("UPDATE tabellion_processed_documents SET document_id = $2 WHERE document_id = $1", (id, heir)),
    ]


def _describe_heir(heir: Row | None) -> dict[str, str]:
    return {"heir": heir["id"]} if heir is not None else {}


def _former(row: Row) -> str | None:
    """The result to which a document returns if its new reading fails, as JSON; None if it has none."""
    if row["former"] is not None or row["status"] not in ("completed", "duplicate"):
        return row["former"]  # type: ignore[no-any-return]
    return json.dumps({name: row[name] for name in ("status", *FORMER)})


async def delete(
    store: Store,
    settings: Settings,
    id: str,  # noqa: A002 - the column's name
    *,
    actor: str = SYSTEM,
) -> None:
    """Deletes a document for good: its row, fields, review, outputs, remembered answers, webhook deliveries, and its
    file if no other document has it. The audit log stays: it records who did so.

    The oldest of its duplicates takes its place, with the corrections: it is read instead, at no cost.
    """
    row = await _get_document(store, id)
    heir = await _heir(store, id)
    statements: list[Statement] = [
        bind_statement(*states.removable(id)),
    ]
    if heir is not None:
        statements += [
            *_replace_by_heir(id, heir["id"]),
            bind_statement(*states.follow_heir(id, heir["id"])),
            (
                "UPDATE tabellion_extracted_fields SET document_id = $2 WHERE document_id = $1 AND locked",
                (id, heir["id"]),
            ),
            ("UPDATE tabellion_memos SET row_key = $2 WHERE row_key = $1", (id, heir["id"])),
        ]
    statements += [
        ("DELETE FROM tabellion_processed_documents WHERE document_id = $1", (id,)),
        ("DELETE FROM tabellion_extracted_fields WHERE document_id = $1", (id,)),
        ("DELETE FROM tabellion_review_items WHERE document_id = $1", (id,)),
        ("DELETE FROM tabellion_memos WHERE row_key = $1", (id,)),
        decisions.forget(row["sha256"]),
    ]
    if await store.table("tabellion_webhook_deliveries") is not None:
        statements.append(("DELETE FROM tabellion_webhook_deliveries WHERE document_id = $1", (id,)))
    details = {"sha256": row["sha256"], **_describe_heir(heir)}
    statements.append(bind_entry(store.dialect, AuditEntry("deleted", actor, id, more=details)))
    if not await store.database.transact(statements, guarded=True):
        raise DocumentRunning()
    if heir is not None:
        await store.database.wake()
    await _forget(settings, row, pointing(store.database.fetch, store.dialect))
    if not await has_documents(store, row["sha256"]):
        await settings.blobs.remove(row["sha256"], needed=lambda: has_documents(store, row["sha256"]))


async def has_documents(store: Store, sha256: str) -> bool:
    """Whether any document has this content."""
    return bool(
        await store.database.fetch("SELECT 1 AS one FROM tabellion_documents WHERE sha256 = $1 LIMIT 1", sha256)
    )


async def _get_document(store: Store, id: str) -> Row:  # noqa: A002
    await tables.SCHEMA.prepare(store)
    rows: list[Row] = []
    if is_id(id):
        rows = await store.database.fetch(
            f"""SELECT id, status, type, type_key, found_type, model, asked_model, key, duplicate_of, former, sha256,
  json_path, parquet_path,
  {sql.epoch("created_at", store.dialect)} AS created_at FROM tabellion_documents WHERE id = $1""",
            id,
        )
    if not rows:
        raise NoSuchDocument(f"unknown document {id!r}"[:200])
    if rows[0]["status"] == "processing":
        raise DocumentRunning()
    return rows[0]


async def _heir(store: Store, id: str, condition: str = "") -> Row | None:  # noqa: A002
    """The oldest of its duplicates."""
    rows = await store.database.fetch(
        f"""SELECT id, status, former, {", ".join(FORMER)} FROM tabellion_documents WHERE duplicate_of = $1 {condition}
ORDER BY id LIMIT 1""",
        id,
    )
    return rows[0] if rows else None


async def _forget(settings: Settings, row: Row, point: Point) -> None:
    """Deletes its outputs from where they are or may be: an attempt that died after writing left no record."""
    types = await asyncio.to_thread(settings.types.all)
    output_paths = {row["json_path"], row["parquet_path"], *possible_paths(types, row)}
    # A daily file is shared: it is rewritten without this document.
    await settings.lake.delete(*sorted(path for path in output_paths if path and root_of(path) is None))
    templates = templates_of(doctype.output.parquet for doctype in types)
    await forget(settings.lake, row["created_at"], [row["id"]], templates, point)
