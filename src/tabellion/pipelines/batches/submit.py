"""Adds chunks and batches: all rows in one transaction, and the same request again changes nothing."""

from __future__ import annotations

import asyncio
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
from tabellion.pipelines.batches.batch_rows import BatchHeader, count_chunk, insert_batch
from tabellion.pipelines.batches.callbacks import ensure_endpoint
from tabellion.pipelines.batches.chunk_rows import NewChunkRow, insert_chunks, insert_into_open_batch
from tabellion.pipelines.batches.entity_rows import insert_entities
from tabellion.pipelines.batches.ref_rows import insert_refs
from tabellion.pipelines.batches.request import NewChunk, NewPi, content_hash
from tabellion.pipelines.batches.states import ChunkPhase, work_name

if TYPE_CHECKING:
    from tabellion.engine.moves import Numbered
    from tabellion.engine.store import Store
    from tabellion.pipelines.batches.settings import BatchSettings

CHUNKS_AT_ONCE = 50  #: chunks that one statement inserts
MANY_REFS = 10_000  #: of a batch, after which the statistics of the tables are renewed


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


async def submit_chunk(store: Store, settings: BatchSettings, chunk: NewChunk, by: str | None = None) -> bool:
    """Adds a chunk; returns whether it is new. Raises ChunkConflict if its id has other content, and BatchConflict if
    its batch was submitted as a whole.

    A chunk that ended in an error is started again: that is how an orchestrator retries it. One that was done has its
    callback sent again: that is how an orchestrator asks for one that it has lost.
    """
    hash_ = await asyncio.to_thread(lambda: content_hash(chunk.model_dump()))
    name = work_name(chunk.batch_id, chunk.chunk_id)
    refs = sum(len(pi.refs) for pi in chunk.pis)
    dialect = store.dialect
    row = NewChunkRow(
        id=name, batch_id=chunk.batch_id, chunk_id=chunk.chunk_id, position=_position(chunk.chunk_id),
        callback_url=chunk.callback_url, content_hash=hash_, total_pis=len(chunk.pis), total_refs=refs,
        identity=new_id(),
    )  # fmt: skip
    statements = [
        insert_into_open_batch(row, dialect),
        count_chunk(chunk.batch_id, by, len(chunk.pis), refs),
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
        yield insert_batch(header)
        if self._endpoint is not None:
            yield self._endpoint
        remaining = iter(self._pis)
        while chunks := [chunk for _ in range(CHUNKS_AT_ONCE) if (chunk := list(islice(remaining, header.chunk_size)))]:
            named = [(work_name(header.id, str(self.chunks + place)), chunk) for place, chunk in enumerate(chunks)]
            rows = [
                NewChunkRow(
                    id=name, batch_id=header.id, chunk_id=str(self.chunks + place), position=self.chunks + place,
                    callback_url=header.callback_url, content_hash=content_hash([pi.model_dump() for pi in chunk]),
                    total_pis=len(chunk), total_refs=sum(len(pi.refs) for pi in chunk), identity=new_id(),
                )
                for place, (name, chunk) in enumerate(named)
            ]  # fmt: skip
            yield insert_chunks(rows, dialect)
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
    yield insert_entities(pis, dialect)
    if refs:
        yield insert_refs(refs, dialect)


def _position(chunk_id: str) -> int:
    """The place of a chunk in its batch: orchestrators number them."""
    return int(chunk_id) if chunk_id.isascii() and chunk_id.isdigit() and len(chunk_id) <= 9 else 0


async def _endpoint(store: Store, settings: BatchSettings, callback_url: str) -> Numbered:
    return sql.bind(*await ensure_endpoint(store.database.fetch, settings, callback_url, store.dialect))
