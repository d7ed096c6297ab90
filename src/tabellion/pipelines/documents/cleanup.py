"""What is left behind: halves of files, contents that no document has, old deliveries, documents that nobody reads."""

from __future__ import annotations

import time

from tabellion.engine import sql
from tabellion.engine.store import Store
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.reprocess import has_documents
from tabellion.pipelines.documents.settings import Settings

STRANDED = 600.0  #: seconds after its lease in which a queue that somebody works has ended a claim
GRACE = 3600.0  #: seconds that a content may be without a document: its upload may be under way
DELIVERED = 30 * 86_400.0  #: seconds that deliveries are kept after they were made
SOME = 500  #: contents, or deliveries, at a time


async def sweep(store: Store, settings: Settings, since: float, *, grace: float = GRACE) -> dict[str, int]:
    """Removes what nobody needs; how many of what. `since`: when this service started.

    Only contents that came since are looked at: older ones may be those of another database that had this folder
    before, or of a backup that is yet to be read back, and nobody but a person can tell.
    """
    swept = {"halves": len(await settings.blobs.sweep_temps()) + await settings.lake.sweep_temps()}
    await settings.blobs.recover()
    swept["contents"] = await _contents(store, settings, since, grace)
    swept["deliveries"] = await _deliveries(store)
    swept["stranded"] = await _requeue_stranded(store)
    return swept


async def _contents(store: Store, settings: Settings, since: float, grace: float) -> int:
    """Those of uploads that were refused late, or given up, and of documents that were deleted meanwhile."""
    removed = 0
    came = await settings.blobs.came(since, time.time() - grace)
    for start in range(0, len(came), SOME):
        some = came[start : start + SOME]
        marks = ", ".join(f"${number}" for number in range(1, len(some) + 1))
        rows = await store.database.fetch(
            f"SELECT DISTINCT sha256 FROM tabellion_documents WHERE sha256 IN ({marks})", *some
        )
        for sha256 in set(some) - {row["sha256"] for row in rows}:
            removed += await settings.blobs.remove(
                sha256,
                older=grace,
                needed=lambda sha256=sha256: has_documents(store, sha256),  # type: ignore[misc]
            )
    return removed


async def _deliveries(store: Store) -> int:
    """What could not be delivered stays: somebody may want it sent once more."""
    if await store.table("tabellion_webhook_deliveries") is None:
        return 0
    removed = 0
    while True:
        rows = await store.database.fetch(
            f"""DELETE FROM tabellion_webhook_deliveries WHERE id IN (SELECT id FROM tabellion_webhook_deliveries
WHERE status = 'delivered' AND finished_at < {sql.later(repr(-DELIVERED), store.dialect)} LIMIT {SOME}) RETURNING id"""
        )
        removed += len(rows)
        if len(rows) < SOME:
            return removed


async def _requeue_stranded(store: Store) -> int:
    """Documents whose reader died, and whose queue went with a change of the configuration: nobody else ends them."""
    text, _ = states.requeue_stranded(store.dialect, STRANDED)
    return len(await store.database.fetch(text))
