"""The retention of hourly snapshots."""

from __future__ import annotations

from tabellion import Store
from tabellion.engine.counts import HOUR
from tabellion.engine.retention import SOME, PruneStep
from tabellion.monitor.snapshots_retention import SnapshotsRule
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous

DAY = 24 * HOUR


@asynchronous
async def test_old_hours_are_removed_some_at_a_time(store: Store, clock: Clock) -> None:
    """Those that began before the time they are kept; a dry run counts them."""
    await store.open()
    hour, count = int(clock.at), SOME + 20
    insert = """INSERT INTO tabellion_snapshots (at, queue, hour_done, hour_failed, hour_retried, hour_cost)
VALUES ($1, $2, 0, 0, 0, 0)"""
    await store.database.transact(
        [(insert, (hour - 2 * DAY - number * HOUR, "tasks")) for number in range(count)] + [(insert, (hour, "tasks"))]
    )
    rule = SnapshotsRule(float(DAY))
    assert await rule.step(store, None, dry_run=True) == PruneStep(None, count, (count - 1) * HOUR + 2.0 * DAY)
    first = await rule.step(store, None)
    assert first.position is not None
    assert SOME <= first.removed < count
    assert (await rule.step(store, first.position)).removed == count - first.removed
    assert [row["at"] for row in await store.database.fetch("SELECT at FROM tabellion_snapshots")] == [hour]
    assert await rule.step(store, None) == PruneStep()
