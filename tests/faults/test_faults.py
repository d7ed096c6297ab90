"""The fault matrix: one test per row, on real databases and processes. F-numbers are the rows of the matrix."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tabellion import Environment, Job, LeaseLost, Queue, Store, Worker
from tabellion.engine import failpoints
from tabellion.engine.worker import environment as worker_environment
from tabellion.errors import NotMigrated
from tabellion.testing import Clock
from tests.faults.proxy import proxied
from tests.pooler import pooler
from tests.servers import Postgres, die_with_parent
from tests.table_owner import NOW, Owner, jobs_queue, owning, seconds
from tests.waiting import eventually
from tests.workers import ROOT, EventRecorder, RunningWorker, drain, worker_process, working

CHARGED = {"retried", "crashed", "failed", "quarantined"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sweep several times a second, reconnect quickly, and leave no failpoint armed."""
    monkeypatch.setattr(worker_environment, "SWEEP", 0.2)
    monkeypatch.setattr(worker_environment, "LONGEST_PAUSE", 0.5)
    yield
    failpoints.arm("")


def make_worker(url: str, queue: Queue, **options: Any) -> Worker:
    """Return a worker in this process that polls often and abandons a call after a second."""
    deadline = options.pop("deadline", 1.0)
    return Worker([Environment("prod", url, deadline=deadline)], [queue], **({"poll": 0.05} | options))


def counting(queue: Queue, seconds: float = 0.02, until: threading.Event | None = None) -> dict[int, int]:
    """Give the queue a handler that ends after some time or with an event; return how often it ran for each key."""
    runs: dict[int, int] = {}

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        runs[job.key] = runs.get(job.key, 0) + 1
        await asyncio.sleep(seconds)
        while until is not None and not until.is_set():
            await asyncio.sleep(0.01)
        return {"result": f"{job.key}:{job.n}"}

    return runs


def assert_all_done(owner: Owner, count: int) -> None:
    """Assert that every row is done by exactly one accepted attempt with its result, and nothing was charged."""
    assert owner.count("done") == count
    attempts = owner.attempts()
    done = {attempt["key"]: attempt for attempt in attempts if attempt["outcome"] == "done"}
    assert len(done) == len([attempt for attempt in attempts if attempt["outcome"] == "done"]) == count
    for row in owner("SELECT id, result FROM jobs"):
        assert row["result"].startswith(f"{row['id']}:{done[str(row['id'])]['n']}")
    assert {attempt["outcome"] for attempt in attempts} <= {"done", "released"}, "an attempt was charged"
    assert {attempt["attempt"] for attempt in attempts} == {1}


def wait_dead(child: Any) -> None:
    """Wait until the worker has killed itself."""
    assert child.wait() == -signal.SIGKILL, child.errors()


def test_f01_killed_before_the_claim_commits(url: str, owner: Owner, tmp_path: Path) -> None:
    """F01: the row is untouched and no attempt is charged."""
    owner.insert(1)
    with worker_process(url, tmp_path, failpoints="claim.pre_commit:kill") as child:
        wait_dead(child)
    assert owner.row(1)["status"] == "new"
    assert owner.attempts() == []


def test_f02_killed_between_claim_and_handler(url: str, owner: Owner, tmp_path: Path) -> None:
    """F02: the lease expires, the attempt is charged as a crash, the next one has a new token and finishes."""
    owner.insert(1)
    with worker_process(url, tmp_path, failpoints="claim.post_commit:kill") as child:
        wait_dead(child)
    assert (owner.status(1), owner.outcomes(1)) == ("running", [None])
    with worker_process(url, tmp_path):
        eventually(lambda: owner.status(1) == "done")
    first, second = owner.attempts(1)
    assert (first["outcome"], second["outcome"]) == ("crashed", "done")
    assert (first["attempt"], second["attempt"], second["n"]) == (1, 2, 2)
    assert first["token"] != second["token"]
    assert first["settled_at"] > first["lease_until"]


