"""Environments that do not answer, and declarations that do not fit them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Container
from pathlib import Path

import pytest

from tabellion import Environment, Job, Queue, Store, Worker
from tabellion.engine import controls
from tabellion.engine.worker import environment as worker_environment
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker import polling
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.engine.worker.leases import Leases
from tabellion.engine.worker.runner import Run
from tabellion.errors import DeclarationError, NotMigrated, TabellionError, Unreachable
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import EventRecorder, RunningWorker, ask, drain, make_worker, working

pytestmark = pytest.mark.usefixtures("often")


def test_a_dead_environment_is_reported_once_and_skipped(url: str, owner: Owner) -> None:
    """A database that does not answer is reported once; work on the others continues."""
    owner.insert(*range(1, 31))
    queue = jobs_queue()
    recorder = EventRecorder()

    @queue.handler
    async def work(job: Job) -> None:
        await asyncio.sleep(0.02)

    nowhere = Environment("staging", "postgresql://postgres@127.0.0.1:9/nothing")
    worker = Worker([nowhere, Environment("prod", url)], [queue], poll=0.05, concurrency=1, listeners=[recorder])
    with working(worker):
        eventually(lambda: owner.count("done") == 30)
    assert [event.environment for event in recorder.of("environment_down")] == ["staging"]


def test_a_database_that_stays_down_is_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a minute, so that nobody takes silence for work; its address has no password."""
    monkeypatch.setattr(worker_environment, "REMIND", 0.3)
    queue = jobs_queue()
    recorder = EventRecorder()
    queue.handler(_nothing)
    with working(make_worker("postgresql://clerk:canary@127.0.0.1:9/shop", queue, listeners=[recorder])):
        eventually(lambda: len(recorder.of("environment_down")) > 1)
    assert {event.note for event in recorder.of("environment_down")} == {"postgresql://127.0.0.1:9/shop"}


