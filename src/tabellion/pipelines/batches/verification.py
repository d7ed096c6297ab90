"""What `tabellion verify` checks of batches: histories without forks, chunks without open refs, published files."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.engine.store import Store
from tabellion.monitor.verify import MOST, Violation, confirm, only_places
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.content import ContentMissing, ContentStore
from tabellion.pipelines.batches.entity_versions import Version, descends
from tabellion.pipelines.batches.states import OPEN_REFS, ChunkPhase, quote_list


async def verify_batches(store: Store, content: ContentStore, *, files: int | None = 0) -> list[Violation]:
    """Everything that is wrong with the batches of a database, and with `files` of their files (None: all)."""
    found = await confirm(lambda places: _check_histories(store, places))
    found += await confirm(lambda places: _check_gaps(store, content, places))
    found += await confirm(lambda places: _check_chunks(store, places))
    if files != 0:
        found += await confirm(lambda places: _check_content(store, content, files, places))
    return found


async def _check_histories(store: Store, places: Sequence[str] | None) -> list[Violation]:
    """Each version follows the one before it, and the tip of an entity is its newest version."""
    broken = await store.database.fetch(
        f"""SELECT v.pi, v.version FROM {tables.VERSIONS} AS v JOIN {tables.VERSIONS} AS p
  ON p.pi = v.pi AND p.version = v.version - 1 AND p.tip <> v.previous
WHERE 1 = 1 {only_places(places, "v.pi", store.dialect)} LIMIT {MOST}"""
    )
    lost = await store.database.fetch(
        f"""SELECT v.pi, v.version FROM {tables.VERSIONS} AS v LEFT JOIN {tables.ENTITIES} AS e ON e.pi = v.pi
WHERE (e.pi IS NULL OR e.version < v.version OR (e.version = v.version AND e.tip <> v.tip))
  {only_places(places, "v.pi", store.dialect)} LIMIT {MOST}"""
    )
    return [
        *(
            Violation(
                "history_forked", f"batch_versions/{row['pi']}",
                f"version {row['version']} does not follow the version before it",
                "compare the versions in batch_versions with their content, and correct `previous`",
            )
            for row in broken
        ),
        *(
            Violation(
                "tip_lost", f"batch_entities/{row['pi']}",
                f"version {row['version']} is newer than the tip of the entity",
                "set the tip in batch_entities to the newest version of batch_versions",
            )
            for row in lost
        ),
    ]  # fmt: skip


async def _check_gaps(store: Store, content: ContentStore, places: Sequence[str] | None) -> list[Violation]:
    """Where others have appended between two versions of ours, their versions lead from the one to the other."""
    rows = await store.database.fetch(
        f"""SELECT v.pi, v.version, v.previous, p.tip AS tip, p.version AS before FROM {tables.VERSIONS} AS v
JOIN {tables.VERSIONS} AS p ON p.pi = v.pi
  AND p.version = (SELECT max(o.version) FROM {tables.VERSIONS} AS o WHERE o.pi = v.pi AND o.version < v.version)
WHERE p.version < v.version - 1 {only_places(places, "v.pi", store.dialect)} LIMIT {MOST}"""
    )
    return [
        Violation(
            "history_forked", f"batch_versions/{row['pi']}",
            f"version {row['version']} does not descend from version {row['before']}",
            "read both versions and those between them in the content store, and publish what one of them lacks again",
        )
        for row in rows
        if not await descends(content, row["previous"], Version(row["tip"], row["before"]))
    ]  # fmt: skip


async def _check_chunks(store: Store, places: Sequence[str] | None) -> list[Violation]:
    """A chunk that is done has no open ref."""
    rows = await store.database.fetch(
        f"""SELECT c.id FROM {tables.CHUNKS} AS c WHERE c.phase = '{ChunkPhase.DONE}' AND EXISTS
  (SELECT 1 FROM {tables.REFS} AS r WHERE r.chunk = c.id AND r.status IN ({quote_list(OPEN_REFS)}))
  {only_places(places, "c.id", store.dialect)} LIMIT {MOST}"""
    )
    return [
        Violation("refs_open", f"batch-publishing/{row['id']}", "the chunk is done, but some of its refs are open",
                  "set its `phase` to PROCESSING and its `report` to due: it is published again when they have ended")
        for row in rows
    ]  # fmt: skip


async def _check_content(
    store: Store, content: ContentStore, count: int | None, places: Sequence[str] | None
) -> list[Violation]:
    """The files of published refs are there and have the bytes of their CIDs."""
    limit = f"ORDER BY random() LIMIT {count}" if count is not None and places is None else "ORDER BY r.id"
    rows = await store.database.fetch(
        f"""SELECT r.id, r.result_cid FROM {tables.REFS} AS r WHERE r.result_cid IS NOT NULL
  {only_places(places, "r.id", store.dialect)} {limit}"""
    )
    found = []
    for row in rows:
        try:
            await content.get(row["result_cid"])
        except ContentMissing as error:
            found.append(
                Violation(
                    "content_lost",
                    f"batch-refs/{row['id']}",
                    str(error),
                    "restore it from a backup, or store the ref's file of the staging store under this CID again",
                )
            )
    return found
