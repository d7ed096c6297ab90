"""Periodic tasks run beside the work of a worker, and cannot stop it."""

from __future__ import annotations

import asyncio

from tabellion import Environment, Store, Worker
from tabellion.engine.periodic import Emit, PeriodicTask
from tests.engine.made_tables import rows, tasks
from tests.workers import EventRecorder


def test_a_task_that_fails_stops_neither_others_nor_work(url: str) -> None:
    """Each failure is an event; a task emits events of its own."""
    heard = EventRecorder()
    seen: list[Store] = []

    async def work(store: Store, emit: Emit) -> None:
        seen.append(store)
        emit("sla_breached", note="queues.tasks.oldest is breached")

    async def fail(store: Store, emit: Emit) -> None:
        raise KeyError("mistyped")

    async def story() -> None:
        async with Store(url) as store:
            queue = await tasks(store, 3)
        queue.handler(lambda job: {})
        given = [PeriodicTask("sound", 0.05, work), PeriodicTask("broken", 0.05, fail)]
        worker = Worker([Environment("here", url)], [queue], listeners=[heard], tasks=lambda _: given)
        serving = asyncio.create_task(worker.serve())
        async with asyncio.timeout(20):
            while not (len(seen) > 1 and len(heard.of("task_failed")) > 1 and len(heard.of("done")) == 3):
                await asyncio.sleep(0.01)
        worker.stop()
        await serving
        async with Store(url) as store:
            assert {row["status"] for row in await rows(store, "tasks")} == {"done"}

    asyncio.run(story())
    assert {(one.note, one.error) for one in heard.of("task_failed")} == {("broken", "KeyError: 'mistyped'")}
    assert heard.of("sla_breached")[0].environment == "here"
    assert not heard.of("environment_down")