def test_f03_killed_while_working(url: str, owner: Owner, tmp_path: Path) -> None:
    """F03: the job runs again elsewhere, with the evidence kept; the dead worker's folder is removed."""
    owner.insert(1)
    with worker_process(url, tmp_path, id="victim", seconds=60, scratch=True, note="page 12 of 40") as child:
        child.await_start(1)
        eventually(lambda: owner.attempts(1)[0]["note"])
        child.send(signal.SIGKILL)
        wait_dead(child)
    assert list((tmp_path / "temp" / "victim").glob("*/half-written"))
    with worker_process(url, tmp_path):
        eventually(lambda: owner.status(1) == "done")
        assert not (tmp_path / "temp" / "victim").exists()
    first, _ = owner.attempts(1)
    assert first["outcome"] == "crashed"
    assert "victim" in first["error"]
    assert "page 12 of 40" in first["error"]


@pytest.mark.parametrize("place", ["handler.post_call", "settle.pre_commit"])
def test_f04_killed_between_output_and_finish(url: str, owner: Owner, tmp_path: Path, place: str) -> None:
    """F04: the work was done but not accepted: it runs again, and only the second result counts."""
    owner.insert(1)
    output = tmp_path / "output"
    with worker_process(url, tmp_path, id="a", failpoints=f"{place}:kill", output=str(output)) as child:
        wait_dead(child)
    assert (owner.status(1), owner.row(1)["result"]) == ("running", None)
    with worker_process(url, tmp_path, id="b", output=str(output)):
        eventually(lambda: owner.status(1) == "done")
    assert output.read_text() == "1 1\n1 2\n"
    assert owner.row(1)["result"] == "1:2:b"
    assert owner.outcomes(1) == ["crashed", "done"]


def test_f05_killed_while_writing_a_file(url: str, owner: Owner, tmp_path: Path) -> None:
    """F05: a half-written file is only in the job's own folder, which the next worker removes."""
    owner.insert(1)
    output = tmp_path / "output"
    with worker_process(url, tmp_path, id="a", scratch=True, seconds=60, output=str(output)) as child:
        child.await_start(1)
        child.send(signal.SIGKILL)
        wait_dead(child)
    assert not output.exists()
    with worker_process(url, tmp_path, id="b", scratch=True, output=str(output)) as again:
        eventually(lambda: owner.status(1) == "done")
        again.send(signal.SIGTERM)
        assert again.wait() == 0
    assert output.read_text() == "1 2\n"
    assert list((tmp_path / "temp").iterdir()) == []


def test_f06_the_answer_to_a_finish_is_lost(url: str, owner: Owner) -> None:
    """F06: a commit whose answer was lost is recognised as ours: done once, run once, reported as done."""
    owner.insert(*range(1, 21))
    queue = jobs_queue()
    runs = counting(queue)
    recorder = EventRecorder()
    failpoints.arm("settle.drop_ack:raise@2")
    with working(make_worker(url, queue, concurrency=4, listeners=[recorder])):
        eventually(lambda: len(recorder.of("done")) == 20)
    assert "environment_down" in recorder.names, "the failpoint did not fire"
    assert "lease_lost" not in recorder.names
    assert set(runs.values()) == {1}
    assert_all_done(owner, 20)


def test_f06_the_answer_to_a_claim_is_lost(url: str, owner: Owner) -> None:
    """F06: rows claimed by a call whose answer was lost are released uncharged, without waiting for the lease."""
    queue = jobs_queue(lease=60.0)
    counting(queue)
    with working(make_worker(url, queue, concurrency=4)):
        for key in range(1, 101):
            # A look that finds nothing may be the one whose answer is lost: then the next row's turn comes.
            failpoints.arm("claim.drop_ack:raise@1")
            owner.insert(key)
            eventually(lambda: owner.count("done") == key)  # noqa: B023 - awaited at once
            if "released" in {attempt["outcome"] for attempt in owner.attempts()}:
                break
    assert "released" in {attempt["outcome"] for attempt in owner.attempts()}, "the failpoint did not fire"
    assert_all_done(owner, key)


def test_f06_the_network_loses_the_answers(pg_url: str) -> None:
    """F06: for a while every commit happens and every answer is lost; nothing is lost, duplicated or charged."""
    with owning(pg_url) as owner, proxied(pg_url) as proxy:
        owner.insert(*range(1, 61))
        queue = jobs_queue(lease=20.0)
        counting(queue)
        recorder = EventRecorder()
        with working(make_worker(proxy.url, queue, concurrency=5, listeners=[recorder], deadline=0.5)):
            eventually(lambda: owner.count("done") >= 5)
            proxy.swallow()
            eventually(lambda: recorder.of("environment_down"))
            proxy.swallow(False)
            proxy.cut()
            eventually(lambda: owner.count("done") == 60)
        assert_all_done(owner, 60)


