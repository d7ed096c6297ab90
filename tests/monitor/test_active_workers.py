"""The active workers of all environments."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tabellion import Queue, Store
from tabellion.engine.timestamps import iso
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.messages import Message
from tabellion.monitor.active_workers import ActiveWorker, active_workers
from tabellion.monitor.workers import workers
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, run, tasks, tasks_queue


def seen(found: Sequence[ActiveWorker]) -> list[tuple[str, str | None, str | None, int, str | None, bool]]:
    return [
        (one["environment"], one["worker"], one["queue"], one["jobs"], one["note"], one["registered"]) for one in found
    ]


def member(name: str) -> WorkerRecord:
    return WorkerRecord(name, "host", 1, f"boot of {name}", "0.1", "tasks", 4)


@asynchronous
async def test_each_worker_with_its_jobs_and_its_note(store: Store, clock: Clock) -> None:
    """Number of jobs, the oldest and the newest claim, and the last note; idle ones come last."""
    queue = await tasks(store, 4)
    for name in ("w1", "w2"):
        await roster.enlist(store, member(name))
    began = clock.at
    [first] = await store.claim(queue, 1, "w1")
    clock.advance(10)
    await store.claim(queue, 1, "w1")
    first.note("page 12 of 40")
    await store.renew([first])
    await run(store, "UPDATE tasks SET status = 'working', worker = 'old-worker', started_at = NULL WHERE id = 4")
    found, problems = await active_workers([("prod", store)], [queue])
    assert problems == {}
    assert seen(found) == [
        ("prod", "w1", "tasks", 2, "page 12 of 40", True),
        ("prod", "old-worker", "tasks", 1, None, False),
        ("prod", "w2", None, 0, None, True),
    ]
    assert (found[0]["oldest_at"], found[0]["newest_at"], found[0]["key"]) == (iso(began), iso(began + 10), "1")
    [w1, w2] = sorted(await workers(store), key=lambda one: one["id"])
    assert [(one["queue"], one["jobs"], one["note"]) for one in w1["holds"]] == [("tasks", 2, "page 12 of 40")]
    assert w2["holds"] == []
    assert (found[0]["translatable"], w1["holds"][0]["translatable"]) == (None, None)
    first.note(Message("progress.page", n=13, total=40))
    await store.renew([first])
    form = {"note": {"code": "progress.page", "params": {"n": 13, "total": 40}}}
    found, _ = await active_workers([("prod", store)], [queue])
    [w1, _] = sorted(await workers(store), key=lambda one: one["id"])
    assert (found[0]["translatable"], w1["holds"][0]["translatable"]) == (form, form)


@asynchronous
async def test_an_unreachable_environment_hides_no_other(store: Store) -> None:
    """Nor does one without the table; the order is kept, and those without an answer are listed separately."""
    queue = await tasks(store, 1)
    await store.claim(queue, 1, "w1")
    away = Store("postgresql://postgres@127.0.0.1:9/nothing")
    missing = Queue("missing", ready=1, running=2, done=3, failed=4)
    found, problems = await active_workers([("away", away), ("prod", store)], [missing, queue])
    assert seen(found) == [("prod", "w1", "tasks", 1, None, True)]
    assert list(problems) == ["away"]


def test_a_database_without_a_register_has_no_workers(sqlite_url: str) -> None:
    """It is queried, and nothing is created in it."""

    async def story() -> None:
        store = Store(sqlite_url, read_only=True)
        try:
            assert await active_workers([("prod", store)], [tasks_queue()]) == ([], {})
        finally:
            await store.close()

    owner = Store(sqlite_url)

    async def make() -> None:
        await owner.database.open()
        await owner.close()

    asyncio.run(make())
    asyncio.run(story())
