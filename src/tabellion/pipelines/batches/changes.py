"""What people and orchestrators change: chunks and refs are retried, batches are closed, callbacks sent again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tabellion.delivery import outbox
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.callbacks import build_callback, deliver, message_id
from tabellion.pipelines.batches.states import ENDED, BatchStatus, Phase, RefStatus, listed

if TYPE_CHECKING:
    from tabellion.engine.store import Store


#: A batch in one of these goes on when a chunk of it is started again, also while it is being completed.
HAS_ENDED = (BatchStatus.COMPLETING, BatchStatus.COMPLETE, BatchStatus.INCOMPLETE)


class StillOpen(TabellionError):  # noqa: N818 - what it is
    """A batch with open chunks cannot be closed."""


async def retry_chunk(store: Store, name: str) -> bool:
    """Starts a chunk again that has ended: its failed refs are read, what was read before is kept.

    Returns whether it had ended. Its next end is reported by a callback of its own.
    """
    statements: list[tuple[str, Sequence[Any]]] = [
        (
            f"""UPDATE {tables.CHUNKS} SET phase = '{Phase.PENDING}', report = 'due', run = run + 1,
  started_at = {NOW}, completed_at = NULL,
  fetching_error = NULL, publishing_error = NULL, done_refs = NULL, skipped_refs = NULL,
  failed_refs = NULL
WHERE id = $1 AND phase IN ({listed(ENDED)}) RETURNING batch_id""",
            [name],
        ),
        (
            f"""UPDATE {tables.REFS} SET status = '{RefStatus.PENDING}', loaded = FALSE, error = NULL,
  finished_at = NULL WHERE chunk = $1 AND status = '{RefStatus.ERROR}'""",
            [name],
        ),
        (f"UPDATE {tables.PIS} SET entity_error = NULL WHERE chunk = $1", [name]),
        (
            f"""UPDATE {tables.BATCHES} SET status = '{BatchStatus.PROCESSING}', completed_at = NULL
WHERE id = (SELECT batch_id FROM {tables.CHUNKS} WHERE id = $1)
  AND status IN ({listed(HAS_ENDED)})""",
            [name],
        ),
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
        f"""SELECT c.id FROM {tables.CHUNKS} AS c WHERE c.batch_id = $1 AND c.phase IN ({listed(ENDED)}){only}
  AND (c.phase = '{Phase.ERROR}'
    OR EXISTS (SELECT 1 FROM {tables.REFS} AS r WHERE r.chunk = c.id AND r.status = '{RefStatus.ERROR}')
    OR EXISTS (SELECT 1 FROM {tables.PIS} AS p WHERE p.chunk = c.id AND p.entity_error IS NOT NULL))
ORDER BY c.position""",
        batch_id, *([chunk_id] if chunk_id is not None else []),
    )  # fmt: skip
    return sum([await retry_chunk(store, row["id"]) for row in rows])


async def resend_callback(store: Store, name: str) -> bool:
    """Sends the callback of a chunk's last run again: if it was given up, or is not in the database any more.

    Returns whether it is sent again; one that was delivered, or still will be, is left alone.
    """
    rows = await store.database.fetch(
        f"""SELECT id, batch_id, chunk_id, run, phase, callback_url, publishing_error, fetching_error
FROM {tables.CHUNKS} WHERE id = $1 AND phase IN ({listed(ENDED)}) AND callback_url IS NOT NULL""",
        name,
    )
    if not rows:
        return False
    [chunk] = rows
    if await outbox.resend(store, message_id(name, chunk["run"])):
        return True
    error = chunk["publishing_error"] or chunk["fetching_error"] if chunk["phase"] == Phase.ERROR else None
    callback = await build_callback(store.database.fetch, chunk, store.dialect, error)
    text, values = sql.bind(*deliver(chunk, callback))
    is_new = bool(await store.database.fetch(f"{text} RETURNING id", *values))
    if is_new:
        await store.database.wake()
    return is_new


async def close(store: Store, batch_id: str) -> bool:
    """Closes a batch: its rows may be pruned from now on. Raises StillOpen while a chunk has not ended."""
    rows = await store.database.fetch(
        f"""UPDATE {tables.BATCHES} AS b SET closed_at = coalesce(closed_at, {NOW}) WHERE b.id = $1 AND NOT EXISTS
  (SELECT 1 FROM {tables.CHUNKS} AS c WHERE c.batch_id = b.id AND c.phase NOT IN ({listed(ENDED)})) RETURNING id""",
        batch_id,
    )
    if rows:
        return True
    if await store.database.fetch(f"SELECT 1 FROM {tables.BATCHES} WHERE id = $1", batch_id):
        raise StillOpen(Message("batch.still_open", batch=batch_id))
    return False
