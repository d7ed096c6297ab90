"""Removes leftovers: partial files, contents without a document, old deliveries, documents stuck in reading."""

from __future__ import annotations

import time

from tabellion.delivery import endpoints
from tabellion.engine.store import Store
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.reprocess import has_documents
from tabellion.pipelines.documents.settings import Settings

STRANDED = 600.0  #: seconds after its lease; an active queue has ended the claim by then
GRACE = 3600.0  #: seconds that a content may have no document: its upload may be under way
DELIVERED = 30 * 86_400.0  #: seconds that deliveries are kept after they were made
SOME = 500  #: contents per statement


async def sweep(store: Store, settings: Settings, since: float, *, grace: float = GRACE) -> dict[str, int]:
    """Removes what is no longer needed; returns the counts. `since`: when this service started.

    Only contents that arrived since are examined: older ones may belong to another database that used this folder
    before, or to a backup that is still to be restored, and only a person can tell.
    """
    counts = {"halves": len(await settings.blobs.sweep_temps()) + await settings.lake.sweep_temps()}
    await settings.blobs.recover()
    counts["contents"] = await _contents(store, settings, since, grace)
    counts["deliveries"] = await endpoints.forget_delivered(store, DELIVERED)
    # Documents whose worker died and whose queue is no longer configured: nothing else ends them.
    stranded, _ = states.requeue_stranded(store.dialect, STRANDED)
    counts["stranded"] = len(await store.database.fetch(stranded))
    return counts


async def _contents(store: Store, settings: Settings, since: float, grace: float) -> int:
    """Removes contents of uploads that were rejected late or aborted, and of documents deleted meanwhile."""
    removed = 0
    hashes = await settings.blobs.came(since, time.time() - grace)
    for start in range(0, len(hashes), SOME):
        batch = hashes[start : start + SOME]
        marks = ", ".join(f"${number}" for number in range(1, len(batch) + 1))
        rows = await store.database.fetch(
            f"SELECT DISTINCT sha256 FROM tabellion_documents WHERE sha256 IN ({marks})", *batch
        )
        for sha256 in set(batch) - {row["sha256"] for row in rows}:
            removed += await settings.blobs.remove(
                sha256,
                older=grace,
                needed=lambda sha256=sha256: has_documents(store, sha256),  # type: ignore[misc]
            )
    return removed
