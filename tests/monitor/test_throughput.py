"""Settled jobs per minute, hour and day."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine.counts import HOUR, MINUTE
from tabellion.monitor.snapshot import waiting
from tabellion.monitor.throughput import Tally, Throughput, line
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, tasks, tasks_queue
from tests.monitor.settled import fail, settle


@asynchronous
async def test_a_query_counts_the_minute_the_hour_and_the_day(store: Store, clock: Clock) -> None:
    """Each settlement is in the period in which it happened, with its cost."""
    queue = await tasks(store, 10)
    began = clock.at
    await settle(store, queue, cost=0.5)
    clock.advance(3 * HOUR)
    await settle(store, queue, cost=0.25)
    await fail(store, queue, "bad")
    clock.advance(5 * MINUTE)
    await settle(store, queue, "retried", error="worse", after=10.0)
    await settle(store, queue, "released")
    seen = Throughput(store)
    await seen.look()
    minutes, hours, days = line(seen.minutes()), line(seen.hours()), line(seen.days())
    assert (len(minutes), len(hours), len(days)) == (60, 24, 30)
    assert minutes[-1] == Tally(retried=1)
    assert minutes[-6] == Tally(1, 1, 0, 0.25)
    assert hours[-1] == Tally(1, 1, 1, 0.25)
    assert hours[-4] == Tally(done=1, cost=0.5)
    assert days[-1] == Tally(2, 1, 1, 0.75)
    assert sum(one.done + one.failed + one.retried for one in [*minutes, *hours, *days]) == 3 + 4 + 4
    assert seen.hour()["tasks"] == Tally(1, 1, 1, 0.25)
    assert seen.hour()["tasks"].error_rate == pytest.approx(2 / 3)
    assert seen.first(HOUR, 24) == began - 20 * HOUR


@asynchronous
async def test_later_queries_add_what_is_new(store: Store, clock: Clock) -> None:
    """However often it is queried, each settlement counts once; old ones drop out."""
    queue = await tasks(store, 200)
    seen = Throughput(store)
    for _ in range(100):
        await settle(store, queue, cost=0.125)
        await seen.look()
        await seen.look()
        clock.advance(7.0)
    await seen.look()
    fresh = Throughput(store)
    await fresh.look()
    for one in (seen, fresh):
        assert line(one.days())[-1].done == 100
        assert line(one.hours())[-1].done == 100
        assert sum(tally.done for tally in line(one.minutes())) == 100
        assert line(one.days())[-1].cost == 12.5
    assert line(seen.minutes()) == line(fresh.minutes())
    assert seen.recent_tallies(60)["tasks"].done == fresh.recent_tallies(60)["tasks"].done == 8
    clock.advance(59 * MINUTE)
    await seen.look()
    assert "tasks" not in seen.recent_tallies(60)
    assert 0 < sum(tally.done for tally in line(seen.minutes())) < 100
    clock.advance(25 * HOUR)
    await seen.look()
    assert sum(tally.done for tally in line(seen.hours())) == 0
    assert [tally.done for tally in line(seen.days())][-2:] == [100, 0]


@asynchronous
async def test_queues_are_counted_separately(store: Store, clock: Clock) -> None:
    """One line for each, and one for all together."""
    queue = await tasks(store, 2)
    other = tasks_queue(name="other", ready="parked", running="w2", done="d2", failed="f2")
    await store.add(other, id=10)
    await settle(store, queue)
    await settle(store, other)
    seen = Throughput(store)
    await seen.look()
    minutes = seen.minutes()
    assert [line(minutes, name)[-1].done for name in ("tasks", "other", "nobody", None)] == [1, 1, 0, 2]


@asynchronous
async def test_no_query_scans_the_history(store: Store) -> None:
    """Settled jobs are counted, and waiting ones have an index: attempts are never scanned."""
    await store.open()
    plans: list[str] = []
    ask = store.database.fetch
    begin = "EXPLAIN QUERY PLAN" if store.dialect == "sqlite" else "EXPLAIN"
    first = [("SET LOCAL enable_seqscan = off", ())] if store.dialect == "postgresql" else []  # all is small here

    async def fetch(text: str, *values: object) -> list[dict[str, object]]:
        if "tabellion_attempts" in text:
            plans.append(str(await store.database.transact([*first, (f"{begin} {text}", values)])))
        return await ask(text, *values)

    store.database.fetch = fetch  # type: ignore[method-assign]
    await Throughput(store).look()
    await waiting(store)
    [plan] = plans
    assert "tabellion_attempts_due" in plan
    if store.dialect == "postgresql":
        assert "Index Cond" in plan