@pytest.mark.parametrize("place", ["claim.pre_commit", "claim.post_commit", "settle.pre_commit", "settle.post_commit"])
def test_f07_sigterm_during_a_move(url: str, owner: Owner, tmp_path: Path, place: str) -> None:
    """F07: SIGTERM during a claim or a commit: exit code 0, the job done or released, never charged."""
    owner.insert(1)
    with worker_process(url, tmp_path, failpoints=f"{place}:stop", lease=60.0) as child:
        eventually(lambda: _state(child.pid) == "T")
        child.send(signal.SIGTERM)
        child.send(signal.SIGCONT)
        assert child.wait() == 0, child.errors()
    assert owner.status(1) in ("new", "done")
    assert not CHARGED & set(owner.outcomes(1))
    assert None not in owner.outcomes(1), "a claim was left behind"


def test_f07_sigterm_ends_the_worker_whatever_its_handlers_do(url: str, owner: Owner, tmp_path: Path) -> None:
    """F07: a handler that ignores its cancellation loses its job, and the process still ends with 0."""
    owner.insert(1)
    with worker_process(url, tmp_path, seconds=60, stubborn=True, grace=0.2, stuck=0.5) as child:
        child.await_start(1)
        child.send(signal.SIGTERM)
        assert child.wait(20) == 0
    assert (owner.status(1), owner.outcomes(1)) == ("new", ["released"])