def test_a_database_that_comes_back_reports_how_long_it_was_down(
    url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection has nothing to report; the second has the time between."""
    queue = jobs_queue()
    recorder = EventRecorder()
    queue.handler(_nothing)
    kept, failed = roster.beat, threading.Event()

    async def fail_once(store: Store, member: WorkerRecord) -> None:
        if not failed.is_set():
            failed.set()
            raise Unreachable("the plug was pulled")
        await kept(store, member)

    monkeypatch.setattr(roster, "BEAT", 0.1)
    monkeypatch.setattr(roster, "beat", fail_once)
    with working(make_worker(url, queue, listeners=[recorder])):
        eventually(lambda: len(recorder.of("environment_up")) == 2)
    first, second = recorder.of("environment_up")
    assert first.seconds is None
    assert (second.seconds or 0) > 0
    assert [event.error for event in recorder.of("environment_down")] == ["the plug was pulled"]


def test_declaration_errors_come_before_any_claim(url: str, owner: Owner) -> None:
    """One queue that does not fit its table stops the worker before any row of any queue is touched."""
    owner.insert(1)
    good = jobs_queue()
    bad = Queue("missing", ready="new", running="running", done="done", failed="failed")
    for queue in (good, bad):
        queue.handler(lambda job: None)
    with pytest.raises(DeclarationError, match="missing"):
        RunningWorker(make_worker(url, good, bad)).end()
    assert owner.attempts() == []
    assert owner.status(1) == "new"


@pytest.mark.parametrize("wrong", ["postgresql://127.0.0.1:notaport/x", "postgresql://[half/x"])
def test_an_invalid_url_is_an_error(wrong: str) -> None:
    """A database URL that cannot be parsed ends the worker with an error; it does not hang."""
    queue = jobs_queue()
    queue.handler(lambda job: None)
    with pytest.raises((TabellionError, ValueError)):
        RunningWorker(make_worker(wrong, queue)).end(within=8)


OTHER = "CREATE TABLE other (id INTEGER PRIMARY KEY, status TEXT)"


def other_queue() -> Queue:
    """A queue on a second table."""
    return Queue("other", ready="new", running="running", done="done", failed="failed", lease=3.0)


async def _nothing(job: Job) -> None:
    """A handler that does nothing."""


def test_an_environment_without_the_table_is_reported_and_skipped(
    url: str, owner: Owner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue is skipped there, with its problem and its fix; that environment's other queue and the others work."""
    owner.insert(1)
    owner(OTHER)
    recorder, jobs, other = EventRecorder(), jobs_queue(), other_queue()
    for queue in (jobs, other):
        queue.handler(_nothing)
    with owning(f"sqlite:///{tmp_path}/staging.db", create=False) as staging:
        staging(OTHER)
        staging("INSERT INTO other VALUES (1, 'new')")
        places = [Environment("staging", staging.url), Environment("prod", url)]
        drain(Worker(places, [jobs, other], poll=0.05, listeners=[recorder]))
        assert owner.status(1) == "done"
        assert staging("SELECT status FROM other") == [{"status": "done"}]
    [event] = recorder.of("queue_skipped")
    assert (event.environment, event.queue) == ("staging", "jobs")
    assert "there is no table 'jobs'; fix: " in (event.error or "")
    assert "environment_down" not in recorder.names
    [record] = [one for one in caplog.records if vars(one).get("event") == "queue_skipped"]
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("jobs in staging is skipped: there is no table 'jobs'")


def test_a_table_that_is_created_later_is_worked(
    url: str, owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skipped queue is checked again, and worked without a restart."""
    monkeypatch.setattr(worker_environment, "LOOK_AGAIN", 0.1)
    recorder, jobs = EventRecorder(), jobs_queue()
    jobs.handler(_nothing)
    with owning(f"sqlite:///{tmp_path}/staging.db", create=False) as staging:
        places = [Environment("staging", staging.url), Environment("prod", url)]
        with working(Worker(places, [jobs], poll=0.05, listeners=[recorder])):
            eventually(lambda: recorder.of("queue_skipped"))
            staging.create()
            staging.insert(1)
            eventually(lambda: staging.status(1) == "done")
    assert [(one.environment, one.queue) for one in recorder.of("queue_restored")] == [("staging", "jobs")]
    assert len(recorder.of("queue_skipped")) == 1


def test_a_column_that_is_added_later_is_worked(
    url: str, owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One environment lacks a declared column: the queue is skipped there, reported once, and worked once it exists."""
    monkeypatch.setattr(worker_environment, "LOOK_AGAIN", 0.1)
    owner(OTHER)
    owner("INSERT INTO other VALUES (1, 'new')")
    recorder = EventRecorder()
    queue = Queue("other", ready="new", running="running", done="done", failed="failed", updated_at="updated_at")
    queue.handler(_nothing)
    with owning(f"sqlite:///{tmp_path}/staging.db", create=False) as staging:
        staging("CREATE TABLE other (id INTEGER PRIMARY KEY, status TEXT, updated_at TEXT)")
        staging("INSERT INTO other VALUES (1, 'new', NULL)")
        places = [Environment("prod", url), Environment("staging", staging.url)]
        with working(Worker(places, [queue], poll=0.05, listeners=[recorder])):
            eventually(lambda: staging("SELECT status FROM other") == [{"status": "done"}])
            [event] = eventually(lambda: recorder.of("queue_skipped"))
            assert "table 'other' has no column 'updated_at'; fix: " in (event.error or "")
            owner("ALTER TABLE other ADD COLUMN updated_at TEXT")
            eventually(lambda: owner("SELECT status FROM other") == [{"status": "done"}])
    assert [(one.environment, one.queue) for one in recorder.of("queue_restored")] == [("prod", "other")]
    assert len(recorder.of("queue_skipped")) == 1
    assert owner("SELECT updated_at FROM other")[0]["updated_at"]


def test_a_queue_that_fits_no_environment_stops_the_worker(url: str, owner: Owner, tmp_path: Path) -> None:
    """The problem is reported for each environment, before any claim."""
    owner.insert(1)
    jobs, bad = jobs_queue(), Queue("jobs", name="bad", ready="a", running="b", done="c", failed="d", error="eror")
    for queue in (jobs, bad):
        queue.handler(_nothing)
    places = [Environment("prod", url), Environment("staging", f"sqlite:///{tmp_path}/staging.db")]
    with pytest.raises(DeclarationError) as caught:
        RunningWorker(Worker(places, [jobs, bad], poll=0.05)).end()
    assert caught.value.subject == "queue 'bad'"
    assert [problem.what for problem in caught.value.problems] == [
        "prod: table 'jobs' has no column 'eror'",
        "staging: there is no table 'jobs'",
    ]
    assert owner.attempts() == []


def test_a_queue_is_skipped_while_another_environment_is_down(sqlite_url: str) -> None:
    """A database that does not answer may have the table: the worker starts, and reports what it skips."""
    recorder, jobs = EventRecorder(), jobs_queue()
    jobs.handler(_nothing)
    places = [Environment("away", "postgresql://postgres@127.0.0.1:9/nothing"), Environment("here", sqlite_url)]
    with working(Worker(places, [jobs], poll=0.05, listeners=[recorder])):
        [event] = eventually(lambda: recorder.of("queue_skipped"))
    assert event.environment == "here"


def test_a_table_that_the_role_may_not_read_is_skipped(pg_url: str, role: str) -> None:
    """The environment stays up, and the queue that the role may work is worked."""
    with owning(pg_url) as owner:
        owner("CREATE TABLE other (id integer PRIMARY KEY, status text)")
        owner("INSERT INTO other VALUES (1, 'new')")
        jobs, other = jobs_queue(), other_queue()
        for queue in (jobs, other):
            queue.handler(_nothing)
        owner(f"GRANT ALL ON SCHEMA public TO {role}")
        owner(f"GRANT SELECT, UPDATE ON other TO {role}")
        recorder = EventRecorder()
        theirs = Environment("prod", pg_url.replace("postgres@", f"{role}@"))
        ask(theirs.url, lambda store: store.open())  # so that the register is the reader's
        with working(Worker([theirs, Environment("mine", pg_url)], [jobs, other], poll=0.05, listeners=[recorder])):
            eventually(lambda: owner("SELECT status FROM other")[0]["status"] == "done")
            eventually(lambda: recorder.of("queue_skipped"))
        [event] = recorder.of("queue_skipped")
        assert (event.environment, event.queue) == ("prod", "jobs")
        assert "permission denied" in (event.error or "")
        assert "environment_down" not in recorder.names


def test_a_dropped_table_affects_no_other_queue(url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table dropped while the worker runs: its queue is skipped, the environment stays up, and it may come back."""
    monkeypatch.setattr(worker_environment, "LOOK_AGAIN", 0.1)
    monkeypatch.setattr(polling, "REST", 0.2)
    owner(OTHER)
    recorder, jobs, other = EventRecorder(), jobs_queue(), other_queue()
    for queue in (jobs, other):
        queue.handler(_nothing)
    with working(make_worker(url, jobs, other, listeners=[recorder])):
        eventually(lambda: recorder.of("environment_up"))
        owner("DROP TABLE other")
        eventually(lambda: recorder.of("queue_skipped"))
        owner.insert(1)
        eventually(lambda: owner.status(1) == "done")
        owner(OTHER)
        owner("INSERT INTO other VALUES (1, 'new')")
        eventually(lambda: owner("SELECT status FROM other") == [{"status": "done"}])
    assert [event.queue for event in recorder.of("queue_skipped")] == ["other"]
    assert "environment_down" not in recorder.names


def test_a_recreated_table_is_tried_again(url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recreated table is a new table: its states are tried before anything is claimed from it."""
    monkeypatch.setattr(worker_environment, "LOOK_AGAIN", 0.1)
    owner(OTHER)
    owner("INSERT INTO other VALUES (1, 'done')")
    recorder, jobs, other = EventRecorder(), jobs_queue(), other_queue()
    for queue in (jobs, other):
        queue.handler(_nothing)
    with working(make_worker(url, jobs, other, listeners=[recorder])):
        eventually(lambda: recorder.of("environment_up"))
        owner("DROP TABLE other")
        eventually(lambda: recorder.of("queue_skipped"))
        owner("CREATE TABLE strict (id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('new', 'done', 'failed')))")
        owner("INSERT INTO strict VALUES (1, 'new')")
        owner("ALTER TABLE strict RENAME TO other")
        eventually(lambda: len(recorder.of("queue_skipped")) == 2)
    assert "running" in (recorder.of("queue_skipped")[1].error or "")
    assert "queue_restored" not in recorder.names


def test_jobs_of_a_dropped_table_lose_only_their_own_leases(url: str, owner: Owner) -> None:
    """Leases of another queue's jobs are renewed although those of the dropped table cannot be."""
    owner.insert(1)
    owner(OTHER)
    owner("INSERT INTO other VALUES (1, 'new')")
    jobs, other = jobs_queue(lease=3.0), other_queue()
    go, started = threading.Event(), threading.Barrier(3)

    async def wait(job: Job) -> None:
        await asyncio.to_thread(started.wait, 20)
        while not go.is_set():
            await asyncio.sleep(0.01)

    for queue in (jobs, other):
        queue.handler(wait)
    recorder = EventRecorder()
    with working(make_worker(url, jobs, other, listeners=[recorder])):
        started.wait(20)
        owner("DROP TABLE other")
        eventually(lambda: recorder.of("queue_skipped"))
        for _ in range(3):
            before = owner.attempts(1)[0]["lease_until"]
            eventually(lambda before=before: owner.attempts(1)[0]["lease_until"] != before)  # type: ignore[misc]
        go.set()
        eventually(lambda: owner.status(1) == "done")
    assert owner.outcomes(1) == ["done"]


def test_a_failed_renewal_is_repeated_in_full(url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled job is noticed although the database failed at the renewal that would have reported it."""
    owner.insert(1)
    queue, recorder = jobs_queue(lease=600.0), EventRecorder()
    started, failed = threading.Event(), threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        started.set()
        await asyncio.sleep(600)

    renew = Leases.renew

    async def renew_later(self: Leases, *, everything: bool = False, without: Container[Queue] = ()) -> list[Run]:
        if everything and started.is_set() and not failed.is_set():
            failed.set()
            raise Unreachable("away for a moment")
        return await renew(self, everything=everything, without=without)

    monkeypatch.setattr(Leases, "renew", renew_later)
    with working(make_worker(url, queue, listeners=[recorder])):
        assert started.wait(20)
        assert ask(url, lambda store: controls.cancel(store, queue, 1))
        eventually(lambda: recorder.of("cancelled"))
    assert failed.is_set()


def test_tables_that_a_handler_writes_are_created_with_the_connection(url: str, owner: Owner) -> None:
    """`Queue.prepare` runs in each environment that has the queue's table, before anything is claimed there."""
    owner.insert(1)
    queue = jobs_queue()

    async def prepare(store: Store) -> None:
        await store.database.fetch("CREATE TABLE IF NOT EXISTS notes (job integer)")

    queue.prepare = prepare

    @queue.handler
    async def work(job: Job) -> None:
        job.also("INSERT INTO notes (job) VALUES (:job)", job=job.key)

    drain(make_worker(url, queue))
    assert owner("SELECT job FROM notes") == [{"job": 1}]


def test_a_queue_whose_own_tables_cannot_be_created_is_skipped(url: str, owner: Owner, tmp_path: Path) -> None:
    """The reason is reported; the queue is worked in the environment that has them."""
    owner.insert(1)
    diary = EventRecorder()
    queue = jobs_queue()
    queue.handler(_nothing)
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"

    async def prepare(store: Store) -> None:
        if await store.table("results") is None:
            raise NotMigrated("this role may not create the tables of results")

    queue.prepare = prepare
    with owning(elsewhere) as other:
        other.insert(1)
        other("CREATE TABLE results (job integer)")
        environments = [Environment("prod", url), Environment("dev", elsewhere)]
        with working(Worker(environments, [queue], poll=0.05, listeners=[diary])):
            eventually(lambda: other.status(1) == "done")
    assert owner.status(1) == "new"
    assert [(event.environment, event.error) for event in diary.of("queue_skipped")] == [
        ("prod", "this role may not create the tables of results")
    ]
