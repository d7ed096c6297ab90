"""The workers of a database as shown to people."""

from __future__ import annotations

from tabellion import Store
from tabellion.engine.sql import NOW
from tabellion.engine.timestamps import iso
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.engine.worker_rows import ALIVE, STOPPED
from tabellion.monitor.workers import REMEMBERED, SHOWN, count_workers, workers
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous


def member(name: str) -> WorkerRecord:
    return WorkerRecord(name, "host", 1, f"boot of {name}", "0.1", "documents,webhooks", 4, busy=2, done=7)


@asynchronous
async def test_live_workers_are_shown_however_many_have_ended(store: Store, clock: Clock) -> None:
    """The list is limited; live ones come first, then those that ended last."""
    await store.open()
    await store.database.fetch(
        f"""WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {SHOWN})
INSERT INTO tabellion_workers (id, host, pid, boot, version, queues, slots, started_at, seen_at, stopped_at)
SELECT CAST(i AS text), 'host', i, CAST(i AS text), '0.1', 'jobs', 1, {NOW}, {NOW}, {NOW} FROM n"""
    )
    clock.advance(ALIVE + 1)
    for name in ("older", "newer"):
        await roster.enlist(store, member(name))
        clock.advance(1)
    await roster.beat(store, member("older"))
    found = [one["id"] for one in await workers(store)]
    assert found[:2] == ["older", "newer"]
    assert len(found) == SHOWN


@asynchronous
async def test_every_worker_is_counted(store: Store, clock: Clock) -> None:
    """More than are shown; live ones also by queue and with their slots."""
    await store.open()
    for first, queues, stopped in ((0, "jobs", "NULL"), (SHOWN, "jobs,mail", "NULL"), (2 * SHOWN, "jobs", NOW)):
        await store.database.fetch(
            f"""WITH RECURSIVE n AS (SELECT {first} AS i UNION ALL SELECT i + 1 FROM n WHERE i < {first + SHOWN - 1})
INSERT INTO tabellion_workers (id, host, pid, boot, version, queues, slots, busy, started_at, seen_at, stopped_at)
SELECT CAST(i AS text), 'host', i, CAST(i AS text), '0.1', '{queues}', 4, 1, {NOW}, {NOW}, {stopped} FROM n"""
        )
    assert len(await workers(store)) == SHOWN
    fleet, by_queue = await count_workers(store)
    assert fleet == {
        "alive": 2 * SHOWN,
        "stopped": SHOWN,
        "crashed": 0,
        "lost": 0,
        "slots": 8 * SHOWN,
        "busy": 2 * SHOWN,
    }
    assert by_queue == {"jobs": 2 * SHOWN, "mail": SHOWN}
    clock.advance(ALIVE + 1)
    fleet, by_queue = await count_workers(store)
    assert fleet == {"alive": 0, "stopped": SHOWN, "crashed": 0, "lost": 2 * SHOWN, "slots": 0, "busy": 0}
    assert by_queue == {}


@asynchronous
async def test_workers_that_crashed_are_counted_apart(store: Store) -> None:
    """Each of a loop of crashes, which the counters of its processes do not survive."""
    await store.open()
    for name, ending in (("a", "was killed by SIGKILL"), ("b", "ended with exit code 1"), ("c", STOPPED)):
        await roster.enlist(store, member(name))
        await roster.leave(store, name, ending)
    fleet, _ = await count_workers(store)
    assert (fleet["crashed"], fleet["stopped"], fleet["lost"]) == (2, 1, 0)


@asynchronous
async def test_workers_are_live_ended_or_lost(store: Store, clock: Clock) -> None:
    """Live ones first; one that is silent for a while is lost; after an hour it is left out."""
    began = clock.at
    await roster.enlist(store, member("silent"))
    await roster.enlist(store, member("ended"))
    await roster.leave(store, "ended", "was stopped")
    clock.advance(ALIVE + 1)
    await roster.enlist(store, member("busy"))
    await roster.beat(store, member("busy"))
    found = await workers(store)
    assert {one["id"]: one["state"] for one in found} == {"busy": "alive", "silent": "lost", "ended": "stopped"}
    assert found[0]["id"] == "busy"
    assert (found[0]["queues"], found[0]["busy"], found[0]["slots"]) == (["documents", "webhooks"], 2, 4)
    assert found[0]["seen_at"] == iso(clock.at)
    ended = next(one for one in found if one["id"] == "ended")
    assert (ended["ending"], ended["stopped_at"]) == ("was stopped", iso(began))
    clock.advance(REMEMBERED - ALIVE)
    assert [one["id"] for one in await workers(store)] == ["busy"]
