"""How many jobs run at once: per queue, per worker, in the whole fleet, and in fair shares."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from tabellion import Environment, Job, Queue, Store, Worker
from tabellion.engine import controls
from tabellion.engine.worker import polling as rounds
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.runner import Run
from tabellion.engine.worker.slots import Lane, Slots
from tests.table_owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.workers import Gauge, ask, drain, make_worker, working

pytestmark = pytest.mark.usefixtures("often")


def test_concurrency_is_never_exceeded(url: str, owner: Owner) -> None:
    """Neither a queue's `concurrency` nor the worker's is ever exceeded, and both are fully used."""
    owner("CREATE TABLE scans (id integer PRIMARY KEY, status text NOT NULL)")
    owner.insert(*range(1, 41))
    owner("INSERT INTO scans (id, status) VALUES " + ", ".join(f"({n}, 'new')" for n in range(1, 41)))
    gauge = Gauge()

    async def work(job: Job) -> None:
        with gauge.running("worker", job.queue.name):
            await asyncio.sleep(0.02)

    jobs = jobs_queue(concurrency=2)
    scans = Queue("scans", ready="new", running="running", done="done", failed="failed")
    jobs.handler(work)
    scans.handler(work)
    drain(make_worker(url, jobs, scans, concurrency=5))
    assert gauge.most["jobs"] == 2
    assert gauge.most["worker"] == 5
    assert gauge.most["scans"] >= 3


def test_plain_functions_run_concurrently_in_threads(url: str, owner: Owner) -> None:
    """`def` handlers run at the same time, each in a thread, and the loop stays free."""
    owner.insert(1, 2, 3)
    queue = jobs_queue(concurrency=3)
    together = threading.Barrier(3, timeout=20)

    @queue.handler
    def work(job: Job) -> dict[str, Any]:
        together.wait()
        return {"result": threading.current_thread().name}

    drain(make_worker(url, queue))
    assert owner.count("done") == 3
    assert len({owner.row(key)["result"] for key in (1, 2, 3)}) == 3


def test_a_thousand_jobs_at_once(url: str, owner: Owner) -> None:
    """A thousand waiting coroutines in one worker: each row handled once."""
    owner.insert(*range(1, 1001))
    queue = jobs_queue(lease=20.0)
    gauge = Gauge()
    ready = threading.Event()

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        with gauge.running("all"):
            if gauge.now["all"] == 1000:
                ready.set()
            while not ready.is_set():
                await asyncio.sleep(0.05)
            return {"result": json.dumps(job.key)}

    drain(make_worker(url, queue, concurrency=1000))
    assert owner.count("done") == 1000
    assert len(owner.attempts()) == 1000


def test_a_fleet_wide_limit_holds_across_workers(url: str, owner: Owner) -> None:
    """`limit=` bounds the running jobs of all workers together."""
    owner.insert(*range(1, 31))
    queue = jobs_queue(limit=3)
    gauge = Gauge()

    @queue.handler
    async def work(job: Job) -> None:
        with gauge.running("fleet"):
            await asyncio.sleep(0.02)

    with working(make_worker(url, queue), make_worker(url, queue)):
        eventually(lambda: owner.count("done") == 30)
    assert gauge.most["fleet"] == 3


def test_a_limit_set_at_run_time_holds_across_workers(url: str, owner: Owner) -> None:
    """All running workers obey it."""
    queue = jobs_queue()
    gauge = Gauge()

    @queue.handler
    async def work(job: Job) -> None:
        with gauge.running("fleet"):
            await asyncio.sleep(0.02)

    ask(url, lambda store: controls.limit(store, queue, 2))
    with working(make_worker(url, queue), make_worker(url, queue)):
        owner.insert(*range(1, 21))
        eventually(lambda: owner.count("done") == 20)
    assert gauge.most["fleet"] == 2


def test_a_limited_queue_does_not_wait_for_the_poll(url: str, owner: Owner) -> None:
    """When a job under a fleet-wide limit ends, its worker claims the next one at once."""
    owner.insert(*range(1, 6))
    queue = jobs_queue(limit=1)

    @queue.handler
    async def work(job: Job) -> None:
        pass

    with working(make_worker(url, queue, poll=600.0)):
        eventually(lambda: owner.count("done") == 5, within=8)


def test_shares_keep_a_busy_environment_from_starving_the_rest(
    url: str, owner: Owner, second: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `share=`, the second environment's jobs run while the first still has a backlog."""
    monkeypatch.setattr(rounds, "PATIENCE", 60.0)  # a database that is slow to answer loses its turn
    owner.insert(*range(1, 41))
    second.insert(1, 2)
    queue = jobs_queue()
    order: list[str] = []

    @queue.handler
    async def work(job: Job) -> None:
        order.append(job.environment)
        await asyncio.sleep(0.01)

    environments = [Environment("prod", url, share=3), Environment("dev", second.url, share=1)]
    drain(Worker(environments, [queue], concurrency=4, poll=0.05))
    assert len(order) == 42
    assert order.index("dev") < 30


