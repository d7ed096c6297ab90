"""The worker as a whole: how it stops, its id, what it reports, what it rejects."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment, Job, Permanent, Queue, Store, Worker
from tabellion.errors import ConfigurationError, DeclarationError
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import EventRecorder, RunningWorker, drain, make_worker, worker_process, working

pytestmark = pytest.mark.usefixtures("often")


def test_stop_lets_handlers_finish(url: str, owner: Owner) -> None:
    """A worker asked to stop claims no more and lets running jobs finish."""
    owner.insert(1)
    queue = jobs_queue()
    recorder = EventRecorder()
    go = threading.Event()

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        while not go.is_set():
            await asyncio.sleep(0.01)
        return {"result": "finished"}

    worker = make_worker(url, queue, listeners=[recorder])
    with working(worker):
        eventually(lambda: recorder.of("claimed"))
        worker.stop()
        eventually(lambda: recorder.of("worker_stopping"))
        owner.insert(2)
        go.set()
        eventually(lambda: recorder.of("worker_stopped"))
    assert (owner.status(1), owner.row(1)["result"]) == ("done", "finished")
    assert (owner.status(2), owner.attempts(2)) == ("new", [])


@pytest.mark.parametrize("how", ["async", "thread"])
def test_jobs_are_released_uncharged_after_the_grace_time(url: str, owner: Owner, how: str) -> None:
    """Jobs that do not finish within the grace time are ready again, as if never tried."""
    owner.insert(1)
    queue = jobs_queue()
    started = threading.Event()

    async def on_loop(job: Job) -> None:
        started.set()
        await asyncio.sleep(60)

    def in_thread(job: Job) -> None:
        started.set()
        for _ in range(6000):
            time.sleep(0.01)

    if how == "async":
        queue.handler(on_loop)
    else:
        queue.handler(in_thread)
    worker = make_worker(url, queue, grace=0.2)
    with working(worker):
        started.wait(20)
    assert owner.outcomes(1) == ["released"]
    assert (owner.status(1), owner.row(1)["attempts"], owner.row(1)["worker"]) == ("new", 0, None)
    second = jobs_queue()
    attempts: list[int] = []

    @second.handler
    async def again(job: Job) -> None:
        attempts.append(job.attempt)

    drain(make_worker(url, second))
    assert attempts == [1]


def test_a_handler_that_ignores_the_stop_does_not_keep_its_row(url: str, owner: Owner) -> None:
    """A threaded handler that does not stop still loses its row; the worker ends."""
    owner.insert(1)
    queue = jobs_queue()
    started, free = threading.Event(), threading.Event()

    @queue.handler
    def work(job: Job) -> dict[str, Any]:
        started.set()
        free.wait(30)
        return {"result": "too late"}

    worker = make_worker(url, queue, grace=0.1)
    try:
        with working(worker):
            started.wait(20)
    finally:
        free.set()
    assert owner.outcomes(1) == ["released"]
    assert (owner.status(1), owner.row(1)["result"]) == ("new", None)


def test_an_embedded_worker_ends_when_its_task_is_cancelled(url: str, owner: Owner) -> None:
    """`await worker.serve()` in another program's loop: cancelling the task releases the jobs and returns."""
    owner.insert(1)
    queue = jobs_queue()
    started = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        started.set()
        await asyncio.sleep(60)

    async def application() -> str:
        task = asyncio.create_task(make_worker(url, queue).serve())
        while not started.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "ended"

    assert asyncio.run(application()) == "cancelled"
    assert owner.outcomes(1) == ["released"]
    assert owner.status(1) == "new"


def test_sigterm_lets_handlers_finish_and_exits_with_zero(url: str, owner: Owner, tmp_path: Path) -> None:
    """SIGTERM: no new claims, the running job finishes, exit code 0."""
    owner.insert(1)
    with worker_process(url, tmp_path, seconds=0.5, concurrency=1) as child:
        child.await_start(1)
        child.send(signal.SIGTERM)
        owner.insert(2)
        assert child.wait() == 0
    assert (owner.status(1), owner.status(2)) == ("done", "new")
    assert owner.attempts(2) == []


