"""The retention of webhook deliveries: those that were accepted long ago; the others stay until somebody decides."""

from __future__ import annotations

from tabellion.delivery import deliveries
from tabellion.engine.retention import PruneStep, RetentionRule
from tabellion.engine.store import Store
from tabellion.engine.tables.table_walk import prune_window


class DeliveriesRule(RetentionRule):
    """Deliveries that were accepted more than `keep` seconds ago."""

    name = "deliveries"

    def __init__(self, keep: float | None) -> None:
        self.keep = keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Removes the accepted deliveries of one window."""
        if not await deliveries.exist(store):
            return PruneStep()
        condition = f"t.status = 'delivered' AND t.finished_at < {self.cutoff(store.dialect)}"
        return await prune_window(store, deliveries.TABLE, position, condition, "t.finished_at", dry_run=dry_run)
