"""A worker that claims only while it serves a hint."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment, Job
from tabellion.engine.celery import hinted_worker
from tabellion.engine.celery.hinted_worker import HintedWorker
from tabellion.engine.celery.process_worker import Processes, ProcessWorker
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.periodic import PeriodicTask
from tabellion.errors import ConfigurationError, DeclarationError
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually

queue = jobs_queue()
files = {"a": 2, "b": 3, "paced": 4, "gated": 5}  #: queues of rows with this size
first, later = (jobs_queue(name, ready={"status": "new", "size": files[name]}, concurrency=1) for name in ("a", "b"))
paced = jobs_queue("paced", ready={"status": "new", "size": files["paced"]}, pace=[(1, 3600.0)])
gated = jobs_queue("gated", ready={"status": "new", "size": files["gated"]}, uses="upstream")
go = asyncio.Event()  #: ends the jobs of `first`; set in the loop that runs them
running: list[tuple[asyncio.AbstractEventLoop, str, int]] = []


@queue.handler
async def work(job: Job) -> None:
    """Fail once if the size is one."""
    if job["size"] == 1 and job.attempt == 1:
        raise OSError("told to break")


@first.handler
async def hold(job: Job) -> None:
    """Wait until told to go on."""
    running.append((asyncio.get_running_loop(), job.environment, int(job.key)))
    while not go.is_set():
        await asyncio.sleep(0.01)


@later.handler
@paced.handler
async def end_at_once(job: Job) -> None:
    """Do nothing."""


@gated.handler
async def fail(job: Job) -> None:
    """Report that the upstream is down."""
    assert job.context is not None
    call = await job.context.admit("upstream", job)
    call.record_failure("told to fail")
    raise OSError("told to fail")


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The jobs of `first` wait again, and hints wait for databases that connect slowly, as on a busy machine."""
    monkeypatch.setattr(hinted_worker, "PATIENCE", 20.0)
    go.clear()
    running.clear()
    yield
    go.set()


def make(url: str, **options: Any) -> HintedWorker:
    """A worker on this database."""
    return HintedWorker([Environment("prod", url)], [queue], poll=0.05, **options)


def end(process: ProcessWorker) -> None:
    """Stop a worker at once."""
    process.stop()
    process.stop()
    process.join(20)


def test_nothing_is_claimed_without_a_hint(url: str, owner: Owner) -> None:
    """Rows wait until a hint is served, which claims all that are due, and says how they ended."""
    owner("INSERT INTO jobs (id, size) VALUES (1, 0), (2, 0), (3, 0)")
    process = ProcessWorker(make(url))
    try:
        process.worker.is_open.wait(20)
        # Other worker processes would have claimed the rows before they answer this.
        assert process.serve_hint("prod", "unknown") == process.serve_hint("dev", "jobs") == {}
        assert [row["status"] for row in owner("SELECT status FROM jobs")] == ["new"] * 3
        assert process.serve_hint("prod", "jobs") == {"done": 3}
        assert process.serve_hint("prod", "jobs") == {}
        owner("INSERT INTO jobs (id, size) VALUES (4, 1)")
        ended: Counter[str] = Counter()  # the retry may become due before or after the hint of the first attempt ends
        eventually(lambda: ended.update(process.serve_hint("prod", "jobs")) or ended["done"])
        assert ended == {"retried": 1, "done": 1}
    finally:
        end(process)
    assert process.serve_hint("prod", "jobs") == {}


def test_many_rows_are_claimed_for_one_hint(url: str, owner: Owner) -> None:
    """A hint claims again and again until nothing is due, with more rows than there are slots."""
    for key in range(1, 101):
        owner("INSERT INTO jobs (id, size) VALUES ($1, 0)", key)
    process = ProcessWorker(make(url, concurrency=7))
    try:
        assert process.serve_hint("prod", "jobs") == {"done": 100}
    finally:
        end(process)


def test_every_lane_is_claimed_while_a_hint_is_served(url: str, owner: Owner) -> None:
    """A backlog of one queue leaves the free slots to the others; a queue that is not consumed is not claimed from."""
    worker = HintedWorker(
        [Environment("prod", url)], [first, later, paced], poll=0.05, lanes={("prod", "a"), ("prod", "b")}
    )
    process = ProcessWorker(worker)
    with ThreadPoolExecutor() as pool:
        try:
            owner("INSERT INTO jobs (id, size) VALUES (1, 2), (2, 2), (3, 2)")
            serving = pool.submit(process.serve_hint, "prod", "a")
            eventually(lambda: running)
            owner("INSERT INTO jobs (id, size) VALUES (4, 3), (5, 4)")
            eventually(lambda: owner.status(4) == "done")
            assert not serving.done()
            go.set()
            assert serving.result(30)["done"] == 3
            assert owner.outcomes(5, "paced") == []
        finally:
            go.set()
            end(process)


