"""What `tabellion verify` checks of websites: analyses of jobs, and files."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.engine.store import Store
from tabellion.monitor.verify import MOST, Violation, confirm, only_places, sample_rows
from tabellion.pipelines.websites import tables
from tabellion.pipelines.websites.retention import FILES
from tabellion.pipelines.websites.states import ENDED
from tabellion.storage.blobs import Blobs


async def verify_websites(store: Store, blobs: Blobs, *, files: int | None = 0) -> list[Violation]:
    """Everything that is wrong with the website jobs of a database, and with `files` of their files (None: all)."""
    found = await confirm(lambda places: _check_analyses(store, places))
    if files != 0:
        found += await confirm(lambda places: _check_files(store, blobs, files, places))
    return found


async def _check_analyses(store: Store, places: Sequence[str] | None) -> list[Violation]:
    rows = await store.database.fetch(
        f"""SELECT a.id, a.job_id FROM {tables.ANALYSES} AS a
WHERE NOT EXISTS (SELECT 1 FROM {tables.JOBS} AS j WHERE j.id = a.job_id)
{only_places(places, "a.id", store.dialect)} LIMIT {MOST}"""
    )
    return [
        Violation(
            "job_lost", f"website-models/{row['id']}", f"its job {row['job_id']} does not exist",
            f"DELETE FROM {tables.ANALYSES} WHERE id = '{row['id']}';",
        )
        for row in rows
    ]  # fmt: skip


async def _check_files(store: Store, blobs: Blobs, count: int | None, places: Sequence[str] | None) -> list[Violation]:
    """Compares the files of jobs that have ended with their hashes."""
    found: list[Violation] = []
    statuses = ", ".join(f"'{status.value}'" for status in ENDED)
    query = f"""SELECT t.id, {", ".join(FILES)} FROM {tables.JOBS} AS t
WHERE t.id > $1 AND t.status IN ({statuses})"""
    async for row in sample_rows(store, query, "t.id", count, places):
        for sha256 in sorted({row[name] for name in FILES if row[name] is not None}):
            if wrong := await blobs.compare(sha256):
                fix = f"submit its website again, or restore the file from a backup; the job is {row['id']}"
                found.append(Violation("file_damaged", f"website-analysis/{row['id']}", wrong, fix))
    return found
