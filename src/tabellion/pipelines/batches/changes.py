"""What people and orchestrators change: chunks and refs are retried, batches are closed, callbacks sent again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tabellion.delivery import deliveries, outbox
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.callbacks import EVENT, endpoint_id, ensure_endpoint, find_callback, message_id
from tabellion.pipelines.batches.states import ENDED, REF_STATUS, BatchStatus, ChunkPhase, RefStatus, quote_list

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.batches.settings import BatchSettings


#: A batch in one of these goes on when a chunk of it is started again, also while it is being completed.
HAS_ENDED = (BatchStatus.COMPLETING, BatchStatus.COMPLETE, BatchStatus.INCOMPLETE)


class StillOpen(TabellionError):  # noqa: N818 - what it is
    """A batch with open chunks cannot be closed."""


#: Whether a chunk `c` has ended with failures, as its status counts them.
_FAILED = f"""c.phase IN ({quote_list(ENDED)}) AND (c.phase = '{ChunkPhase.ERROR}'
    OR EXISTS (SELECT 1 FROM {tables.REFS} AS r WHERE r.chunk = c.id AND {REF_STATUS} = '{RefStatus.ERROR}')
    OR EXISTS (SELECT 1 FROM {tables.PIS} AS p WHERE p.chunk = c.id AND p.entity_error IS NOT NULL))"""


async def retry_chunk(store: Store, name: str) -> bool:
    """Starts a chunk again that has ended with failures: failed refs are read, what was read before is kept.

    Returns whether it had. Its next end is reported by a callback of its own.
    """
    statements: list[tuple[str, Sequence[Any]]] = [
        (
            f"""UPDATE {tables.CHUNKS} AS c SET phase = '{ChunkPhase.PENDING}', report = 'due', run = run + 1,
  started_at = {NOW}, completed_at = NULL,
  fetching_error = NULL, publishing_error = NULL, error_code = NULL, error_params = NULL,
  done_refs = NULL, skipped_refs = NULL, failed_refs = NULL
WHERE c.id = $1 AND {_FAILED} RETURNING batch_id""",
            [name],
        ),
        (
            f"""UPDATE {tables.REFS} SET status = '{RefStatus.PENDING}', loaded = FALSE, error = NULL,
  error_code = NULL, error_params = NULL, chunk_ended = FALSE, finished_at = NULL
WHERE chunk = $1 AND status IN ('{RefStatus.ERROR}', '{RefStatus.PENDING}')""",
            [name],
        ),
        (
            f"UPDATE {tables.PIS} SET entity_error = NULL, error_code = NULL, error_params = NULL WHERE chunk = $1",
            [name],
        ),
        (
            f"""UPDATE {tables.BATCHES} SET status = '{BatchStatus.PROCESSING}', completed_at = NULL
WHERE id = (SELECT batch_id FROM {tables.CHUNKS} WHERE id = $1)
  AND status IN ({quote_list(HAS_ENDED)})""",
            [name],
        ),
        # The callback of an earlier run must not arrive after that of the next one.
        sql.bind(*deliveries.withdraw(name, EVENT)),
        # Whatever its status: rows of a batch that goes on must not be pruned.
        (
            f"""UPDATE {tables.BATCHES} SET closed_at = NULL
WHERE id = (SELECT batch_id FROM {tables.CHUNKS} WHERE id = $1)""",
            [name],
        ),
    ]
    done = await store.database.transact(statements, guarded=True)
    if done:
        await store.database.wake()
    return bool(done)


async def retry_failed(store: Store, batch_id: str, chunk_id: str | None = None) -> int:
    """Starts every ended chunk of a batch again that has an error or a failed ref; returns how many."""
    only = " AND c.chunk_id = $2" if chunk_id is not None else ""
    rows = await store.database.fetch(
        f"""SELECT c.id FROM {tables.CHUNKS} AS c WHERE c.batch_id = $1{only} AND {_FAILED}
ORDER BY c.position""",
        batch_id, *([chunk_id] if chunk_id is not None else []),
    )  # fmt: skip
    return sum([await retry_chunk(store, row["id"]) for row in rows])


async def resend_callback(store: Store, settings: BatchSettings, name: str) -> bool:
    """Sends the callback of a chunk's last run again, now and whatever became of it: the same id and the same body.

    Returns whether the chunk has ended and is to be reported.
    """
    found = await find_callback(store, name)
    if found is None or found[0]["callback_url"] is None:
        return False
    chunk, body = found
    url, id_ = chunk["callback_url"], message_id(chunk)
    statements = [
        await ensure_endpoint(store.database.fetch, settings, url, store.dialect),
        outbox.direct(id_, endpoint_id(url), EVENT, name, body),
        *outbox.resend(id_),
    ]
    await store.database.transact([sql.bind(*statement) for statement in statements])
    await store.database.wake()
    return True


async def close(store: Store, batch_id: str) -> bool:
    """Closes a batch: its rows may be pruned from now on. Raises StillOpen while a chunk has not ended."""
    rows = await store.database.fetch(
        f"""UPDATE {tables.BATCHES} AS b SET closed_at = coalesce(closed_at, {NOW}) WHERE b.id = $1 AND NOT EXISTS
  (SELECT 1 FROM {tables.CHUNKS} AS c WHERE c.batch_id = b.id AND c.phase NOT IN ({quote_list(ENDED)})) RETURNING id""",
        batch_id,
    )
    if rows:
        return True
    if await store.database.fetch(f"SELECT 1 FROM {tables.BATCHES} WHERE id = $1", batch_id):
        raise StillOpen(Message("batch.still_open", batch=batch_id))
    return False
