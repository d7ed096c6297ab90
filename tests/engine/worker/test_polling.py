"""What is polled next: environments and queues in list order, stages that meet, wake-ups, pauses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tabellion import Environment, Job, Queue, Store, Worker
from tabellion.engine import controls
from tabellion.engine.events import Listeners
from tabellion.engine.worker import polling as rounds
from tabellion.engine.worker.dispatcher import Dispatcher
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.engine.worker.runner import Run, Runner
from tabellion.engine.worker.slots import Lane, Slots
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import EventRecorder, ask, drain, make_worker, working

pytestmark = pytest.mark.usefixtures("often")


def test_environments_and_queues_are_polled_in_list_order(
    url: str, owner: Owner, second: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one slot, the first environment's first queue is emptied, then its second, then the next environment."""
    monkeypatch.setattr(
        "tabellion.engine.worker.polling.PATIENCE", 60.0
    )  # a database that is slow to answer loses its turn
    for one in (owner, second):
        one("CREATE TABLE scans AS SELECT * FROM jobs")
        one("CREATE UNIQUE INDEX scans_key ON scans (id)")
        one.insert(1, 2)
        one("INSERT INTO scans (id, status, attempts) VALUES (1, 'new', 0), (2, 'new', 0)")
    order: list[tuple[str, str, int]] = []
    jobs = jobs_queue()
    scans = Queue("scans", key="id", ready="new", running="running", done="done", failed="failed")

    async def work(job: Job) -> None:
        order.append((job.environment, job.queue.name, job.key))

    jobs.handler(work)
    scans.handler(work)
    environments = [Environment("prod", url), Environment("dev", second.url)]
    drain(Worker(environments, [jobs, scans], concurrency=1, poll=0.05))
    assert order == [(place, queue, key) for place in ("prod", "dev") for queue in ("jobs", "scans") for key in (1, 2)]


BACKLOG = 2000


@pytest.mark.parametrize("notified", [False, True], ids=["unnotified", "notified"])
@pytest.mark.parametrize("lanes", ["queues", "environments", "shares", "due retry", "quick jobs"])
def test_an_earlier_queue_is_polled_while_a_later_one_is_busy(
    url: str, owner: Owner, second: Owner, lanes: str, notified: bool
) -> None:
    """A row of an earlier queue or environment starts before the backlog of a later one is done."""
    share = 1.0 if lanes == "shares" else None
    queues = [jobs_queue("urgent", share=share), Queue(
        "bulk", ready="new", running="running", done="done", failed="failed", share=share)]  # fmt: skip
    places = [Environment("prod", url), Environment("dev", second.url)]
    started: list[str] = []
    inserted = threading.Event()

    async def work(job: Job) -> None:
        if job.queue.name == "bulk":
            started.append("bulk")
            # The insert waits for the file's lock, perhaps until the backlog is done.
            while len(started) > 100 and not inserted.is_set():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.001 if lanes == "quick jobs" else 0.01)
        elif lanes == "due retry" and job.attempt == 1:
            raise ValueError("not yet")
        else:
            started.append("urgent")

    for queue in queues:
        queue.handler(work)
    for one in (owner, second):
        one("CREATE TABLE bulk (id integer PRIMARY KEY, status text NOT NULL DEFAULT 'new')")
    busy = second if lanes == "environments" else owner
    backlog = BACKLOG * 4 if lanes == "quick jobs" else BACKLOG
    busy(f"INSERT INTO bulk (id) VALUES {', '.join(f'({number})' for number in range(backlog))}")
    with working(Worker(places, queues, concurrency=20, poll=0.1)):
        eventually(lambda: len(started) > 100)
        if notified:
            ask(url, lambda store: store.add(queues[0], id=1))
        else:
            owner.insert(1)
        inserted.set()
        eventually(lambda: "urgent" in started)
    assert started.index("urgent") < backlog


def test_a_row_passes_two_stages_without_waiting_for_a_poll(url: str, owner: Owner) -> None:
    """One queue's done is the next one's ready: the same worker takes the row through both at once."""
    owner(
        """CREATE TABLE extraction_queue (id integer PRIMARY KEY, status_id integer NOT NULL,
  file text, ocr_text text)"""
    )
    owner("INSERT INTO extraction_queue (id, status_id) VALUES (1, 1), (2, 1), (3, 1)")
    extraction = Queue("extraction_queue", name="extraction", status="status_id", ready=1, running=2, done=3, failed=4)
    ocr = Queue("extraction_queue", name="ocr", status="status_id", ready=3, running=6, done=5, failed=4)

    @extraction.handler
    async def fetch(job: Job) -> dict[str, Any]:
        return {"file": f"{job.key}.pdf"}

    @ocr.handler
    async def read(job: Job) -> dict[str, Any]:
        return {"ocr_text": f"text of {job['file']}"}

    with working(make_worker(url, extraction, ocr, poll=600.0)):
        eventually(lambda: owner("SELECT count(*) AS n FROM extraction_queue WHERE status_id = 5")[0]["n"] == 3)
    rows = owner("SELECT ocr_text FROM extraction_queue ORDER BY id")
    assert [row["ocr_text"] for row in rows] == ["text of 1.pdf", "text of 2.pdf", "text of 3.pdf"]


