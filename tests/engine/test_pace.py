"""The pace of a queue: never more jobs in a period than it allows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion import Job, Queue, Store
from tabellion.engine.pace import PaceKeeper
from tabellion.errors import DeclarationError
from tests.workers import EventRecorder, make_worker


def test_room_is_what_every_period_allows() -> None:
    """Three in five seconds, and ten in a minute."""
    keeper = PaceKeeper([(3, 5.0), (10, 60.0)])
    taken = []
    for second in range(120):
        n = keeper.room(float(second))
        keeper.take(n, float(second))
        taken += [second] * n
    assert taken[:10] == [0, 0, 0, 5, 5, 5, 10, 10, 10, 15]
    assert taken[10:13] == [60, 60, 60]
    assert len(taken) == 20


def test_a_pace_of_nothing_is_refused() -> None:
    """As every number of a declaration must be above zero."""
    with pytest.raises(DeclarationError, match="pace=0 must be above zero"):
        Queue("work", ready=1, running=2, done=3, failed=4, pace=[(0, 5.0)])


def test_a_worker_keeps_the_pace_of_a_queue(tmp_path: Path) -> None:
    """Two jobs in half a second, though a hundred slots are free; each scan and the health are in its log."""
    url = f"sqlite:///{tmp_path}/work.db"
    queue = Queue(
        "work", key="id", ready="new", running="busy", done="done", failed="failed", pace=[(2, 0.5)], health=0.2
    )
    started: list[int] = []

    @queue.handler
    async def work(job: Job) -> dict[str, str]:
        started.append(job.key)
        await asyncio.sleep(0)
        return {}

    async def fill() -> None:
        async with Store(url) as store:
            await store.database.fetch("CREATE TABLE work (id integer PRIMARY KEY, status text)")
            await store.add_many(queue, [{"id": number} for number in range(6)])

    asyncio.run(fill())
    diary = EventRecorder()
    make_worker(url, queue, listeners=[diary]).run(until_idle=True)
    assert sorted(started) == list(range(6))
    assert [event.note for event in diary.of("queue_scanned")] == ["2 of at most 2 jobs"] * 3
    health = [event.note or "" for event in diary.of("queue_health")]
    assert any("2 done" in note and "0 error" in note for note in health)
