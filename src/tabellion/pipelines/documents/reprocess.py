"""Reads a document once more, and deletes documents for good."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

from tabellion.accounts.audit import SYSTEM, AuditEntry, Statement, bind_statement, statement
from tabellion.delivery import deliveries
from tabellion.engine import memo, retention, sql
from tabellion.engine.ids import is_id
from tabellion.engine.store import Store
from tabellion.errors import TabellionError
from tabellion.pipelines.documents import extracted_fields, states, tables
from tabellion.pipelines.documents import processed_documents as processed
from tabellion.pipelines.documents.deleted_files import DeletedFiles, FilesRow, remove_files
from tabellion.pipelines.documents.review import decisions, item_changes
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.submit import SubmittedDocument, key_of
from tabellion.pipelines.documents.written_columns import FormerRequest
from tabellion.storage.blobs import BlobsUnavailable


class _Duplicate(FormerRequest):
    id: str
    former: str | None  #: JSON


class _Document(_Duplicate, FilesRow):
    found_type: str | None


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
) -> SubmittedDocument:
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
    heir = await _find_oldest_duplicate(store, id, "AND status <> 'failed'") if moved else None
    request = {"type": type_name, "type_key": type_key, "model": chosen, "key": key, "asked_model": asked_model}
    statements: list[Statement] = [
        states.read_again(id, max_attempts=attempts, former=_former(row), **request),
        *(_hand_over(row, heir) if moved else []),
        *([states.change_duplicates(id, **request)] if together else []),
        # Its old key would give others a result that is no longer theirs; it takes the new key if that is free.
        processed.release(id, keep=key),
        processed.take_free(key, id),
        # Duplicates that failed with it wait with it.
        states.wait_again(id, "failed", forget_error=True),
    ]
    details = {"type": type_name, "model": chosen, **({"reopen": True} if reopen else {}), **_describe_heir(heir)}
    entries = [statement(store.dialect, AuditEntry("reprocessed", actor, id, more=details))]
    if reopen:
        update, entry = item_changes.reopen_by_document(store.dialect, id, actor, "read_again")
        statements.append(update)
        entries.append(entry)
    await _transact(store, [*statements, *entries])
    await store.database.wake()
    return SubmittedDocument(id, "queued")


def _hand_over(row: _Document, heir: _Duplicate | None) -> list[Statement]:
    """Puts the oldest duplicate, with the corrections, in the place of a document that becomes something else.
    Duplicates that failed with it are detached."""
    statements: list[Statement] = []
    if heir is not None:
        inherited = extracted_fields.copy_locked(row["id"], heir["id"])
        statements = [*_replace_by_heir(row["id"], heir["id"], _former(heir)), inherited]
    return [*statements, states.detach_failed(row["id"])]


def _replace_by_heir(id: str, heir: str, former: str | None = None) -> list[Statement]:  # noqa: A002
    return [*states.take_place(id, heir, former), processed.hand_over(id, heir)]


def _describe_heir(heir: _Duplicate | None) -> dict[str, str]:
    return {"heir": heir["id"]} if heir is not None else {}


def _former(row: _Duplicate) -> str | None:
    """The result to which a document returns if its new reading fails, as JSON; None if it has none."""
    if row["former"] is not None or row["status"] not in ("completed", "duplicate"):
        return row["former"]
    return json.dumps({name: value for name, value in row.items() if name in ("status", *states.FORMER)})


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
    heir = await _find_oldest_duplicate(store, id)
    statements: list[Statement] = [states.delete(id)]
    if heir is not None:
        statements += [
            *_replace_by_heir(id, heir["id"]),
            states.follow_heir(id, heir["id"]),
            extracted_fields.hand_over_locked(id, heir["id"]),
            memo.hand_over(id, heir["id"]),
        ]
    statements += [
        processed.release(id), extracted_fields.delete(id), item_changes.delete(id), memo.forget_row(id),
        decisions.forget(row["sha256"]), *await deliveries.forget_subject(store, id),
    ]  # fmt: skip
    details = {"sha256": row["sha256"], **_describe_heir(heir)}
    files = DeletedFiles.of_row(row)
    leftover, text, values = files.leave(store.dialect)
    entry = statement(store.dialect, AuditEntry("deleted", actor, id, more=details))
    await _transact(store, [*statements, (text, values), entry])
    if heir is not None:
        await store.database.wake()
    with contextlib.suppress(BlobsUnavailable):  # they stay leftovers, which are removed later
        await remove_files(store, settings, [files])
        await retention.forget(store, [leftover])


async def _transact(store: Store, statements: Iterable[Statement]) -> None:
    """Runs the statements as one transaction, unless the first changes nothing: then the document is being read."""
    if not await store.database.transact([bind_statement(*one) for one in statements], guarded=True):
        raise DocumentRunning()


async def _get_document(store: Store, id: str) -> _Document:  # noqa: A002
    await tables.SCHEMA.prepare(store)
    rows: list[_Document] = []
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


async def _find_oldest_duplicate(store: Store, id: str, condition: str = "") -> _Duplicate | None:  # noqa: A002
    """The oldest of its duplicates."""
    rows: list[_Duplicate] = await store.database.fetch(
        f"""SELECT id, status, former, {", ".join(states.FORMER)} FROM tabellion_documents
WHERE duplicate_of = $1 {condition} ORDER BY id LIMIT 1""",
        id,
    )
    return rows[0] if rows else None
