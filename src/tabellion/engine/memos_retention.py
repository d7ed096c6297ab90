"""The retention of memos: answers that were paid for long ago, unless a job that has not ended may ask again."""

from __future__ import annotations

from tabellion.engine.moves import texts
from tabellion.engine.retention import PruneStep, RetentionRule
from tabellion.engine.settlement import CONTINUING
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.engine.tables.table_walk import prune_window


class MemosRule(RetentionRule):
    """Memos that were asked for more than `keep` seconds ago."""

    name = "memos"

    def __init__(self, keep: float | None) -> None:
        self.keep = keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Removes the old memos of one window."""
        return await prune_window(
            store, "tabellion_memos", position, self._condition(store.dialect), "t.asked_at", dry_run=dry_run
        )

    def _condition(self, dialect: Dialect) -> str:
        # A call is under way until its lease ends. A job that is not settled for good would pay again.
        return f"""t.asked_at < {self.cutoff(dialect)}
  AND (t.reply IS NOT NULL OR t.lease_until IS NULL OR t.lease_until < {NOW})
  AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = t.queue AND a.key = t.row_key
    AND (a.settled_at IS NULL OR a.outcome IN ({texts(CONTINUING)})) AND a.n = (
      SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = t.queue AND m.key = t.row_key))"""