def test_a_second_signal_stops_at_once(url: str, owner: Owner, tmp_path: Path) -> None:
    """The second SIGTERM releases the jobs at once, uncharged; exit code 0."""
    owner.insert(1)
    with worker_process(url, tmp_path, seconds=60) as child:
        child.await_start(1)
        child.send(signal.SIGTERM)
        child.await_event("worker_stopping")
        child.send(signal.SIGTERM)
        assert child.wait() == 0
    assert owner.outcomes(1) == ["released"]
    assert (owner.status(1), owner.row(1)["attempts"]) == ("new", 0)
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_stop_before_the_start(url: str, owner: Owner) -> None:
    """A worker asked to stop before it has connected ends without claiming."""
    owner.insert(1)
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None:
        pass

    worker = make_worker(url, queue)
    worker.stop()
    RunningWorker(worker).end()
    assert owner.attempts(1) == []


def test_events_come_in_order(url: str, owner: Owner) -> None:
    """Exactly these events for one job that fails once and then succeeds."""
    owner.insert(1)
    queue = jobs_queue()
    recorder = EventRecorder()

    @queue.handler
    async def work(job: Job) -> None:
        if job.attempt == 1:
            raise OSError("once")

    drain(make_worker(url, queue, listeners=[recorder], id="w1"))
    assert recorder.names == [
        "worker_started",
        "environment_up",
        "claimed",
        "retried",
        "claimed",
        "done",
        "worker_stopping",
        "worker_stopped",
    ]
    done = recorder.of("done")[0]
    assert (done.worker, done.environment, done.queue, done.key, done.attempt) == ("w1", "prod", "jobs", "1", 2)


def test_an_id_in_use_is_refused(url: str, owner: Owner, tmp_path: Path) -> None:
    """A second live worker with the same id, possibly on another machine, is refused; the first continues."""
    queue = jobs_queue()
    recorder = EventRecorder()

    @queue.handler
    async def work(job: Job) -> None:
        pass

    first = make_worker(url, queue, id="worker-1", listeners=[recorder], folder=tmp_path / "host-1")
    with working(first):
        eventually(lambda: recorder.of("environment_up"))
        with pytest.raises(ConfigurationError, match="worker-1"):
            RunningWorker(make_worker(url, queue, id="worker-1", folder=tmp_path / "host-2")).end()
        owner.insert(1)
        eventually(lambda: owner.status(1) == "done")


def test_an_id_in_use_on_this_machine_is_refused(url: str, owner: Owner, tmp_path: Path) -> None:
    """On one machine both would share a temp folder: the second is refused, the first one's files stay."""
    queue = jobs_queue()
    recorder, refused = EventRecorder(), EventRecorder()

    @queue.handler
    async def work(job: Job) -> None:
        pass

    first = make_worker(url, queue, id="worker-1", listeners=[recorder], folder=tmp_path)
    with working(first):
        eventually(lambda: recorder.of("environment_up"))
        with pytest.raises(ConfigurationError, match="worker-1"):
            RunningWorker(make_worker(url, queue, id="worker-1", listeners=[refused], folder=tmp_path)).end()
        assert (tmp_path / "worker-1").is_dir()
        assert not refused.events, "it did not start, and so it does not stop"


def test_an_id_may_be_used_again_after_a_crash(url: str, owner: Owner, tmp_path: Path) -> None:
    """A worker with a given id that was killed may be started again at once, on the same machine."""
    owner.insert(1)
    with worker_process(url, tmp_path, id="worker-1", seconds=60) as killed:
        killed.await_start(1)
        killed.send(signal.SIGKILL)
        killed.wait()
    with worker_process(url, tmp_path, id="worker-1") as again:
        eventually(lambda: owner.status(1) == "done" or again.process.poll() is not None)
        assert again.process.poll() is None, again.errors()


def test_default_ids_differ(url: str) -> None:
    """Two workers of one process never share an id."""
    queue = jobs_queue()
    queue.handler(lambda job: None)
    ids = {make_worker(url, queue).id for _ in range(20)}
    assert len(ids) == 20
    assert all(one.startswith("worker-") and f"-{os.getpid()}-" in one for one in ids)


