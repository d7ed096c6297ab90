"""What people and orchestrators change: chunks and refs are retried, batches are closed, callbacks sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabellion.delivery import deliveries, outbox
from tabellion.engine import sql
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.batch_rows import close_batch, continue_batch
from tabellion.pipelines.batches.callbacks import EVENT, endpoint_id, ensure_endpoint, find_callback, message_id
from tabellion.pipelines.batches.chunk_rows import HAS_FAILED, restart_chunk
from tabellion.pipelines.batches.entity_rows import clear_errors
from tabellion.pipelines.batches.ref_rows import restart_refs

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.batches.settings import BatchSettings


class StillOpen(TabellionError):  # noqa: N818 - what it is
    """A batch with open chunks cannot be closed."""


async def retry_chunk(store: Store, name: str) -> bool:
    """Starts a chunk again that has ended with failures: failed refs are read, what was read before is kept.

    Returns whether it had. Its next end is reported by a callback of its own.
    """
    statements = [
        restart_chunk(name),
        restart_refs(name),
        clear_errors(name),
        *continue_batch(name),
        # The callback of an earlier run must not arrive after that of the next one.
        sql.bind(*deliveries.withdraw(name, EVENT)),
    ]
    done = await store.database.transact(statements, guarded=True)
    if done:
        await store.database.wake()
    return bool(done)


async def retry_failed(store: Store, batch_id: str, chunk_id: str | None = None) -> int:
    """Starts every ended chunk of a batch again that has an error or a failed ref; returns how many."""
    only = " AND c.chunk_id = $2" if chunk_id is not None else ""
    rows = await store.database.fetch(
        f"""SELECT c.id FROM {tables.CHUNKS} AS c WHERE c.batch_id = $1{only} AND {HAS_FAILED}
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
    text, values = close_batch(batch_id)
    rows = await store.database.fetch(text, *values)
    if rows:
        return True
    if await store.database.fetch(f"SELECT 1 FROM {tables.BATCHES} WHERE id = $1", batch_id):
        raise StillOpen(Message("batch.still_open", batch=batch_id))
    return False
