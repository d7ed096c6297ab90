"""The rows of batches: everything that changes them but their queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabellion.engine.sql import NOW
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.states import ENDED, BatchStatus, quote_list

if TYPE_CHECKING:
    from tabellion.engine.moves import Numbered

#: A batch in one of these goes on when a chunk of it is started again, also while it is being completed.
HAS_ENDED = (BatchStatus.COMPLETING, BatchStatus.COMPLETE, BatchStatus.INCOMPLETE)


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


def insert_batch(header: BatchHeader) -> Numbered:
    """The statement that adds a batch that is submitted as a whole, and returns its id, unless there is one."""
    text = f"""INSERT INTO {tables.BATCHES} (id, status, content_hash, chunk_size, callback_url, total_pis, total_refs,
  duplicates, submitted_by)
VALUES ($1, '{BatchStatus.PROCESSING}', $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING RETURNING id"""
    return text, [
        header.id, header.content_hash, header.chunk_size, header.callback_url, header.pis, header.refs,
        header.duplicates, header.by,
    ]  # fmt: skip


def count_chunk(id_: str, by: str | None, pis: int, refs: int) -> Numbered:
    """The statement that counts a chunk to its open batch, which is added with its first one.

    One statement: between two, a batch that was closed could be pruned.
    """
    text = f"""INSERT INTO {tables.BATCHES} AS b (id, submitted_by, total_pis, total_refs) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET total_pis = b.total_pis + excluded.total_pis,
  total_refs = b.total_refs + excluded.total_refs, closed_at = NULL WHERE b.status = '{BatchStatus.OPEN}'"""
    return text, [id_, by, pis, refs]


def continue_batch(chunk: str) -> list[Numbered]:
    """The statements that let the batch of a chunk go on: it is not complete, and whatever its status not closed, since
    rows of a batch that goes on must not be pruned."""
    of_chunk = f"id = (SELECT batch_id FROM {tables.CHUNKS} WHERE id = $1)"
    return [
        (
            f"""UPDATE {tables.BATCHES} SET status = '{BatchStatus.PROCESSING}', completed_at = NULL
WHERE {of_chunk} AND status IN ({quote_list(HAS_ENDED)})""",
            [chunk],
        ),
        (f"UPDATE {tables.BATCHES} SET closed_at = NULL WHERE {of_chunk}", [chunk]),
    ]


def close_batch(id_: str) -> Numbered:
    """The statement that closes a batch, and returns its id, if its chunks have all ended."""
    text = f"""UPDATE {tables.BATCHES} AS b SET closed_at = coalesce(closed_at, {NOW}) WHERE b.id = $1 AND NOT EXISTS
  (SELECT 1 FROM {tables.CHUNKS} AS c WHERE c.batch_id = b.id AND c.phase NOT IN ({quote_list(ENDED)})) RETURNING id"""
    return text, [id_]


def delete_batch(id_: str) -> Numbered:
    """The statement that removes a batch without chunks."""
    text = f"""DELETE FROM {tables.BATCHES} WHERE id = $1
  AND NOT EXISTS (SELECT 1 FROM {tables.CHUNKS} WHERE batch_id = $1)"""
    return text, [id_]