def test_new_rows_wake_an_idle_worker(url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows added through the store are claimed without waiting for a poll."""
    queue = jobs_queue()
    looks: list[list[Job]] = []
    right = Store.claim

    async def claim(store: Store, *given: Any, **options: Any) -> list[Job]:
        found = await right(store, *given, **options)
        looks.append(found)
        return found

    monkeypatch.setattr(Store, "claim", claim)

    @queue.handler
    async def work(job: Job) -> None:
        pass

    with working(make_worker(url, queue, poll=600.0)):
        eventually(lambda: looks)
        assert looks[0] == []
        ask(url, lambda store: store.add(queue, id=1))
        eventually(lambda: owner.status(1) == "done")


def test_pause_and_resume(url: str, owner: Owner) -> None:
    """A paused queue starts nothing new, lets running jobs end, and continues when resumed."""
    queue = jobs_queue()
    started: list[int] = []
    go = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        started.append(job.key)
        while job.key == 1 and not go.is_set():
            await asyncio.sleep(0.01)

    owner.insert(1)
    with working(make_worker(url, queue)):
        eventually(lambda: started == [1])
        ask(url, lambda store: controls.pause(store, queue, "maintenance"))
        owner.insert(2)
        go.set()
        eventually(lambda: owner.status(1) == "done")
        assert owner.status(2) == "new"
        ask(url, lambda store: controls.resume(store, queue))
        eventually(lambda: owner.status(2) == "done")
    assert started == [1, 2]


def test_a_refused_claim_pauses_only_its_queue(pg_url: str) -> None:
    """A state that a later CHECK forbids is reported; the environment stays up and the other queue continues."""
    with owning(pg_url) as owner:
        owner("CREATE TABLE strict (id integer PRIMARY KEY, status text)")
        owner.insert(1)
        strict = Queue("strict", ready="new", running="busy", done="done", failed="failed")
        jobs = jobs_queue()
        for queue in (strict, jobs):
            queue.handler(_nothing)
        recorder = EventRecorder()
        with working(Worker([Environment("one", pg_url)], [strict, jobs], poll=0.05, listeners=[recorder])):
            eventually(lambda: owner.status(1) == "done")
            owner("ALTER TABLE strict ADD CHECK (status IN ('new', 'done', 'failed'))")
            owner("INSERT INTO strict SELECT n, 'new' FROM generate_series(1, 9) AS n")
            eventually(lambda: "claim_refused" in recorder.names)
            owner.insert(2)
            eventually(lambda: owner.status(2) == "done")
        assert recorder.names.count("claim_refused") == 1
        assert "environment_down" not in recorder.names


@pytest.mark.parametrize("begun", [0, 3])
def test_jobs_claimed_ahead_that_would_not_start_soon_are_released(begun: int) -> None:
    """At each poll, as many jobs claimed ahead are kept as have started since the last one."""
    queue = jobs_queue()
    lane = Lane(WorkerEnvironment.__new__(WorkerEnvironment), queue, begun=begun)
    slots = Slots(10, [lane])
    given_back: list[int] = []

    class GivenBack(Dispatcher):
        def release(self, lane: Lane, jobs: Sequence[Job]) -> None:
            given_back.extend(job.key for job in jobs)

    runs = [Run(Job(queue, key, str(key), {}, n=1, token=str(key), attempt=1, worker="w")) for key in range(10)]
    for run in runs:
        run.claimed_at -= rounds.LONGEST_AHEAD + 1
    slots.wait(lane, runs)

    async def look() -> None:
        dispatcher = GivenBack(WorkerRecord("w", "host", 1, "boot", "1", "jobs", 10), Listeners(), [queue])
        dispatcher.slots = slots
        dispatcher.runner = Runner(asyncio.get_running_loop(), dispatcher.report)
        one = rounds.Poller(1.0, dispatcher)
        one._look_again_when_due()
        one._look_again_when_due()  # not due yet

    asyncio.run(look())
    assert given_back == list(range(9, begun - 1, -1))
    assert lane.begun == 0


async def _nothing(job: Job) -> None:
    """A handler that does nothing."""
