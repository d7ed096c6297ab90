"""Adds chunks and batches: all rows in one transaction, and the same request again changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.sql import Dialect
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.batches import changes, tables
from tabellion.pipelines.batches.callbacks import ensure_endpoint
from tabellion.pipelines.batches.request import NewChunk, NewPi, content_hash
from tabellion.pipelines.batches.states import BatchStatus, ChunkPhase, work_name

if TYPE_CHECKING:
    from tabellion.engine.moves import Numbered
    from tabellion.engine.store import Store
    from tabellion.pipelines.batches.settings import BatchSettings

CHUNKS_AT_ONCE = 50  #: chunks that one statement inserts
MANY_REFS = 10_000  #: of a batch, after which the statistics of the tables are renewed

#: Columns of inserted rows with their types on PostgreSQL.
_CHUNK = {
    "id": "text", "batch_id": "text", "chunk_id": "text", "position": "integer", "callback_url": "text",
    "content_hash": "text", "total_pis": "integer", "total_refs": "integer", "identity": "text",
}  # fmt: skip
_PI = {"chunk": "text", "position": "integer", "pi": "text", "current_tip": "text"}
_REF = {
    "id": "text", "chunk": "text", "pi_position": "integer", "filename": "text", "staging_key": "text",
    "cdn_url": "text",
}  # fmt: skip

#: A chunk whose rows were pruned and which is sent again continues to count: a run has one version of each entity.
_COMPUTED = {
    tables.CHUNKS: {"run": f"(SELECT 1 + coalesce(max(v.run), 0) FROM {tables.VERSIONS} AS v WHERE v.chunk = r.id)"}
}


class BatchConflict(TabellionError):  # noqa: N818 - what happened
    """There is a batch with this id and other content."""


class ChunkConflict(BatchConflict):
    """There is a chunk with this id and other content."""


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch that was accepted."""

    id: str
    chunks: int
    pis: int
    refs: int
    duplicates: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A batch before its entities."""

    id: str
    content_hash: str
    chunk_size: int
    callback_url: str | None = None
    by: str | None = None
    pis: int = 0
    refs: int = 0
    duplicates: int = 0


async def submit_chunk(store: Store, settings: BatchSettings, chunk: NewChunk, by: str | None = None) -> bool:
    """Adds a chunk; returns whether it is new. Raises ChunkConflict if its id has other content, and BatchConflict if
    its batch was submitted as a whole.

    A chunk that ended in an error is started again: that is how an orchestrator retries it. One that was done has its
    callback sent again: that is how an orchestrator asks for one that it has lost.
    """
    hash_ = await asyncio.to_thread(lambda: content_hash(chunk.model_dump()))
    name = work_name(chunk.batch_id, chunk.chunk_id)
    refs = sum(len(pi.refs) for pi in chunk.pis)
    row = dict(
        zip(
            _CHUNK,
            (name, chunk.batch_id, chunk.chunk_id, _position(chunk.chunk_id), chunk.callback_url, hash_,
             len(chunk.pis), refs, new_id()),
            strict=True,
        )
    )  # fmt: skip
    dialect = store.dialect
    statements: list[tuple[str, Sequence[Any]]] = [
        (
            f"""{_insert(tables.CHUNKS, _CHUNK, dialect)} AND NOT EXISTS
  (SELECT 1 FROM {tables.BATCHES} AS b WHERE b.id = $2 AND b.status <> '{BatchStatus.OPEN}')
ON CONFLICT (id) DO NOTHING RETURNING id""",
            [json.dumps([row]), chunk.batch_id],
        ),
        # One statement: between two, a batch that was closed could be pruned.
        (
            f"""INSERT INTO {tables.BATCHES} AS b (id, submitted_by, total_pis, total_refs) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET total_pis = b.total_pis + excluded.total_pis,
  total_refs = b.total_refs + excluded.total_refs, closed_at = NULL WHERE b.status = '{BatchStatus.OPEN}'""",
            [chunk.batch_id, by, len(chunk.pis), refs],
        ),
        *_rows([(name, chunk.pis)], dialect),
        await _endpoint(store, settings, chunk.callback_url),
    ]
    if await store.database.transact(statements, guarded=True):
        await store.database.wake()
        return True
    rows = await store.database.fetch(f"SELECT content_hash, phase FROM {tables.CHUNKS} WHERE id = $1", name)
    if not rows:
        raise BatchConflict(Message("batch.batch_conflict", batch=chunk.batch_id))
    existing = rows[0]
    if existing["content_hash"] != hash_:
        raise ChunkConflict(Message("batch.chunk_conflict", batch=chunk.batch_id, chunk=chunk.chunk_id))
    if existing["phase"] == ChunkPhase.ERROR:
        await changes.retry_chunk(store, name)
    elif existing["phase"] == ChunkPhase.DONE:
        await changes.resend_callback(store, settings, name)
    return False


async def submit_batch(
    store: Store, settings: BatchSettings, header: BatchHeader, pis: Iterable[NewPi]
) -> SubmittedBatch:
    """Adds a batch divided into chunks, in one transaction. `pis` is iterated once and never held in memory as a whole.

    The same batch again is answered with what there is; raises BatchConflict if its id has other content.
    """
    endpoint = await _endpoint(store, settings, header.callback_url) if header.callback_url is not None else None
    statements = _BatchStatements(store.dialect, endpoint, header, pis)
    if await store.database.transact(statements, guarded=True):
        if store.dialect == "postgresql" and header.refs >= MANY_REFS:
            # Until the database does so itself, claims and the status of the batch would sort all of its refs.
            await store.database.fetch(f"ANALYZE {tables.CHUNKS}, {tables.REFS}")
        await store.database.wake()
        return SubmittedBatch(header.id, statements.chunks, header.pis, header.refs, header.duplicates, True)
    rows = await store.database.fetch(
        f"""SELECT b.content_hash, b.total_pis, b.total_refs, b.duplicates,
  (SELECT count(*) FROM {tables.CHUNKS} AS c WHERE c.batch_id = b.id) AS chunks