def test_the_register_records_the_worker(url: str, owner: Owner) -> None:
    """A worker that stopped normally is marked so in the roster, with its counts."""
    owner.insert(1, 2)
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None:
        if job.key == 2:
            raise Permanent("no")

    drain(make_worker(url, queue, id="w1"))
    [member] = owner("SELECT * FROM tabellion_workers")
    assert (member["id"], member["pid"], member["ending"]) == ("w1", os.getpid(), "stopped normally")
    assert (member["done"], member["failed"], member["busy"]) == (1, 1, 0)
    assert member["stopped_at"] is not None


def test_two_environments_with_one_name_are_rejected(url: str) -> None:
    """Environment names identify databases, so they must differ."""
    queue = jobs_queue()
    queue.handler(lambda job: None)
    with pytest.raises(ConfigurationError, match="'prod'"):
        Worker([Environment("prod", url), Environment("prod", url)], [queue])


def test_a_queue_without_a_handler_is_rejected(url: str) -> None:
    """The error is raised at once."""
    with pytest.raises(DeclarationError, match="no handler"):
        make_worker(url, jobs_queue())


def test_queues_that_cannot_be_together_are_rejected(sqlite_url: str) -> None:
    """A worker checks its queues against each other."""
    queue = jobs_queue()
    queue.handler(lambda job: None)
    with pytest.raises(DeclarationError, match="two queues are named 'jobs'"):
        Worker([Environment("prod", sqlite_url)], [queue, queue])


def test_run_raises_declaration_errors(sqlite_url: str) -> None:
    """`run()` raises them too, and restores the process's signal handlers."""
    queue = jobs_queue()
    queue.handler(lambda job: None)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(DeclarationError, match="jobs"):
        make_worker(sqlite_url, queue).run()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_job_folder_is_created_on_demand_and_removed(url: str, owner: Owner, tmp_path: Path) -> None:
    """A job gets its own folder on first use; it is removed whatever the ending."""
    owner.insert(1, 2, 3)
    queue = jobs_queue(max_attempts=1)
    folders: dict[int, Path] = {}
    before: list[int] = []

    @queue.handler
    async def work(job: Job) -> None:
        assert job.root is not None
        if job.key == 1:
            before.append(len([path for path in job.root.iterdir() if path.is_dir()]))
            return
        folders[job.key] = job.folder
        (job.folder / "page.png").write_bytes(b"PNG")
        assert job.folder.parent == job.root
        if job.key == 3:
            raise OSError("broken")

    base = tmp_path / "temp"
    drain(make_worker(url, queue, folder=base, concurrency=1))
    assert before == [0]
    assert set(folders) == {2, 3}
    assert len(set(folders.values())) == 2
    assert list(base.iterdir()) == []


def test_a_row_between_two_stages_keeps_a_worker_from_being_idle(
    url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that reaches the second queue just after that was checked is worked before the worker ends."""
    first, second = jobs_queue("first", done="halfway"), jobs_queue("second", ready="halfway", running="finishing")
    has_work, claim, checked = Store.has_work, Store.claim, threading.Event()

    @first.handler
    async def begin(job: Job) -> None:
        pass

    @second.handler
    async def finish(job: Job) -> None:
        pass

    async def check(store: Store, queue: Queue) -> bool:
        found = await has_work(store, queue)
        if queue is second and not recorder.of("done"):
            await asyncio.to_thread(insert)
            while not recorder.of("done"):
                await asyncio.sleep(0.01)
        elif recorder.of("done"):
            checked.set()
        return found

    async def claim_late(store: Store, queue: Queue, *arguments: Any, **options: Any) -> Any:
        while queue is second and recorder.of("done") and not checked.is_set():
            await asyncio.sleep(0.01)
        return await claim(store, queue, *arguments, **options)

    def insert() -> None:
        with owning(url, create=False) as other:
            other.insert(1)

    recorder = EventRecorder()
    monkeypatch.setattr(Store, "has_work", check)
    monkeypatch.setattr(Store, "claim", claim_late)
    drain(make_worker(url, second, first, listeners=[recorder]))
    assert owner.status(1) == "done"
