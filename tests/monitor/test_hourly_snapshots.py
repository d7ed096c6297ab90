"""Hourly snapshots: one per hour and queue, whoever takes them, and none that is invented."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tabellion import Store
from tabellion.engine import counts, failpoints
from tabellion.engine.counts import HOUR
from tabellion.errors import Unreachable
from tabellion.monitor import counting, hourly_snapshots
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.counting import QueueCounts
from tabellion.monitor.hourly_snapshots import SETTLING, read_snapshots, take_snapshots
from tabellion.monitor.sla.alerts import APART
from tabellion.monitor.view import QueueView
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, tasks, tasks_queue
from tests.monitor.settled import settle


async def all_rows(store: Store) -> list[dict[str, Any]]:
    """Return the table as dicts, without the times of taking."""
    rows = await store.database.fetch("SELECT * FROM tabellion_snapshots ORDER BY at, queue")
    return [{name: row[name] for name in row.keys() if name != "taken_at"} for row in rows]  # noqa: SIM118


@asynchronous
async def test_a_snapshot_has_the_states_now_and_the_work_of_the_hour_before(store: Store, clock: Clock) -> None:
    """It is taken once an hour, with the values of targets."""
    queue = await tasks(store, 5)
    hour = int(clock.at)
    clock.at = hour - 10.0
    await settle(store, queue, cost=0.25)
    await settle(store, queue, "failed", error="broken")
    await settle(store, queue, "retried", error="soon", after=7200.0)
    clock.at = hour + SETTLING
    await settle(store, queue)
    views = [QueueView(queue)]
    assert await take_snapshots(store, views, {"tasks": {"queues.tasks.failed": 0.5}}) == 1
    assert await take_snapshots(store, views, {}) == 0
    [row] = await all_rows(store)
    oldest = row.pop("oldest_seconds")
    assert oldest is None or oldest >= 0
    assert row == {
        "at": hour, "queue": "tasks", "ready": 2, "waiting": 1, "running": 0, "done": 2, "failed": 1, "hour_done": 1,
        "hour_failed": 1, "hour_retried": 1, "hour_cost": 0.25, "sla": json.dumps({"queues.tasks.failed": 0.5}),
    }  # fmt: skip
    clock.at += HOUR
    assert await take_snapshots(store, views, {}) == 1
    assert [(one["at"], one["hour_done"]) for one in await read_snapshots(store, hour)] == [(hour, 1), (hour + HOUR, 1)]


@asynchronous
async def test_the_first_seconds_of_an_hour_belong_to_settlements(store: Store, clock: Clock) -> None:
    """What was settled at its end may not be committed yet."""
    queue = await tasks(store, 1)
    clock.at += SETTLING - 1
    assert await take_snapshots(store, [QueueView(queue)], {}) == 0
    clock.at += 1
    assert await take_snapshots(store, [QueueView(queue)], {}) == 1


@asynchronous
async def test_hours_without_a_worker(store: Store, clock: Clock) -> None:
    """They have no row; what was settled just before is kept, without states; also once its minutes are added up."""
    queue = await tasks(store, 3)
    hour = int(clock.at)
    clock.at = hour + 2400.0
    await settle(store, queue)
    clock.at = hour + 6 * HOUR + 100
    await counts.roll_up(store.database)
    assert await take_snapshots(store, [QueueView(queue)], {}) == 1
    rows = await all_rows(store)
    assert [(row["at"] - hour, row["ready"], row["hour_done"]) for row in rows] == [(HOUR, None, 1), (6 * HOUR, 2, 0)]


@asynchronous
async def test_workers_that_look_at_the_same_time(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each queue is counted by one of them, while it counts, and there is one row."""
    counted = []

    async def count(store: Store, view: QueueView, pace: AnswerCache) -> QueueCounts:
        counted.append(view.name)
        await asyncio.sleep(0.05)
        return await counting.counts(store, view, pace)

    monkeypatch.setattr(hourly_snapshots, "count_queue", count)
    queues = [await tasks(store, 2), tasks_queue(name="others", ready="a", running="b", done="c", failed="d")]
    clock.at += 60
    others = [Store(store.url, clock=clock, durable=False) for _ in range(3)]
    try:
        views = [QueueView(queue) for queue in queues]
        taken = await asyncio.gather(*(take_snapshots(one, views, {}) for one in (store, *others)))
    finally:
        for other in others:
            await other.close()
    assert sum(taken) == len(await all_rows(store)) == 2
    assert sorted(counted) == ["others", "tasks"]


@asynchronous
async def test_a_worker_that_dies_before_it_commits(store: Store, clock: Clock) -> None:
    """Another one takes the snapshot, as soon as its turn has ended."""
    queue = await tasks(store, 1)
    clock.at += 60
    failpoints.arm("snapshot.pre_commit:raise")
    try:
        with pytest.raises(Unreachable):
            await take_snapshots(store, [QueueView(queue)], {})
    finally:
        failpoints.arm("")
    assert await all_rows(store) == []
    assert await take_snapshots(store, [QueueView(queue)], {}) == 0
    clock.advance(APART)
    assert await take_snapshots(store, [QueueView(queue)], {}) == 1


@asynchronous
async def test_a_queue_whose_table_is_elsewhere(store: Store, clock: Clock) -> None:
    """It has no snapshots here, and does not keep others from theirs."""
    queue, elsewhere = await tasks(store, 1), tasks_queue(name="elsewhere")
    elsewhere.table = "nowhere"
    clock.at += 60
    assert await take_snapshots(store, [QueueView(elsewhere), QueueView(queue)], {}) == 1
    assert [row["queue"] for row in await all_rows(store)] == ["tasks"]
