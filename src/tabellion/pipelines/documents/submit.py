"""Submits documents: one transaction looks up the file, then queues it or makes it a duplicate."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.engine.table import Row
from tabellion.errors import Busy, TabellionError
from tabellion.messages import Message
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.settings import Settings, Unknown
from tabellion.reading.types.doctype import Idempotency
from tabellion.reading.types.yamlnode import TypeFileError

TRIES = 8  # of a transaction that conflicted with another
LONGEST_NAME = 255


class SubmittedFile(Protocol):
    """A stored file, as `Blobs` describes it."""

    @property
    def sha256(self) -> str:
        """The hash of its bytes."""

    @property
    def bytes(self) -> int:
        """Its size."""

    @property
    def path(self) -> Path:
        """Where it is stored."""

    @property
    def name(self) -> str:
        """Its original name."""

    @property
    def media(self) -> str:
        """Its media type."""


@dataclass(frozen=True, slots=True)
class Submitted:
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
    content: SubmittedFile,
    *,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    model: str | None = None,
    webhook: str | None = None,
) -> Submitted:
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
    row: Row = {
        "id": new_id(), "type": type, "type_key": type_key, "model": chosen, "asked_model": model,
        "sha256": content.sha256, "bytes": content.bytes, "name": clean_name(content.name), "media": content.media,
        "blob": f"{content.sha256[:2]}/{content.sha256[2:4]}/{content.sha256}",
        "key": key, "webhook": webhook,
        "max_attempts": (doctype.processing.retries if doctype else 3) + 1,
    }  # fmt: skip
    statements = _statements(store.dialect, row, rules, notify=settings.outbox is not None)
    results = await _persistently(store, statements)
    if not results[-1]:
        rows = await store.database.fetch(
            "SELECT document_id FROM tabellion_processed_documents WHERE key = $1", row["key"]
        )
        if rows:
            raise AlreadyThere(rows[0]["document_id"])
        return await submit(store, settings, content, type=type, model=model, webhook=webhook)  # deleted meanwhile
    submitted = Submitted(row["id"], results[-1][0]["status"], results[-1][0]["duplicate_of"])
    if not await asyncio.to_thread(settings.blobs.path(content.sha256).exists):
        await store.database.transact(
            [
                ("DELETE FROM tabellion_documents WHERE id = $1", (row["id"],)),
                ("DELETE FROM tabellion_processed_documents WHERE document_id = $1", (row["id"],)),
            ]
        )
        raise FileGone()
    return submitted


async def _find_rules(store: Store, settings: Settings, key: str) -> Idempotency:
    """The type's rules for duplicates, if the type was detected when the file was first submitted."""
    rows = await store.database.fetch(
        """SELECT d.found_type FROM tabellion_processed_documents AS p
JOIN tabellion_documents AS d ON d.id = p.document_id WHERE p.key = $1 AND d.found_type IS NOT NULL""",
        key,
    )
    try:
        return settings.types.get(rows[0]["found_type"]).idempotency if rows else Idempotency()
    except (Unknown, TypeFileError):  # the type no longer exists, or its file has a mistake
        return Idempotency()


def _statements(dialect: Dialect, row: Row, rules: Idempotency, *, notify: bool) -> list[tuple[str, tuple[Any, ...]]]:
    """Takes the key if it is free or its document has failed; then inserts the document accordingly."""
    columns, values = list(row), tuple(row.values())
    if rules.policy == "keep":
        inserted = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        insert = f"INSERT INTO tabellion_documents ({', '.join(columns)}, created_at) VALUES ({inserted}, {NOW})"
        return [(_ringing(insert, dialect), values)]
    expired = ""
    if rules.cache_ttl is not None:
        # A literal: the number comes from our own type file, and a parameter would have to be in every statement.
        expired = f" OR p.created_at < {sql.later(repr(-float(rules.cache_ttl)), dialect)}"
    # A transaction that waited here for another's commit sees its key, but not yet its document: "not known to have
    # failed" must mean that it has not.
    take = f"""INSERT INTO tabellion_processed_documents AS p (key, document_id, created_at) VALUES ($1, $2, {NOW})
ON CONFLICT (key) DO UPDATE SET document_id = excluded.document_id, created_at = excluded.created_at
WHERE EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.id = p.document_id AND d.status = 'failed'){expired}"""
    inserted = ", ".join(_cast(f"${number}", name, dialect) for number, name in enumerate(columns, 1))
    place = {name: f"${number}" for number, name in enumerate(columns, 1)}
    mine = f"p.document_id = {_cast(place['id'], 'id', dialect)}"
    read_already = "o.status = 'completed'"
    insert = f"""INSERT INTO tabellion_documents
  ({", ".join(columns)}, created_at, status, chore, duplicate_of, completed_at)
SELECT {inserted}, {NOW},
  CASE WHEN {mine} THEN 'queued' WHEN {read_already} THEN 'duplicate' ELSE 'queued' END,
  CASE WHEN {mine} THEN NULL WHEN {read_already} THEN '{"follow" if notify else "followed"}' ELSE 'follow' END,
  CASE WHEN {mine} THEN NULL ELSE p.document_id END,
  CASE WHEN {mine} THEN NULL WHEN {read_already} THEN {NOW} END
FROM tabellion_processed_documents AS p LEFT JOIN tabellion_documents AS o ON o.id = p.document_id
WHERE p.key = {place["key"]}{f" AND {mine}" if rules.policy == "reject" else ""}"""
    return [(take, (row["key"], row["id"])), (_ringing(insert, dialect), values)]


def _cast(mark: str, column: str, dialect: Dialect) -> str:
    """PostgreSQL needs the type of a parameter in a SELECT."""
    if dialect == "sqlite":
        return mark
    kind = {"bytes": "bigint", "max_attempts": "integer"}.get(column, "text")
    return f"CAST({mark} AS {kind})"


def _ringing(insert: str, dialect: Dialect) -> str:
    """The insert with its result returned; on PostgreSQL it also notifies listeners when it commits."""
    returning = f"{insert} RETURNING status, duplicate_of"
    if dialect == "sqlite":
        return returning
    return f"WITH added AS ({returning}) SELECT status, duplicate_of, pg_notify('tabellion', '') FROM added"


async def _persistently(
    store: Store, statements: list[tuple[str, tuple[Any, ...]]]
) -> list[list[dict[str, Any]]]:  # fmt: skip
    """Repeats a transaction that conflicted with another."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return await store.database.transact(statements)
        except Busy:
            if not left:
                raise
            await asyncio.sleep(random.uniform(0.01, 0.2))  # noqa: S311 - spreading load
    raise AssertionError