def test_shares_alternate_where_there_is_one_slot(
    url: str, owner: Owner, second: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that runs one job at a time alternates between environments by their shares."""
    monkeypatch.setattr(rounds, "PATIENCE", 60.0)
    owner.insert(*range(1, 21))
    second.insert(*range(1, 11))
    queue = jobs_queue(concurrency=1)
    order: list[str] = []

    @queue.handler
    async def work(job: Job) -> None:
        order.append(job.environment)

    environments = [Environment("prod", url, share=2), Environment("dev", second.url, share=1)]
    drain(Worker(environments, [queue], concurrency=4, poll=0.05))
    assert len(order) == 30
    assert 3 <= order[:15].count("dev") <= 7


def test_shares_of_queues(url: str, owner: Owner) -> None:
    """With `share=` on queues, the later queue is not starved by the first one's backlog."""
    owner("CREATE TABLE scans (id integer PRIMARY KEY, status text NOT NULL)")
    owner.insert(*range(1, 41))
    owner("INSERT INTO scans (id, status) VALUES (1, 'new'), (2, 'new')")
    order: list[str] = []

    async def work(job: Job) -> None:
        order.append(job.queue.name)
        await asyncio.sleep(0.01)

    jobs = jobs_queue(share=3)
    scans = Queue("scans", ready="new", running="running", done="done", failed="failed", share=1)
    jobs.handler(work)
    scans.handler(work)
    drain(make_worker(url, jobs, scans, concurrency=4))
    assert len(order) == 42
    assert order.index("scans") < 30


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records how many rows each claim requests."""
    sizes: list[int] = []
    right = Store.claim

    async def claim(store: Store, queue: Queue, n: int, worker: str, **options: Any) -> list[Job]:
        sizes.append(n)
        return await right(store, queue, n, worker, **options)

    monkeypatch.setattr(Store, "claim", claim)
    return sizes


def test_quick_jobs_are_claimed_ahead_of_free_slots(url: str, owner: Owner, asked: list[int]) -> None:
    """A claim takes more rows than there are slots, but no more handlers run at once than slots."""
    owner.insert(*range(1, 401))
    queue, gauge = jobs_queue(), Gauge()

    @queue.handler
    async def work(job: Job) -> None:
        with gauge.running("worker"):
            await asyncio.sleep(0)

    drain(make_worker(url, queue, concurrency=3))
    assert max(asked) > 10
    assert gauge.most["worker"] == 3
    assert owner.count("done") == 400


@pytest.mark.parametrize("options", [{"concurrency": 2}, {"limit": 50}], ids=["concurrency", "limit"])
def test_a_limited_queue_is_not_claimed_ahead(
    url: str, owner: Owner, asked: list[int], options: dict[str, Any]
) -> None:
    """Rows waiting in one worker would be missing in another."""
    owner.insert(*range(1, 101))
    queue = jobs_queue(**options)

    @queue.handler
    async def work(job: Job) -> None:
        pass

    drain(make_worker(url, queue, concurrency=3))
    assert max(asked) <= 3


@pytest.mark.parametrize("ending", ["a slow job", "a stop"])
def test_jobs_claimed_ahead_are_released_behind_slow_ones(
    url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """They are released uncharged after a moment; when the worker stops, at once."""
    owner.insert(*range(1, 201))
    queue = jobs_queue(lease=30.0)
    let_go = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        while job.key > 100 and not let_go.is_set():
            await asyncio.sleep(0.01)

    monkeypatch.setattr(rounds, "LONGEST_AHEAD", 600.0)
    with working(make_worker(url, queue, concurrency=1, poll=0.1)) as [shift]:
        eventually(lambda: owner.count("done") >= 100 and owner.count("running") > 1)
        if ending == "a stop":
            shift.worker.stop()
        else:
            monkeypatch.setattr(rounds, "LONGEST_AHEAD", 0.0)
        eventually(lambda: owner.count("running") == 1)
        released = owner("SELECT count(*) AS n FROM tabellion_attempts WHERE outcome = 'released'")[0]["n"]
        assert released > 0
        assert owner("SELECT max(attempts) AS n FROM jobs WHERE status = 'new'")[0]["n"] == 0
        let_go.set()


def test_a_job_released_before_it_started_makes_no_call(
    url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gate no longer waits for its call: in an outage the only slot would be reserved for it forever."""
    owner.insert(*range(1, 201), 500)
    owner("UPDATE jobs SET size = 1 WHERE id < 500")
    owner("UPDATE jobs SET status = 'later' WHERE id = 500")
    gated = jobs_queue("gated", where="size IS NULL", uses="gemini")
    plain = jobs_queue("plain", where="size = 1", running="looking", lease=30.0)
    let_go = threading.Event()

    @plain.handler
    async def look(job: Job) -> None:
        while job.key > 100 and not let_go.is_set():
            await asyncio.sleep(0.01)

    @gated.handler
    async def call(job: Job) -> None:
        pass

    monkeypatch.setattr(rounds, "LONGEST_AHEAD", 600.0)
    with working(make_worker(url, gated, plain, concurrency=1, poll=0.1)) as [shift]:
        eventually(lambda: owner.count("done") >= 100 and owner.count("looking") > 1)
        owner("UPDATE jobs SET status = 'new' WHERE id = 500")  # its queue comes first, so it is claimed at once
        eventually(lambda: owner.count("running") == 1)
        monkeypatch.setattr(rounds, "LONGEST_AHEAD", 0.0)
        question = "SELECT token FROM tabellion_attempts WHERE queue = 'gated' AND outcome = 'released'"
        released = {str(row["token"]) for row in eventually(lambda: owner(question))}
        [gate] = [lane.gate for lane in shift.worker._slots.lanes if lane.gate is not None]
        assert not released & gate._promised
        let_go.set()
        eventually(lambda: owner.count("done") == 201)


def test_jobs_claimed_ahead_are_kept_while_jobs_start() -> None:
    """On a busy machine even quick jobs wait long: the first ones are kept, as many as started since the last check."""
    queue = jobs_queue()
    lane = Lane(WorkerEnvironment.__new__(WorkerEnvironment), queue)
    slots = Slots(10, [lane])
    runs = [Run(Job(queue, key, str(key), {}, n=1, token=str(key), attempt=1, worker="w")) for key in range(10)]
    slots.wait(lane, runs)
    for _ in range(3):
        slots.next(lane)
    longest_ago = min(run.claimed_at for run in runs)
    assert slots.withdraw(lane, lane.begun, longest_ago) == []
    assert [job.key for job in slots.withdraw(lane, lane.begun)] == [9, 8, 7, 6]
    assert [run.job.key for run in lane.waiting] == [3, 4, 5]
    assert slots.waiting == 3