def test_earlier_environments_come_first(url: str, owner: Owner, tmp_path: Path) -> None:
    """While a hint of a later environment is served, a row of an earlier one gets the next free slot."""
    with owning(f"sqlite:///{tmp_path / 'dev.db'}") as dev:
        worker = HintedWorker([Environment("prod", url), Environment("dev", dev.url)], [later], poll=0.02)
        process = ProcessWorker(worker)
        with ThreadPoolExecutor() as pool:
            try:
                for key in range(1, 2001):
                    dev("INSERT INTO jobs (id, size) VALUES ($1, 3)", key)
                serving = pool.submit(process.serve_hint, "dev", "b")
                eventually(lambda: dev.count("done"))
                owner("INSERT INTO jobs (id, size) VALUES (1, 3)")
                eventually(lambda: owner.status(1) == "done")
                assert dev.count("new")
                assert not serving.done()
            finally:
                end(process)


@pytest.mark.parametrize("name", ["paced", "gated"])
def test_a_hint_ends_at_once_where_nothing_may_be_claimed(
    url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Neither a pace that is used up nor a closed gate holds a process, even if hints had all the patience."""
    monkeypatch.setattr(hinted_worker, "PATIENCE", 3600.0)
    closing = {"upstream": GateSettings(threshold=1, recovery=3600.0, rate=100)}
    process = ProcessWorker(HintedWorker([Environment("prod", url)], [paced, gated], poll=0.05, gates=closing))
    with ThreadPoolExecutor() as pool:
        try:
            size = files[name]
            owner(f"INSERT INTO jobs (id, size) VALUES (1, {size}), (2, {size}), (3, {size})")
            for _ in range(3):
                pool.submit(process.serve_hint, "prod", name).result(30)
            assert owner.count("new"), "the hints ended, although rows are due"
        finally:
            end(process)


def test_jobs_outlive_the_turn_of_their_hint(url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its turn a hint ends at the next claim, while long jobs run on, and the next hint continues the work."""
    monkeypatch.setattr(hinted_worker, "TURN", 0.0)
    process = ProcessWorker(HintedWorker([Environment("prod", url)], [first, later], poll=0.05))
    with ThreadPoolExecutor() as pool:
        try:
            owner("INSERT INTO jobs (id, size) VALUES (1, 2)")
            pool.submit(process.serve_hint, "prod", "a").result(30)
            assert owner.status(1) == "running"
            serving, keys = pool.submit(process.serve_hint, "prod", "b"), itertools.count(2)

            def has_ended() -> bool:
                # A claim that began during the first hint may take one of these rows: then the second hint waits on.
                if not serving.done():
                    owner("INSERT INTO jobs (id, size) VALUES ($1, 3)", next(keys))
                return serving.done()

            eventually(has_ended)
            serving.result()
            eventually(lambda: owner.status(2) == "done")
            assert owner.status(1) == "running"
            go.set()
            eventually(lambda: owner.status(1) == "done")
        finally:
            go.set()
            end(process)


def test_a_hint_for_others_is_reported_once(url: str, owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    """Configurations that share a broker and a prefix take each other's hints: that is said."""
    process = ProcessWorker(make(url))
    try:
        assert process.serve_hint("dev", "jobs") == process.serve_hint("dev", "jobs") == {}
    finally:
        end(process)
    assert sum("celery.prefix" in record.getMessage() for record in caplog.records) == 1


def test_a_worker_that_cannot_start_is_made_again(url: str) -> None:
    """Its hint raises the reason; once the table exists, the next hint is served by a new worker."""
    processes = Processes(lambda: make(url))
    with pytest.raises(DeclarationError):
        processes.serve_hint("prod", "jobs")
    with owning(url) as owner:  # which creates the table
        owner("INSERT INTO jobs (id, size) VALUES (1, 0)")
        assert processes.serve_hint("prod", "jobs") == {"done": 1}
    processes.end(at_once=False)
    assert processes.serve_hint("prod", "jobs") == {}


def test_what_prevents_the_start_is_said_every_time(url: str, owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    """A configuration that is wrong is the reason of the second failure as of the first, and it is in the log."""

    def refuse(_: Environment) -> list[PeriodicTask]:
        raise ConfigurationError("told to refuse")

    processes = Processes(lambda: make(url, id="one", tasks=refuse))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="told to refuse"):
            processes.serve_hint("prod", "jobs")
    assert sum("told to refuse" in record.getMessage() for record in caplog.records) == 2
