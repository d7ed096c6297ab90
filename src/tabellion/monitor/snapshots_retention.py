"""The retention of hourly snapshots."""

from __future__ import annotations

from tabellion.engine.retention import SOME, PruneStep, RetentionRule
from tabellion.engine.store import Store
from tabellion.monitor.hourly_snapshots import TABLE


class SnapshotsRule(RetentionRule):
    """Snapshots of hours that began more than `keep` seconds ago."""

    name = "snapshots"

    def __init__(self, keep: float | None) -> None:
        self.keep = keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Removes some of the oldest hours; the primary key begins with the hour, so nothing else is read."""
        assert self.keep is not None  # noqa: S101 - without it no step is taken
        now = await store.now()
        last = int(now - self.keep)
        if dry_run:
            rows = await store.database.fetch(f"SELECT at FROM {TABLE} WHERE at < $1", last)
        else:
            rows = await store.database.fetch(
                f"""DELETE FROM {TABLE} WHERE at < $1 AND at <= coalesce(
  (SELECT at FROM {TABLE} WHERE at < $1 ORDER BY at LIMIT 1 OFFSET {SOME}), $1) RETURNING at""",
                last,
            )
        more = not dry_run and len(rows) >= SOME
        return PruneStep("more" if more else None, len(rows), max((now - row["at"] for row in rows), default=None))