def _state(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


@pytest.mark.parametrize("fence", ["fenced", "unfenced"])
def test_f08_a_zombie_changes_nothing(url: str, owner: Owner, tmp_path: Path, fence: str) -> None:
    """F08: a worker stopped past its lease and resumed changes nothing. Without the fence (control) it would."""
    owner.insert(1)
    unfenced = fence == "unfenced"
    with worker_process(url, tmp_path, id="zombie", seconds=0.5, unfenced=unfenced, lease=1.0) as zombie:
        zombie.await_start(1)
        zombie.send(signal.SIGSTOP)
        with worker_process(url, tmp_path, id="winner"):
            eventually(lambda: owner.status(1) == "done")
        before, history = owner.row(1), owner.attempts(1)
        assert before["result"] == "1:2:winner"
        zombie.send(signal.SIGCONT)
        # The next job proves that the zombie has come through what it was doing when it was stopped.
        eventually(lambda: zombie.lines("lease_lost") or zombie.lines("done") or zombie.lines("released"))
        owner.insert(2)
        eventually(lambda: owner.status(2) == "done")
    unchanged = owner.row(1) == before and owner.attempts(1) == history
    assert unchanged is not unfenced
    if not unfenced:
        assert zombie.lines("lease_lost"), "the zombie never tried: this run tested nothing"


def test_f09_a_handler_that_hangs(url: str, owner: Owner, tmp_path: Path) -> None:
    """F09: a handler that hangs exceeds its timeout and loses its job, and another worker does it."""
    owner.insert(1)
    hang = {"seconds": 30, "blocking": True, "timeout": 0.3, "lease": 1.0, "concurrency": 1}
    with worker_process(url, tmp_path, id="hung", **hang) as hung:
        hung.await_start(1)
        with worker_process(url, tmp_path, id="free"):
            eventually(lambda: owner.status(1) == "done")
    assert owner.outcomes(1) == ["retried", "done"]
    assert "timed out" in owner.attempts(1)[0]["error"]
    assert owner.row(1)["result"] == "1:2:free"


@pytest.fixture
def own_url(own_server: Postgres, request: pytest.FixtureRequest) -> str:
    """The URL of a database on that server."""
    return own_server.create_database(request.node.name)


def test_f10_postgresql_crashes_and_comes_back(own_server: Postgres, own_url: str) -> None:
    """F10: the server crashes twice during the work; everything is done once and nothing is charged."""
    recorder = EventRecorder()
    with owning(own_url) as owner:
        owner.insert(*range(1, 201))
        queue = jobs_queue(lease=30.0)
        counting(queue)
        with working(make_worker(own_url, queue, concurrency=10, listeners=[recorder])):
            for reached in (40, 90):
                eventually(lambda reached=reached: owner.count("done") >= reached)  # type: ignore[misc]
                own_server.crash()
                eventually(
                    lambda: recorder.names[-1] == "environment_down" or "environment_down" in recorder.names[-40:]
                )
                own_server.start()
            eventually(lambda: owner.count("done") == 200)
        assert len(recorder.of("environment_down")) >= 2
        assert_all_done(owner, 200)


def test_f10_a_worker_that_stops_when_idle_survives_it_too(own_server: Postgres, own_url: str) -> None:
    """F10: a worker that waits for the retry of the last job still ends by itself after a crash."""
    recorder = EventRecorder()
    with owning(own_url) as owner:
        owner.insert(1)
        queue = jobs_queue(lease=30.0, retry_base=3.0)

        @queue.handler
        async def work(job: Job) -> None:
            if job.attempt == 1:
                raise OSError("once")

        running = RunningWorker(make_worker(own_url, queue, listeners=[recorder]), until_idle=True)
        try:
            eventually(lambda: owner.outcomes(1) == ["retried"])
            own_server.crash()
            eventually(lambda: recorder.of("environment_down"))
            own_server.start()
            eventually(lambda: owner.status(1) == "done")
            eventually(lambda: running.over, within=8)
        finally:
            running.worker.stop()
            running.end()


def test_f11_connections_are_cut(pg_url: str) -> None:
    """F11: every connection is cut three times; everything is done once and nothing is charged."""
    with owning(pg_url) as owner, proxied(pg_url) as proxy:
        owner.insert(*range(1, 121))
        queue = jobs_queue(lease=30.0)
        counting(queue)
        with working(make_worker(proxy.url, queue, concurrency=5)):
            for reached in (10, 40, 70):
                eventually(lambda reached=reached: owner.count("done") >= reached)  # type: ignore[misc]
                proxy.cut()
            eventually(lambda: owner.count("done") == 120)
        assert_all_done(owner, 120)


def test_f11_connections_are_half_open(pg_url: str, tmp_path: Path) -> None:
    """F11: nothing passes any more: reported once, and the other environment continues."""
    recorder = EventRecorder()
    second = f"sqlite:///{tmp_path}/second.db"
    with owning(pg_url) as owner, owning(second) as other, proxied(pg_url) as proxy:
        owner.insert(*range(1, 61))
        queue = jobs_queue(lease=3.0)
        counting(queue)
        environments = [Environment("frozen", proxy.url, deadline=0.5), Environment("free", second)]
        with working(Worker(environments, [queue], poll=0.05, concurrency=5, listeners=[recorder])):
            eventually(lambda: owner.count("done") >= 10)
            proxy.freeze()
            eventually(lambda: recorder.of("environment_down"))
            other.insert(*range(1, 21))
            eventually(lambda: other.count("done") == 20)
            proxy.thaw()
            eventually(lambda: owner.count("done") == 60)
        assert owner.count("failed") == 0
        # On a busy machine it may be out of reach for a moment before: each absence is reported once.
        changes = recorder.of("environment_up", "environment_down")
        names = [event.name for event in changes if event.environment == "frozen"]
        assert all(before != after for before, after in itertools.pairwise(names))
        assert {event.environment for event in recorder.of("environment_down")} == {"frozen"}


def test_f11_a_black_hole_at_the_start(pg_url: str, tmp_path: Path) -> None:
    """F11: an environment that accepts connections and never answers blocks nothing, and is used once it answers."""
    recorder = EventRecorder()
    second = f"sqlite:///{tmp_path}/second.db"
    with owning(pg_url) as owner, owning(second) as other, proxied(pg_url) as proxy:
        proxy.freeze()
        owner.insert(1)
        other.insert(*range(1, 21))
        queue = jobs_queue()
        counting(queue)
        environments = [Environment("hole", proxy.url, deadline=0.5), Environment("free", second)]
        with working(Worker(environments, [queue], poll=0.05, concurrency=5, listeners=[recorder])):
            eventually(lambda: other.count("done") == 20)
            assert owner.status(1) == "new"
            proxy.thaw()
            eventually(lambda: owner.status(1) == "done")
        assert [event.environment for event in recorder.of("environment_down")] == ["hole"]


def test_f11_the_server_is_stopped(own_server: Postgres, own_url: str) -> None:
    """F11: the server's processes are frozen (SIGSTOP) for longer than the deadline; the work continues afterwards."""
    recorder = EventRecorder()
    with owning(own_url) as owner:
        owner.insert(*range(1, 81))
        queue = jobs_queue(lease=30.0)
        counting(queue)
        with working(make_worker(own_url, queue, concurrency=5, listeners=[recorder], deadline=0.5)):
            eventually(lambda: owner.count("done") >= 10)
            with frozen(own_server):
                eventually(lambda: recorder.of("environment_down"))
            eventually(lambda: owner.count("done") == 80)
        assert_all_done(owner, 80)


@contextlib.contextmanager
def frozen(server: Postgres) -> Iterator[None]:
    """Stop the server and its children for the duration of a block."""
    assert server.process is not None
    pids = [server.process.pid, *_children(server.process.pid)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_f12_the_database_becomes_read_only(own_server: Postgres, own_url: str) -> None:
    """F12: after a failover to read-only claims pause, no job fails, and the work continues when writes are back."""
    recorder = EventRecorder()
    with owning(own_url) as owner, owning(own_server.url, create=False) as admin:
        owner.insert(*range(1, 101))
        queue = jobs_queue(lease=30.0)
        counting(queue)
        with working(make_worker(own_url, queue, concurrency=5, listeners=[recorder])):
            eventually(lambda: owner.count("done") >= 10)
            try:
                admin("ALTER SYSTEM SET default_transaction_read_only = on")
                admin("SELECT pg_reload_conf()")
                eventually(lambda: recorder.of("environment_down"))
            finally:
                admin("SET default_transaction_read_only = off")
                admin("ALTER SYSTEM RESET default_transaction_read_only")
                admin("SELECT pg_reload_conf()")
            eventually(lambda: owner.count("done") == 100)
        assert "read-only" in str(recorder.of("environment_down")[0].error)
        assert_all_done(owner, 100)


def test_f13_no_connection_is_left(own_server: Postgres, own_url: str) -> None:
    """F13: `max_connections` is reached: the worker waits, says why, and works as soon as one is free."""
    recorder = EventRecorder()
    with owning(own_url) as owner:
        owner.insert(*range(1, 21))
        queue = jobs_queue()
        counting(queue)
        with hogging(own_url), working(make_worker(own_url, queue, listeners=[recorder])):
            eventually(lambda: recorder.of("environment_down"))
            hogging_ended.set()
            eventually(lambda: owner.count("done") == 20)
        assert "TooManyConnections" in str(recorder.of("environment_down")[0].error)
        assert_all_done(owner, 20)


hogging_ended = threading.Event()


@contextlib.contextmanager
def hogging(url: str) -> Iterator[None]:
    """Hold every connection of the server until `hogging_ended`."""
    full = threading.Event()
    hogging_ended.clear()

    async def hog() -> None:
        held = []
        while True:
            try:
                held.append(await asyncpg.connect(url, timeout=10))
            except asyncpg.TooManyConnectionsError:
                break
        full.set()
        while not hogging_ended.is_set():
            await asyncio.sleep(0.02)
        for connection in held:
            await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(hog()))
    thread.start()
    full.wait(20)
    try:
        yield
    finally:
        hogging_ended.set()
        thread.join(20)


def test_f13_the_owner_locks_a_row_for_longer_than_the_deadline(pg_url: str) -> None:
    """F13: a finish that waits for the owner's lock is repeated: done once, and so are the others."""
    with owning(pg_url) as owner, owning(pg_url, create=False) as watcher:
        owner.insert(1, 2)
        queue = jobs_queue(lease=30.0)
        runs = counting(queue, until=(is_locked := threading.Event()))
        recorder = EventRecorder()
        with working(make_worker(pg_url, queue, listeners=[recorder], deadline=0.5)):
            eventually(lambda: len(runs) == 2)
            owner("BEGIN")
            owner("UPDATE jobs SET size = 1 WHERE id = 1")
            is_locked.set()
            eventually(lambda: recorder.of("environment_down"))
            owner("COMMIT")
            eventually(lambda: watcher.count("done") == 2)
        assert runs == {1: 1, 2: 1}
        assert_all_done(watcher, 2)


def test_f13_a_deadlock_with_the_owner(pg_url: str) -> None:
    """F13: a settlement chosen as a deadlock's victim is repeated."""
    with owning(pg_url) as owner, owning(pg_url, create=False) as watcher:
        owner.insert(1)
        queue = jobs_queue(lease=30.0)
        runs = counting(queue, until=(is_locked := threading.Event()))
        recorder = EventRecorder()
        with working(make_worker(pg_url, queue, listeners=[recorder], deadline=10.0)):
            eventually(lambda: runs)
            owner("SET deadlock_timeout = '60s'")  # the worker's session will be the one that notices
            owner("BEGIN")
            owner("UPDATE jobs SET size = 1 WHERE id = 1")
            is_locked.set()
            eventually(lambda: watcher("SELECT 1 FROM pg_locks WHERE NOT granted"))
            owner("SELECT 1 FROM tabellion_attempts WHERE key = '1' FOR UPDATE")
            owner("COMMIT")
            eventually(lambda: watcher.count("done") == 1)
            counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            eventually(lambda: watcher(counted)[0]["deadlocks"] >= 1)  # else nothing was tested
        assert "environment_down" not in recorder.names, "a deadlock is no outage"
        assert_all_done(watcher, 1)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of sixteen megabytes: room for the database and the log it keeps before each checkpoint."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tabellion-test", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system is not allowed here; F17 fills the disk another way")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount; F17 fills the disk another way")
