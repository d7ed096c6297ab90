"""What is measured of a queue: how long its oldest due row waits, and the share of its jobs that fail."""

from __future__ import annotations

import pytest

from tabellion import Queue, Store
from tabellion.errors import StoreError
from tabellion.monitor.sla.queue_targets import measure_failed, measure_oldest, queue_target
from tabellion.monitor.view import QueueView
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, run, tasks
from tests.monitor.settled import settle


async def aged_tasks(store: Store, clock: Clock, *ages: float) -> Queue:
    """Return a queue whose rows were created so many seconds ago."""
    await store.open()
    await run(store, "CREATE TABLE aged (id integer PRIMARY KEY, status text NOT NULL, created_at double precision)")
    queue = Queue("aged", ready="ready", running="running", done="done", failed="failed")
    await store.add_many(queue, [{"id": n, "created_at": clock.at - age} for n, age in enumerate(ages)])
    return queue


@asynchronous
async def test_the_oldest_row_that_is_due(store: Store, clock: Clock) -> None:
    """Rows that wait for their next try do not count, nor do running ones; without any it is 0."""
    queue = await aged_tasks(store, clock, 400.0, 300.0, 200.0)
    view = QueueView(queue)
    assert await measure_oldest(store, view) == pytest.approx(400.0)
    await settle(store, queue, "retried", error="later", after=60.0)
    assert await measure_oldest(store, view) == pytest.approx(300.0)
    [job] = await store.claim(queue, 1, "one")
    assert await measure_oldest(store, view) == pytest.approx(200.0)
    await store.finish(job)
    clock.at += 61
    assert await measure_oldest(store, view) == pytest.approx(461.0)
    for _ in range(2):
        await settle(store, queue)
    assert await measure_oldest(store, view) == 0.0


@asynchronous
async def test_a_table_without_a_time_cannot_be_measured(store: Store, clock: Clock) -> None:
    """The error says what is missing."""
    await store.open()
    await run(store, "CREATE TABLE plain (id integer PRIMARY KEY, status text NOT NULL)")
    queue = Queue("plain", ready="ready", running="running", done="done", failed="failed")
    with pytest.raises(StoreError, match="no column of plain has the time"):
        await measure_oldest(store, QueueView(queue))


@asynchronous
async def test_the_share_of_jobs_that_failed_in_the_last_hour(store: Store, clock: Clock) -> None:
    """Retries are no failures; jobs of other hours do not count; without jobs there is nothing to measure."""
    queue = await tasks(store, 6)
    view = QueueView(queue)
    assert await measure_failed(store, view) is None
    await settle(store, queue, "failed", error="old")
    clock.at += 3600
    assert await measure_failed(store, view) is None
    for _ in range(3):
        await settle(store, queue)
    await settle(store, queue, "failed", error="new")
    await settle(store, queue, "retried", error="again", after=5.0)
    assert await measure_failed(store, view) == pytest.approx(0.25)


@asynchronous
async def test_a_target_knows_its_limit(store: Store, clock: Clock) -> None:
    """At most the limit is kept; nothing to measure is, too."""
    queue = await aged_tasks(store, clock, 400.0)
    target = queue_target(QueueView(queue), "oldest", 400.0)
    assert target.name == "queues.aged.oldest"
    assert target.is_kept(await target.measure(store))
    clock.at += 1
    assert not target.is_kept(await target.measure(store))
    assert queue_target(QueueView(queue), "failed", 0.0).is_kept(None)
