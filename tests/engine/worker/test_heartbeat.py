"""Which workers are alive in a database, and how the others ended."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from tabellion import Store
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import KEPT, WorkerRecord
from tabellion.engine.worker_rows import ALIVE, read_workers
from tabellion.errors import ConfigurationError
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, tasks


def make_worker(name: str = "w1", boot: str = "boot-1", **facts: Any) -> WorkerRecord:
    """A worker record of a test."""
    return WorkerRecord(name, "host", 42, boot, "0.1.0", "tasks,other", 10, **facts)


@asynchronous
async def test_a_worker_is_alive_while_it_sends_heartbeats(store: Store, clock: Clock) -> None:
    """Registered and beating it is on the roster; after a long silence it is not, but its row stays."""
    one = make_worker()
    await roster.enlist(store, one)
    clock.advance(ALIVE - 1)
    one.busy, one.done, one.failed, one.retried = 3, 100, 2, 1
    await roster.beat(store, one)
    clock.advance(ALIVE - 1)
    [found] = await read_workers(store.database)
    assert (found["id"], found["host"], found["pid"], found["queues"], found["slots"]) == (
        "w1", "host", 42, "tasks,other", 10,
    )  # fmt: skip
    assert (found["busy"], found["done"], found["failed"], found["retried"]) == (3, 100, 2, 1)
    assert found["seen_ago"] == pytest.approx(ALIVE - 1)
    assert found["up_for"] == pytest.approx(2 * ALIVE - 2)
    clock.advance(2)
    assert await read_workers(store.database) == []
    assert len(await store.database.fetch("SELECT id FROM tabellion_workers")) == 1


@asynchronous
async def test_two_living_workers_cannot_share_an_id(store: Store, clock: Clock) -> None:
    """The second is refused with the holder's name; once the first is silent or has left, the id is free."""
    await roster.enlist(store, make_worker())
    with pytest.raises(ConfigurationError, match="worker id 'w1' is in use by process 42 on host"):
        await roster.enlist(store, make_worker(boot="boot-2"))
    await roster.enlist(store, make_worker())
    clock.advance(ALIVE + 1)
    await roster.enlist(store, make_worker(boot="boot-2"))
    await roster.leave(store, "w1", "stopped normally")
    await roster.enlist(store, make_worker(boot="boot-3"))
    assert len(await read_workers(store.database)) == 1


@asynchronous
async def test_a_beat_of_a_replaced_worker_changes_nothing(store: Store, clock: Clock) -> None:
    """Only the process registered last may use the id."""
    await roster.enlist(store, make_worker())
    clock.advance(ALIVE + 1)
    await roster.enlist(store, make_worker(boot="boot-2"))
    await roster.beat(store, make_worker(boot="boot-1", busy=9))
    assert (await read_workers(store.database))[0]["busy"] == 0


@asynchronous
async def test_a_worker_that_starts_again_counts_from_zero(store: Store, clock: Clock) -> None:
    """A new process with the same id is a new worker with its own counters and start."""
    await roster.enlist(store, make_worker(done=0))
    await roster.beat(store, make_worker(done=50))
    clock.advance(100)
    await roster.leave(store, "w1", "stopped normally")
    await roster.enlist(store, make_worker(boot="boot-2"))
    [found] = await read_workers(store.database)
    assert (found["done"], found["up_for"], found["ending"]) == (0, 0, None)


@asynchronous
async def test_leaving_is_recorded(store: Store) -> None:
    """How a worker ended stays as evidence."""
    await roster.enlist(store, make_worker(busy=1))
    await roster.leave(store, "w1", "stopped normally")
    assert await read_workers(store.database) == []
    [found] = await store.database.fetch("SELECT ending, busy FROM tabellion_workers")
    assert (found["ending"], found["busy"]) == ("stopped normally", 0)


@asynchronous
async def test_a_certain_crash_ends_its_leases_at_once(store: Store) -> None:
    """The claims of a process that was seen to die need not wait for their leases; others are untouched."""
    queue = await tasks(store, 2)
    await roster.enlist(store, make_worker("dead"))
    await claim_one(store, queue, "dead")
    kept = await claim_one(store, queue, "alive")
    assert await store.sweep(queue) == []
    await roster.leave(store, "dead", "was killed by signal 9", crashed=True)
    [swept] = await store.sweep(queue)
    assert swept.job.key == 1
    assert "was killed by signal 9" in (swept.error or "")
    assert await store.renew([kept]) == []


@asynchronous
async def test_a_process_number_of_another_container_proves_nothing(store: Store, clock: Clock) -> None:
    """Host names can be the same: such a worker, or one of an earlier version, counts as killed only once silent."""
    host, boot, free = socket.gethostname(), roster.make_boot(), 2**22 + 1
    for name, where, pid, at in (
        ("killed", host, free, boot), ("working", host, os.getppid(), boot), ("elsewhere", "other", free, boot),
        ("contained", host, free, f"{boot}0"), ("older", host, free, "boot"),
    ):  # fmt: skip
        await roster.enlist(store, WorkerRecord(name, where, pid, at, "0.1.0", "tasks", 1))
    assert await roster.find_killed(store) == ["killed"]
    clock.advance(ALIVE + 1)
    assert sorted(await roster.find_killed(store)) == ["contained", "killed", "older"]


@asynchronous
async def test_strays_are_claims_their_worker_does_not_know(store: Store, clock: Clock) -> None:
    """Live, its own, claimed since it started, and not running in it."""
    queue = await tasks(store, 5)
    old = await claim_one(store, queue)
    clock.advance(10)
    since = clock.at
    known, lost, settled = await store.claim(queue, 3, "w1")
    await store.finish(settled)
    await claim_one(store, queue, "w2")
    found = await roster.find_unknown_claims(store, "w1", since, {known.token})
    assert [(row["queue"], row["key"], row["n"], row["token"]) for row in found] == [
        ("tasks", lost.text_key, lost.n, lost.token)
    ]
    assert {row["token"] for row in await roster.find_unknown_claims(store, "w1", 0, set())} == {
        old.token,
        known.token,
        lost.token,
    }


@asynchronous
async def test_workers_gone_for_a_week_are_forgotten(store: Store, clock: Clock) -> None:
    """They leave the roster when another worker registers."""
    await roster.enlist(store, make_worker("old"))
    clock.advance(KEPT + 1)
    await roster.enlist(store, make_worker("new"))
    assert await store.database.fetch("SELECT id FROM tabellion_workers") == [{"id": "new"}]


@asynchronous
async def test_an_empty_roster(store: Store) -> None:
    """The roster is empty, also in a database without a register."""
    await store.open()
    assert await read_workers(store.database) == []