def test_f15_the_disk_is_full(tmp_path: Path) -> None:
    """F15: claims pause while the disk is full, nothing fails, and the work continues when there is room."""
    recorder = EventRecorder()
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk}/work.db"
        with owning(url) as owner:
            owner.insert(*range(1, 301))
            queue = jobs_queue(lease=30.0)
            counting(queue)
            with working(make_worker(url, queue, concurrency=5, listeners=[recorder])):
                eventually(lambda: owner.count("done") >= 20)
                ballast = disk / "ballast"
                with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
                eventually(lambda: recorder.of("environment_down"))
                ballast.unlink()
                eventually(lambda: owner.count("done") == 300)
            assert "full" in str(recorder.of("environment_down")[0].error)
            assert owner("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
            assert_all_done(owner, 300)


def test_f16_sqlite_is_locked_by_someone_else(sqlite_url: str) -> None:
    """F16: a lock held past the deadline is reported as such and costs no attempt."""
    recorder = EventRecorder()
    with owning(sqlite_url) as owner:
        owner.insert(*range(1, 41))
        queue = jobs_queue(lease=30.0)
        counting(queue)
        with working(make_worker(sqlite_url, queue, concurrency=5, listeners=[recorder], deadline=0.3)):
            eventually(lambda: owner.count("done") >= 5)
            holder = subprocess.Popen(
                [sys.executable, "-c", _HOLD, sqlite_url.removeprefix("sqlite:///")],
                stdin=subprocess.PIPE, preexec_fn=die_with_parent,
            )  # fmt: skip
            try:
                eventually(lambda: recorder.of("environment_down"))
            finally:
                holder.communicate(timeout=20)
            eventually(lambda: owner.count("done") == 40)
        assert "busy" in str(recorder.of("environment_down")[0].error)
        assert_all_done(owner, 40)


_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN EXCLUSIVE")
sys.stdin.read()
"""


def test_f17_writing_fails(sqlite_url: str, tmp_path: Path) -> None:
    """F17: writes fail with an I/O error: the connection is discarded, nothing is charged, the file stays intact."""
    with owning(sqlite_url) as owner:
        owner.insert(*range(1, 201))
        with worker_process(sqlite_url, tmp_path, seconds=0.02, lease=30.0, concurrency=4, deadline=1.0) as child:
            eventually(lambda: owner.count("done") >= 10)
            unlimited = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (20_000, unlimited[1]))
            eventually(lambda: _went_down(child.log))
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, unlimited)
            eventually(lambda: owner.count("done") == 200)
        assert owner("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert_all_done(owner, 200)


def _went_down(log: Path) -> bool:
    return "environment_down" in log.read_text() or log.stat().st_size >= 20_000


@pytest.mark.parametrize("skew", [-7 * 86400.0, 7 * 86400.0])
def test_f23_a_worker_whose_clock_is_wrong(url: str, owner: Owner, tmp_path: Path, skew: float) -> None:
    """F23: a worker's clock is a week off: leases follow the database's, so jobs longer than a lease still run once."""
    owner.insert(*range(1, 7))
    with (
        worker_process(url, tmp_path, id="wrong", skew=skew, seconds=2.5, lease=2.0, concurrency=3) as wrong,
        worker_process(url, tmp_path, id="right", seconds=2.5, lease=2.0, concurrency=3) as right,
    ):
        eventually(lambda: owner.count("done") == 6)
        runs = wrong.lines("start") + right.lines("start")
        assert wrong.lines("start"), "the worker with the wrong clock did nothing: this run tested nothing"
    assert sorted(entry["key"] for entry in runs) == [str(key) for key in range(1, 7)]
    assert_all_done(owner, 6)
    off = {
        "sqlite": "abs(julianday(started_at) - julianday('now')) * 86400.0",
        "postgresql": "abs(extract(epoch FROM started_at - clock_timestamp()))",
    }[owner.dialect]
    assert owner(f"SELECT count(*) AS n FROM jobs WHERE {off} > 3600") == [{"n": 0}]
    claimed = f"abs({seconds(owner, 'claimed_at')} - {NOW[owner.dialect]})"
    assert owner(f"SELECT count(*) AS n FROM tabellion_attempts WHERE {claimed} > 3600") == [{"n": 0}]


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_f24_the_databases_clock_jumps(url: str, owner: Owner, step: float) -> None:
    """F24: a jump of the clock may cost a retry, but never gives a second accepted result."""
    owner.insert(1)
    queue = jobs_queue(lease=60.0)
    clock = Clock(time.time())

    async def story() -> list[str]:
        async with Store(url, clock=clock) as first, Store(url, clock=clock) as second:
            accepted = []
            [job] = await first.claim(queue, 1, "first")
            clock.advance(step)
            await second.sweep(queue)
            for again in await second.claim(queue, 1, "second"):
                await second.finish(again, {"result": "second"})
                accepted.append("second")
            with contextlib.suppress(LeaseLost):
                await first.finish(job, {"result": "first"})
                accepted.append("first")
            return accepted

    accepted = asyncio.run(story())
    assert accepted == (["second"] if step > 0 else ["first"])
    assert owner.row(1)["result"] == accepted[0]
    assert owner.outcomes(1).count("done") == 1


def test_f38_a_migration_while_workers_run(url: str, owner: Owner) -> None:
    """F38: repeated migrations while a worker runs disturb nothing."""
    owner.insert(*range(1, 101))
    queue = jobs_queue()
    counting(queue, 0.01)

    async def migrate() -> None:
        for _ in range(10):
            async with Store(url) as store:
                await store.migrate()

    with working(make_worker(url, queue, concurrency=5, deadline=10.0)):
        eventually(lambda: owner.count("done") >= 5)
        asyncio.run(migrate())
        eventually(lambda: owner.count("done") == 100)
    assert_all_done(owner, 100)


def test_f38_a_migration_that_is_killed_midway(url: str, owner: Owner, tmp_path: Path) -> None:
    """F38: after a kill during a migration the register is either there or not; the next start continues."""
    owner.insert(1)
    with worker_process(url, tmp_path, failpoints="migrate.mid:kill") as child:
        wait_dead(child)
    with worker_process(url, tmp_path):
        eventually(lambda: owner.status(1) == "done")


def test_f38_a_newer_register(url: str, owner: Owner) -> None:
    """F38: an old worker rejects a newer register with a message, claims nothing, and leaves it as it is."""
    owner.insert(1)
    queue = jobs_queue()
    counting(queue)
    recorder = EventRecorder()
    drain(make_worker(url, queue))
    owner("INSERT INTO tabellion_schema (version) VALUES (999)")
    owner.insert(2)

    async def opened() -> None:
        store = Store(url)
        try:
            await store.open()
        finally:
            await store.close()

    with pytest.raises(NotMigrated, match="999"):
        asyncio.run(opened())
    with working(make_worker(url, queue, listeners=[recorder])):
        eventually(lambda: recorder.of("environment_down"))
    assert "upgrade tabellion" in str(recorder.of("environment_down")[0].error)
    assert owner.status(2) == "new"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_f39_behind_a_transaction_pooler(pg_url: str, tmp_path: Path) -> None:
    """F39: two workers behind a transaction pooler with three server connections: each row once, none charged."""
    with owning(pg_url) as owner, pooler(pg_url) as pooled:
        owner.insert(*range(1, 201))
        queue = jobs_queue(lease=2.0)
        runs = counting(queue)
        recorder = EventRecorder()
        with working(
            *(make_worker(pooled, queue, concurrency=10, listeners=[recorder], deadline=5.0) for _ in range(2))
        ):
            eventually(lambda: owner.count("done") == 200)
        assert set(runs.values()) == {1}
        assert "environment_down" not in recorder.names
        assert_all_done(owner, 200)
    gc.collect()  # the pooler leaves its connections to the collector: let it complain here


def test_f40_two_hundred_start_at_once(url: str, owner: Owner) -> None:
    """F40: two hundred stores open, claim and finish at the same moment: each gets one row, none fails."""
    owner.insert(*range(1, 201))
    queue = jobs_queue(lease=60.0)

    async def one(number: int) -> int:
        async with Store(url, connections=1, deadline=60.0) as store:
            taken = 0
            for job in await store.claim(queue, 1, f"w{number}"):
                await store.finish(job, {"result": f"{job.key}:{job.n}"})
                taken += 1
            return taken

    async def all_at_once() -> list[int]:
        async with Store(url) as first:
            await first.open()
        return await asyncio.gather(*(one(number) for number in range(200)))

    assert asyncio.run(all_at_once()) == [1] * 200
    assert_all_done(owner, 200)


def test_f40_no_orphaned_process_keeps_working(sqlite_url: str, tmp_path: Path) -> None:
    """F40: the supervisor is killed: its worker processes stop cleanly and release their jobs."""
    with owning(sqlite_url) as owner:
        owner.insert(1, 2, 3)
        log = tmp_path / "log"
        log.touch()
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--queues", "tests.faults.declared", "worker", "--processes", "2",
             "--concurrency", "1", "--grace", "0.1"],
            cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent,
            env=os.environ | {"DATABASE_URL": sqlite_url, "WORKER_LOG": str(log), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        pids: set[int] = set()
        try:
            pids = eventually(lambda: _pids(log) if len(_pids(log)) == 2 else set())
            supervisor.kill()
            supervisor.wait(10)
            eventually(lambda: all(_state(pid) in "XZ" for pid in pids))
        finally:
            supervisor.kill()
            supervisor.wait(10)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert owner.count("new") == 3
        assert {attempt["outcome"] for attempt in owner.attempts()} == {"released"}


def _pids(log: Path) -> set[int]:
    return {int(line.split()[0]) for line in log.read_text().splitlines()}


def test_two_crashes_in_a_row_quarantine_the_job(url: str, owner: Owner, tmp_path: Path) -> None:
    """A job that kills its worker twice in a row is quarantined with the evidence; the other jobs continue."""
    owner.insert(1)
    for number in (1, 2):
        with worker_process(url, tmp_path, id=f"victim-{number}", seconds=60, note="page 3", lease=2) as child:
            child.await_start(1)
            eventually(lambda: owner.attempts(1)[-1]["note"])
            child.send(signal.SIGKILL)
            wait_dead(child)
    owner.insert(2)
    with worker_process(url, tmp_path):
        eventually(lambda: owner.status(1) == "failed" and owner.status(2) == "done")
    assert owner.outcomes(1) == ["crashed", "quarantined"]
    error = owner.row(1)["error"]
    assert "quarantined after 2 crashes in a row" in error
    assert "victim-2" in error
    assert "page 3" in error


def test_sqlite_may_be_closed_while_in_use(sqlite_url: str) -> None:
    """Closing a store during calls neither crashes the process nor loses a call silently."""
    script = f"""
import asyncio
from tabellion import Store
async def main():
    store = Store({sqlite_url!r})
    await store.open()
    async def ask():
        for _ in range(50):
            try:
                await store.version()
                await store.database.fetch("UPDATE tabellion_schema SET applied_at = 1.0")
            except Exception as error:
                if "tabellion" not in type(error).__module__: raise
    async def close():
        for _ in range(100):
            await store.close()
            await asyncio.sleep(0)
    await asyncio.gather(*(ask() for _ in range(8)), close(), close())
    await store.close()
asyncio.run(main())
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


def test_a_file_that_is_not_a_database_is_not_a_crash(tmp_path: Path) -> None:
    """It is reported as an environment that does not answer."""
    path = tmp_path / "work.db"
    path.write_bytes(b"this is not a database" * 500)
    queue = jobs_queue()
    counting(queue)
    recorder = EventRecorder()
    with working(make_worker(f"sqlite:///{path}", queue, listeners=[recorder])):
        eventually(lambda: recorder.of("environment_down"))
    assert "not a database" in str(recorder.of("environment_down")[0].error)
    with pytest.raises(sqlite3.DatabaseError), contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT 1 FROM sqlite_master")
