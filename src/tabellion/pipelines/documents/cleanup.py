"""Removes leftovers: partial files, contents without a document, documents stuck in reading."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tabellion.engine.store import Store
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.deleted_files import has_documents
from tabellion.pipelines.documents.settings import Settings
from tabellion.web.page_images import Pictures

STRANDED = 600.0  #: seconds after its lease; an active queue has ended the claim by then
GRACE = 3600.0  #: seconds that a content may have no document: its upload may be under way
SOME = 500  #: contents per statement


async def sweep(
    store: Store, settings: Settings, since: float, *, grace: float = GRACE, pictures: Pictures | None = None
) -> dict[str, int]:
    """Removes what is no longer needed; returns the counts. `since`: when this service started.

    Only contents that arrived since are examined: older ones may belong to another database that used this folder
    before, or to a backup that is still to be restored, and only a person can tell.
    """
    counts = {"copies": await _forget_copies(store, settings, pictures)}
    counts |= {"halves": len(await settings.blobs.sweep_temps()) + await settings.lake.sweep_temps()}
    await settings.blobs.recover()
    counts["contents"] = await _contents(store, settings, since, grace)
    # Documents whose worker died and whose queue is no longer configured: nothing else ends them.
    stranded, _ = states.requeue_stranded(store.dialect, STRANDED)
    counts["stranded"] = len(await store.database.fetch(stranded))
    return counts


async def _contents(store: Store, settings: Settings, since: float, grace: float) -> int:
    """Removes contents of uploads that were rejected late or aborted, and of documents deleted meanwhile."""
    removed = 0
    until = time.time() - grace
    hashes = await settings.blobs.list_arrivals(since, until)
    for start in range(0, len(hashes), SOME):
        batch = hashes[start : start + SOME]
        for sha256 in await _find_unused(store, batch):
            removed += await settings.blobs.remove(
                sha256,
                older=grace,
                needed=lambda sha256=sha256: has_documents(store, sha256),  # type: ignore[misc]
            )
        await settings.blobs.clear_arrivals(batch, until)
    return removed


async def _forget_copies(store: Store, settings: Settings, pictures: Pictures | None) -> int:
    """Removes cached copies and page images of contents whose last document was deleted on another machine."""
    forgotten = 0
    hashes = list({*await settings.blobs.list_cached(), *(await pictures.hashes() if pictures is not None else ())})
    for start in range(0, len(hashes), SOME):
        for sha256 in await _find_unused(store, hashes[start : start + SOME]):
            await settings.blobs.forget(sha256)
            if pictures is not None:
                await pictures.forget(sha256)
            forgotten += 1
    return forgotten


async def _find_unused(store: Store, hashes: Sequence[str]) -> set[str]:
    """Those of these contents that no document has."""
    marks = ", ".join(f"${number}" for number in range(1, len(hashes) + 1))
    rows = await store.database.fetch(
        f"SELECT DISTINCT sha256 FROM tabellion_documents WHERE sha256 IN ({marks})", *hashes
    )
    return set(hashes) - {row["sha256"] for row in rows}