FROM {tables.BATCHES} AS b WHERE b.id = $1""",
        header.id,
    )
    if not rows or rows[0]["content_hash"] != header.content_hash:
        raise BatchConflict(Message("batch.batch_conflict", batch=header.id))
    row = rows[0]
    return SubmittedBatch(header.id, row["chunks"], row["total_pis"], row["total_refs"], row["duplicates"], False)


class _BatchStatements:
    """The statements that insert a batch, made while the database runs them."""

    def __init__(self, dialect: Dialect, endpoint: Numbered | None, header: BatchHeader, pis: Iterable[NewPi]) -> None:
        self._dialect, self._endpoint, self._header, self._pis = dialect, endpoint, header, pis
        self.chunks = 0

    def __iter__(self) -> Iterator[Numbered]:
        header, dialect = self._header, self._dialect
        yield (
            f"""INSERT INTO {tables.BATCHES} (id, status, content_hash, chunk_size, callback_url, total_pis, total_refs,
  duplicates, submitted_by)
VALUES ($1, '{BatchStatus.PROCESSING}', $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING RETURNING id""",
            [
                header.id, header.content_hash, header.chunk_size, header.callback_url, header.pis, header.refs,
                header.duplicates, header.by,
            ],
        )  # fmt: skip
        if self._endpoint is not None:
            yield self._endpoint
        remaining = iter(self._pis)
        while chunks := [chunk for _ in range(CHUNKS_AT_ONCE) if (chunk := list(islice(remaining, header.chunk_size)))]:
            named = [(work_name(header.id, str(self.chunks + place)), chunk) for place, chunk in enumerate(chunks)]
            rows = [
                dict(zip(_CHUNK, (
                    name, header.id, str(self.chunks + place), self.chunks + place, header.callback_url,
                    content_hash([pi.model_dump() for pi in chunk]), len(chunk), sum(len(pi.refs) for pi in chunk),
                    new_id(),
                ), strict=True))
                for place, (name, chunk) in enumerate(named)
            ]  # fmt: skip
            yield _insert(tables.CHUNKS, _CHUNK, dialect), [json.dumps(rows)]
            yield from _rows(named, dialect)
            self.chunks += len(chunks)


def _rows(chunks: Sequence[tuple[str, Sequence[NewPi]]], dialect: Dialect) -> Iterator[Numbered]:
    """The statements that insert the entities and refs of chunks."""
    pis: list[dict[str, Any]] = []
    refs: list[dict[str, Any]] = []
    for name, entities in chunks:
        for position, pi in enumerate(entities):
            pis.append({"chunk": name, "position": position, "pi": pi.pi, "current_tip": pi.current_tip})
            refs += [
                {"id": new_id(), "chunk": name, "pi_position": position, "filename": ref.filename,
                 "staging_key": ref.staging_key, "cdn_url": ref.cdn_url}
                for ref in pi.refs
            ]  # fmt: skip
    yield _insert(tables.PIS, _PI, dialect), [json.dumps(pis, ensure_ascii=False)]
    if refs:
        yield _insert(tables.REFS, _REF, dialect), [json.dumps(refs, ensure_ascii=False)]


def _position(chunk_id: str) -> int:
    """The place of a chunk in its batch: orchestrators number them."""
    return int(chunk_id) if chunk_id.isascii() and chunk_id.isdigit() and len(chunk_id) <= 9 else 0


def _insert(table: str, columns: dict[str, str], dialect: Dialect) -> str:
    """An INSERT of the rows in a JSON list."""
    names = ", ".join(columns)
    if dialect == "postgresql":
        types = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        rows = f"SELECT {names} FROM json_to_recordset(CAST($1 AS json)) AS j({types})"
    else:
        values = ", ".join(f"json_extract(j.value, '$.{name}') AS {name}" for name in columns)
        rows = f"SELECT {values} FROM json_each($1) AS j"
    more = _COMPUTED.get(table, {})
    chosen = ", ".join([*(f"r.{name}" for name in columns), *more.values()])
    # Without WHERE, SQLite would read a following ON CONFLICT as a part of the FROM clause.
    return f"INSERT INTO {table} ({', '.join([names, *more])}) SELECT {chosen} FROM ({rows}) AS r WHERE 1 = 1"


async def _endpoint(store: Store, settings: BatchSettings, callback_url: str) -> Numbered:
    return sql.bind(*await ensure_endpoint(store.database.fetch, settings, callback_url, store.dialect))
