"""Submits documents: one transaction looks up the file, then queues it or makes it a duplicate."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.store import Store
from tabellion.errors import Busy, TabellionError
from tabellion.messages import Message
from tabellion.pipelines.documents import processed_documents as processed
from tabellion.pipelines.documents import states, tables
from tabellion.pipelines.documents.settings import Settings, Unknown
from tabellion.pipelines.documents.written_columns import NewDocument
from tabellion.reading.types.doctype import Idempotency
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.storage.blobs import BlobsUnavailable, StoredBlob

TRIES = 8  # of a transaction that conflicted with another
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class SubmittedDocument:
    """The result of an upload."""

    id: str
    status: Literal["queued", "duplicate"]  #: duplicate if the same file has been read already
    duplicate_of: str | None = None


class AlreadyThere(TabellionError):  # noqa: N818 - what happened
    """The same file exists already, and its type does not accept duplicates."""

    def __init__(self, original: str) -> None:
        self.original = original
        super().__init__(Message("upload.duplicate", id=original))


class FileGone(TabellionError):  # noqa: N818 - what happened
    """The file was deleted with another document while it was being submitted: send it again."""


def key_of(sha256: str, type_name: str | None, type_key: str, model: str) -> str:
    """The hash of everything that determines a result: the bytes, the current type, and the model."""
    return hashlib.sha256("\n".join([sha256, type_name or "", type_key, model]).encode()).hexdigest()


def clean_name(name: str) -> str:
    """A file name that can be shown anywhere: unprintable characters escaped, and limited in length."""
    shown = "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in name)
    return shown[:LONGEST_NAME] or "unnamed"


async def submit(
    store: Store,
    settings: Settings,
    content: StoredBlob,
    *,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    model: str | None = None,
    webhook: str | None = None,
) -> SubmittedDocument:
    """Queues a stored file, or makes it a duplicate of the document with the same bytes, type and model.

    Fifty concurrent submits of one file, from any process, make one original. Raises `Unknown` for an unknown type or
    model, `AlreadyThere` if the policy of the type is to reject, `FileGone` if the file was deleted meanwhile.
    """
    await tables.SCHEMA.prepare(store)
    doctype = settings.types.get(type) if type is not None else None
    chosen = settings.choose_model(model, doctype)
    type_key = doctype.key if doctype else settings.types.key(None)
    key = key_of(content.sha256, type, type_key, chosen)
    rules = doctype.idempotency if doctype else await _find_rules(store, settings, key)
    row: NewDocument = {
        "id": new_id(), "type": type, "type_key": type_key, "model": chosen, "asked_model": model,
        "sha256": content.sha256, "bytes": content.bytes, "name": clean_name(content.name), "media": content.media,
        "blob": f"{content.sha256[:2]}/{content.sha256[2:4]}/{content.sha256}",
        "key": key, "webhook": webhook,
        "max_attempts": (doctype.processing.retries if doctype else 3) + 1,
    }  # fmt: skip
    if rules.policy == "keep":
        changes = [states.insert(store.dialect, row)]
    else:
        rejects = rules.policy == "reject"
        changes = [
            processed.take(store.dialect, key, row["id"], rules.cache_ttl),
            states.insert_by_key(store.dialect, row, reports=settings.outbox is not None, rejects=rejects),
        ]
    results = await _repeat_when_busy(store, changes)
    if not results[-1]:
        rows = await store.database.fetch(processed.HOLDER, key)
        if rows:
            raise AlreadyThere(rows[0]["document_id"])
        return await submit(store, settings, content, type=type, model=model, webhook=webhook)  # deleted meanwhile
    submitted = SubmittedDocument(row["id"], results[-1][0]["status"], results[-1][0]["duplicate_of"])
    missing: TabellionError | None = None
    try:
        if not await settings.blobs.has(content.sha256):
            missing = FileGone()
    except BlobsUnavailable as error:
        missing = error
    if missing is not None:
        forget = (states.discard(row["id"]), processed.release(row["id"]))
        await store.database.transact([sql.bind(*change) for change in forget])
        raise missing
    return submitted


async def _find_rules(store: Store, settings: Settings, key: str) -> Idempotency:
    """The type's rules for duplicates, if the type was detected when the file was first submitted."""
    rows = await store.database.fetch(processed.FOUND_TYPE, key)
    try:
        return settings.types.get(rows[0]["found_type"]).idempotency if rows else Idempotency()
    except (Unknown, TypeFileError):  # the type no longer exists, or its file has a mistake
        return Idempotency()


async def _repeat_when_busy(store: Store, changes: Sequence[states.Change]) -> list[list[dict[str, Any]]]:
    """Runs a transaction, again if it conflicted with another."""
    statements = [sql.bind(*change) for change in changes]
    for left in range(TRIES - 1, -1, -1):
        try:
            return await store.database.transact(statements)
        except Busy:
            if not left:
                raise
            await asyncio.sleep(random.uniform(0.01, 0.2))  # noqa: S311 - spreading load
    raise AssertionError
