"""The retention of website jobs: their rows, the analyses of their models, and files that no other job has."""

from __future__ import annotations

import json

from tabellion.engine import memo, retention, sql
from tabellion.engine.failpoints import failpoint
from tabellion.engine.moves import Numbered
from tabellion.engine.retention import PruneStep, RetentionRule
from tabellion.engine.sql import NOW, bind
from tabellion.engine.store import Store
from tabellion.engine.tables.table_walk import next_window
from tabellion.pipelines.websites import tables
from tabellion.pipelines.websites.states import ENDED
from tabellion.storage.blobs import Blobs

FILES = ("info_file", "screenshot_file", "favicon_file", "prompts_file")  #: columns with hashes
GRACE = 3600.0  #: seconds that a file without a job is kept: a job that is under way may have stored it again


class JobsRule(RetentionRule):
    """Jobs that ended more than `keep` seconds ago."""

    name = "websites"

    def __init__(self, blobs: Blobs, keep: float | None) -> None:
        self._blobs, self.keep = blobs, keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Deletes the old jobs of one window, each in a transaction, then their files."""
        if await store.table(tables.JOBS) is None:
            return PruneStep()
        d = store.dialect
        window, next_position = await next_window(store.database, tables.JOBS, position)
        statuses = ", ".join(f"'{status.value}'" for status in ENDED)
        condition = (
            f't.status IN ({statuses}) AND t."inProgress" = {sql.literal(False, d)} AND t.updated_at < {self.cutoff(d)}'
        )
        rows = await store.database.fetch(
            f"""SELECT t.id, {sql.epoch(NOW, d)} - {sql.epoch("t.updated_at", d)} AS age FROM {tables.JOBS} AS t
WHERE {window} AND {condition}"""
        )
        removed = len(rows)
        if not dry_run:
            removed = sum([await self._delete(store, row["id"], condition) for row in rows])
        return PruneStep(next_position, removed, max((row["age"] for row in rows), default=None))

    async def clear(self, store: Store, detail: str) -> bool:
        """Removes files that no job has; False: some arrived a moment ago, and a job may be about to have them."""
        hashes = json.loads(detail)
        for sha256 in hashes:
            await self._blobs.remove(sha256, older=GRACE, needed=lambda sha256=sha256: _is_needed(store, sha256))  # type: ignore[misc]
            failpoint("prune.mid_files")
        return all([not await self._blobs.has(sha256) or await _is_needed(store, sha256) for sha256 in hashes])

    async def _delete(self, store: Store, job: str, condition: str) -> int:
        failpoint("prune.pre_commit")
        rows = await store.database.fetch(f"SELECT {', '.join(FILES)} FROM {tables.JOBS} WHERE id = $1", job)
        if not rows:
            return 0
        hashes = sorted({rows[0][name] for name in FILES if rows[0][name] is not None})
        leftover, text, values = retention.leave(self.name, json.dumps(hashes), store.dialect)
        statements: list[Numbered] = [
            (f"DELETE FROM {tables.JOBS} AS t WHERE t.id = $1 AND {condition} RETURNING id", [job]),
            bind(*memo.forget_rows(f"SELECT a.id FROM {tables.ANALYSES} AS a WHERE a.job_id = :job", job=job)),
            (f"DELETE FROM {tables.ANALYSES} WHERE job_id = $1", [job]),
            bind(*memo.forget_row(job)),
            bind(text, values),
        ]
        if not await store.database.transact(statements, guarded=True):
            return 0
        failpoint("prune.post_commit")
        if await self.clear(store, json.dumps(hashes)):
            await retention.forget(store, [leftover])
        return 1


async def _is_needed(store: Store, sha256: str) -> bool:
    """Whether a job has this file."""
    columns = " OR ".join(f"{name} = $1" for name in FILES)
    return bool(await store.database.fetch(f"SELECT 1 AS one FROM {tables.JOBS} WHERE {columns} LIMIT 1", sha256))
