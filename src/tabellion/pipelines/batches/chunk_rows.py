"""The rows of chunks: everything that changes them but their queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from tabellion.engine.sql import NOW, Dialect
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.error_forms import marks
from tabellion.pipelines.batches.row_lists import select_rows
from tabellion.pipelines.batches.states import ENDED, REF_STATUS, BatchStatus, ChunkPhase, RefStatus, quote_list

if TYPE_CHECKING:
    from tabellion.engine.moves import Numbered

#: Columns of inserted rows with their types on PostgreSQL.
_INSERTED = {
    "id": "text", "batch_id": "text", "chunk_id": "text", "position": "integer", "callback_url": "text",
    "content_hash": "text", "total_pis": "integer", "total_refs": "integer", "identity": "text",
}  # fmt: skip
#: A chunk whose rows were pruned and which is sent again continues to count: a run has one version of each entity.
_RUN = f"(SELECT 1 + coalesce(max(v.run), 0) FROM {tables.VERSIONS} AS v WHERE v.chunk = r.id)"

#: Whether a chunk `c` has ended with failures, as its status counts them.
HAS_FAILED = f"""c.phase IN ({quote_list(ENDED)}) AND (c.phase = '{ChunkPhase.ERROR}'
    OR EXISTS (SELECT 1 FROM {tables.REFS} AS r WHERE r.chunk = c.id AND {REF_STATUS} = '{RefStatus.ERROR}')
    OR EXISTS (SELECT 1 FROM {tables.PIS} AS p WHERE p.chunk = c.id AND p.entity_error IS NOT NULL))"""


class NewChunkRow(TypedDict):
    """A chunk that is added."""

    id: str
    batch_id: str
    chunk_id: str
    position: int
    callback_url: str | None
    content_hash: str
    total_pis: int
    total_refs: int
    identity: str  #: random


def insert_chunks(rows: Sequence[NewChunkRow], dialect: Dialect) -> Numbered:
    """The statement that adds chunks."""
    text = f"INSERT INTO {tables.CHUNKS} ({', '.join(_INSERTED)}, run) {select_rows(_INSERTED, dialect, _RUN)}"
    return text, [json.dumps(rows)]


def insert_into_open_batch(row: NewChunkRow, dialect: Dialect) -> Numbered:
    """The statement that adds a chunk, and returns its id, unless there is one or its batch was submitted whole."""
    text, values = insert_chunks([row], dialect)
    text += f""" AND NOT EXISTS
  (SELECT 1 FROM {tables.BATCHES} AS b WHERE b.id = $2 AND b.status <> '{BatchStatus.OPEN}')
ON CONFLICT (id) DO NOTHING RETURNING id"""
    return text, [*values, row["batch_id"]]


def restart_chunk(name: str) -> Numbered:
    """The statement that starts a chunk again, and returns a row, if it has ended with failures."""
    text = f"""UPDATE {tables.CHUNKS} AS c SET phase = '{ChunkPhase.PENDING}', report = 'due', run = run + 1,
  started_at = {NOW}, completed_at = NULL,
  fetching_error = NULL, publishing_error = NULL, error_code = NULL, error_params = NULL,
  done_refs = NULL, skipped_refs = NULL, failed_refs = NULL
WHERE c.id = $1 AND {HAS_FAILED} RETURNING batch_id"""
    return text, [name]


def delete_chunks(names: Sequence[str]) -> Numbered:
    """The statement that removes chunks."""
    return f"DELETE FROM {tables.CHUNKS} WHERE id IN ({marks(1, len(names))})", [*names]
