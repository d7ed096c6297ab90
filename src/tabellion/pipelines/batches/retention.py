"""Removes batches that were closed long enough ago, a few whole chunks at a time; versions of entities stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabellion.delivery import endpoints
from tabellion.engine import sql
from tabellion.engine.retention import PruneStep, RetentionRule
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.pipelines.batches import callbacks, tables
from tabellion.pipelines.batches.batch_rows import delete_batch
from tabellion.pipelines.batches.chunk_rows import delete_chunks
from tabellion.pipelines.batches.entity_rows import delete_entities
from tabellion.pipelines.batches.ref_rows import delete_refs
from tabellion.pipelines.batches.states import ENDED, quote_list

CHUNKS_AT_ONCE = 10  #: that one transaction removes with their refs
CALLBACKS_AT_ONCE = 1000
#: Whether a chunk or a batch reports to the URL of an endpoint `e`.
_IN_USE = f"""e.url IN (SELECT c.callback_url FROM {tables.CHUNKS} AS c WHERE c.callback_url IS NOT NULL)
    OR e.url IN (SELECT b.callback_url FROM {tables.BATCHES} AS b WHERE b.callback_url IS NOT NULL)"""


class ClosedBatches(RetentionRule):
    """Batches that were closed, and callbacks about batches of others; a batch that is not closed is never removed."""

    name = "batches"

    def __init__(self, keep: float | None) -> None:
        self.keep = keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Removes some chunks of the batch that was closed first, or the batch itself if it has none left."""
        d = store.dialect
        age = f"{sql.epoch(NOW, d)} - {sql.epoch('b.closed_at', d)}"
        old = f"""b.closed_at IS NOT NULL AND b.closed_at < {self.cutoff(d)} AND NOT EXISTS
  (SELECT 1 FROM {tables.CHUNKS} AS c WHERE c.batch_id = b.id AND c.phase NOT IN ({quote_list(ENDED)}))"""
        if dry_run:
            [counted] = await store.database.fetch(
                f"SELECT count(*) AS n, max({age}) AS age FROM {tables.BATCHES} AS b WHERE {old}"
            )
            [others] = await store.database.fetch(f"SELECT count(*) AS n FROM {self._foreign(d)}")
            return PruneStep(None, counted["n"] + others["n"], counted["age"])
        batches = await store.database.fetch(
            f"SELECT b.id, {age} AS age FROM {tables.BATCHES} AS b WHERE {old} ORDER BY b.closed_at, b.id LIMIT 1"
        )
        if not batches:
            removed = await store.database.fetch(
                f"""DELETE FROM {tables.RECEIVED} WHERE id IN
  (SELECT k.id FROM {self._foreign(d)} LIMIT {CALLBACKS_AT_ONCE}) RETURNING id"""
            )
            # The callback URLs of most orchestrators have the id of the batch: each batch leaves an endpoint.
            unused = await store.database.fetch(
                endpoints.remove_unused(callbacks.PREFIX, _IN_USE, self.cutoff(d), CALLBACKS_AT_ONCE)
            )
            is_more = CALLBACKS_AT_ONCE in (len(removed), len(unused))
            return PruneStep("next" if is_more else None, len(removed))
        batch, oldest = batches[0]["id"], batches[0]["age"]
        chunks = await store.database.fetch(
            f"SELECT id FROM {tables.CHUNKS} WHERE batch_id = $1 LIMIT {CHUNKS_AT_ONCE}", batch
        )
        # Whole chunks, and only while the batch is closed: one that is started again has all of its refs.
        guard = (
            f"SELECT b.id FROM {tables.BATCHES} AS b WHERE b.id = $1 AND {old}"
            + (" FOR UPDATE" if d == "postgresql" else ""),
            [batch],
        )
        removals = _chunks([row["id"] for row in chunks]) if chunks else _batch(batch)
        await store.database.transact([guard, *removals], guarded=True)
        return PruneStep("next", 0 if chunks else 1, None if chunks else oldest)

    def _foreign(self, dialect: Dialect) -> str:
        """Old callbacks about batches that were not submitted here."""
        return f"""{tables.RECEIVED} AS k WHERE k.received_at < {self.cutoff(dialect)}
  AND NOT EXISTS (SELECT 1 FROM {tables.BATCHES} AS b WHERE b.id = k.batch_id)"""


def _chunks(names: Sequence[str]) -> list[tuple[str, Sequence[Any]]]:
    return [delete_refs(names), delete_entities(names), delete_chunks(names)]


def _batch(batch: str) -> list[tuple[str, Sequence[Any]]]:
    return [
        (f"DELETE FROM {tables.RECEIVED} WHERE batch_id = $1", [batch]),
        delete_batch(batch),
    ]
