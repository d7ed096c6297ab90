"""Running jobs: notes, timeouts, renewals, cancels and owners' edits, on both databases."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from tabellion import Job, Store
from tabellion.engine import controls
from tabellion.engine.settlement import Settlement
from tabellion.engine.worker.leases import Leases
from tabellion.engine.worker.runner import Run, Runner, Why
from tabellion.errors import StoreError, TabellionError
from tests.table_owner import NOW, Owner, jobs_queue, owning, seconds
from tests.waiting import eventually
from tests.workers import EventRecorder, ask, drain, make_worker, working

pytestmark = pytest.mark.usefixtures("often")


def test_notes_are_visible_while_the_job_runs(url: str, owner: Owner) -> None:
    """`job.note` shows in the register before the handler ends."""
    owner.insert(1)
    queue = jobs_queue()
    seen = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        job.note("page 1 of 2")
        while not seen.is_set():
            await asyncio.sleep(0.01)
        job.note("page 2 of 2")

    with working(make_worker(url, queue)):
        eventually(lambda: [attempt["note"] for attempt in owner.attempts(1)] == ["page 1 of 2"])
        assert owner.attempts(1)[0]["settled_at"] is None
        seen.set()
        eventually(lambda: owner.status(1) == "done")
    assert owner.attempts(1)[0]["note"] == "page 2 of 2"


def test_times_are_renewed_with_the_lease_where_asked(url: str, owner: Owner) -> None:
    """A monitor that judges rows by age sees the start of a live job move on."""
    owner.insert(1)
    queue = jobs_queue(renew_mirrors=True)
    seen = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        while not seen.is_set():
            await asyncio.sleep(0.01)

    def started_at() -> object:
        return owner("SELECT started_at FROM jobs")[0]["started_at"]

    with working(make_worker(url, queue)):
        first = eventually(started_at)
        eventually(lambda: started_at() != first)
        seen.set()
        eventually(lambda: owner.status(1) == "done")
    assert [attempt["outcome"] for attempt in owner.attempts(1)] == ["done"]


STRANGE: dict[str, Any] = {"no text": 5, "a nul": "a\x00b", "half a character": "\ud800"}


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_note_does_not_take_the_environment_down(url: str, owner: Owner, what: str) -> None:
    """A note that cannot be written affects its own job only: other leases are renewed, the database is up."""
    owner.insert(1, 2)
    queue = jobs_queue(lease=3.0)
    recorder = EventRecorder()
    noted, go = threading.Event(), threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        if job.key == 1:
            with contextlib.suppress(TypeError, ValueError, TabellionError):
                job.note(STRANGE[what])
            noted.set()
        while not go.is_set():
            await asyncio.sleep(0.01)

    with working(make_worker(url, queue, listeners=[recorder])):
        assert noted.wait(20)
        lease = eventually(lambda: owner.attempts(2)[0]["lease_until"])
        eventually(lambda: owner.attempts(2)[0]["lease_until"] != lease)
        go.set()
        eventually(lambda: owner.status(2) == "done")
    assert owner.outcomes(2) == ["done"]
    assert "environment_down" not in recorder.names


def test_a_timeout_stops_a_coroutine_and_retries(url: str, owner: Owner) -> None:
    """A handler past its queue's timeout is cancelled, and the job is retried."""
    owner.insert(1)
    queue = jobs_queue(timeout=0.2)
    stopped: list[int] = []

    @queue.handler
    async def work(job: Job) -> None:
        if job.attempt == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.append(job.attempt)
                raise

    recorder = EventRecorder()
    drain(make_worker(url, queue, listeners=[recorder]))
    assert owner.outcomes(1) == ["retried", "done"]
    assert owner.attempts(1)[0]["error"] == "timed out after 0.2 s"
    assert stopped == [1]
    assert len(recorder.of("timed_out")) == 1


def test_a_timeout_stops_a_thread_and_retries(url: str, owner: Owner) -> None:
    """A plain function past its timeout is interrupted at its next line, and the job is retried."""
    owner.insert(1)
    queue = jobs_queue(timeout=0.2)
    reached: list[int] = []

    @queue.handler
    def work(job: Job) -> None:
        ends = time.monotonic() + 30
        while job.attempt == 1 and time.monotonic() < ends:
            time.sleep(0.005)
        reached.append(job.attempt)

    drain(make_worker(url, queue))
    assert owner.outcomes(1) == ["retried", "done"]
    assert reached == [2]


@pytest.mark.parametrize("how", ["async", "thread"])
def test_a_handler_that_will_not_stop_is_settled_without_it(url: str, owner: Owner, how: str) -> None:
    """A handler stuck in a call past its timeout loses its job when the lease ends; its late result changes nothing."""
    owner.insert(1)
    queue = jobs_queue(timeout=0.2, lease=1.5)  # shorter, and a busy machine alone could cost it
    stuck, late = threading.Event(), threading.Event()

    def hang(job: Job) -> dict[str, Any]:
        if job.attempt > 1:
            return {"result": "second"}
        try:
            stuck.wait(20)
        finally:
            late.set()
        return {"result": "first"}

    async def hang_loop(job: Job) -> dict[str, Any]:
        return hang(job)

    if how == "async":
        queue.handler(hang_loop)
    else:
        queue.handler(hang)
    with working(make_worker(url, queue, id="stuck"), make_worker(url, queue, id="free")):
        eventually(lambda: owner.attempts(1))
        try:
            eventually(lambda: owner.outcomes(1)[0] == "retried")
        finally:
            stuck.set()
        eventually(lambda: owner.status(1) == "done" and late.is_set())
    assert owner.outcomes(1) == ["retried", "done"]
    assert owner.row(1)["result"] == "second"
    assert "did not stop" in owner.attempts(1)[0]["error"]


def test_blocking_the_loop_for_three_leases_costs_no_lease(url: str, owner: Owner) -> None:
    """A handler that blocks its event loop for three leases is not run twice while another worker competes."""
    owner.insert(1)
    queue = jobs_queue(lease=1.2)  # shorter, and a busy machine alone could cost it
    runs: list[int] = []

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        runs.append(job.n)
        time.sleep(3.6)
        return {"result": str(job.n)}

    with working(make_worker(url, queue, id="a"), make_worker(url, queue, id="b")):
        eventually(lambda: owner.status(1) == "done")
    assert runs == [1]
    assert owner.outcomes(1) == ["done"]


def test_a_worker_whose_loop_is_blocked_claims_no_more(url: str, owner: Owner) -> None:
    """Jobs are not claimed for a blocked event loop: another worker does them meanwhile."""
    owner.insert(1)
    queue = jobs_queue(lease=1.5)
    free = threading.Event()

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        if job.key == 1:
            free.wait(30)
        return {"result": job.worker}

    try:
        with working(make_worker(url, queue, id="blocked", concurrency=10)):
            eventually(lambda: owner.status(1) == "running")
            with working(make_worker(url, queue, id="free", concurrency=1)):
                owner.insert(*range(2, 42))
                eventually(lambda: owner.count("done") == 40, within=10)
                assert owner.status(1) == "running"
                free.set()
    finally:
        free.set()


def test_only_jobs_given_to_the_loop_count_as_not_started() -> None:
    """A job waiting for a slot is not released because the loop is blocked: the claim loop does that."""
    queue = jobs_queue()

    async def work(job: Job) -> None: ...

    queue.handler(work)

    async def go() -> list[Any]:
        runs = [Run(Job(queue, key, str(key), {}, n=1, token=str(key), attempt=1, worker="w")) for key in (1, 2)]
        leases = Leases(Store("sqlite://"))
        leases.add(runs, 0.0)
        Runner(asyncio.get_running_loop(), lambda _run, _ending: None).start(runs[:1])
        return [run.job.key for run in leases.find_unstarted(-1.0)]

    assert asyncio.run(go()) == [1]


@pytest.mark.parametrize("how", ["async", "thread"])
def test_a_cancelled_job_stops_its_handler(url: str, owner: Owner, how: str) -> None:
    """A cancel fails the row at once and stops the handler, long before the lease ends."""
    owner.insert(1)
    queue = jobs_queue(lease=120.0)
    started, ended = threading.Event(), threading.Event()

    async def on_loop(job: Job) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    def in_thread(job: Job) -> None:
        started.set()
        try:
            for _ in range(6000):
                time.sleep(0.01)
        finally:
            ended.set()

    if how == "async":
        queue.handler(on_loop)
    else:
        queue.handler(in_thread)
    with working(make_worker(url, queue)):
        started.wait(20)
        assert ask(url, lambda store: controls.cancel(store, queue, 1, "not needed"))
        assert (owner.status(1), owner.row(1)["error"]) == ("failed", "not needed")
        eventually(ended.is_set)
    assert owner.outcomes(1) == ["cancelled"]


@pytest.mark.parametrize("edit", ["UPDATE jobs SET status = 'new' WHERE id = 1", "DELETE FROM jobs WHERE id = 1"])
def test_the_owners_edit_stops_the_handler(url: str, owner: Owner, edit: str) -> None:
    """An owner's edit of a running row stops its handler at the next renewal; then the row is claimed again."""
    owner.insert(1)
    queue = jobs_queue(lease=1.5)
    runs: list[int] = []
    stopped = threading.Event()

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        runs.append(job.n)
        if job.n == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.set()
                raise
        return {"result": str(job.n)}

    with working(make_worker(url, queue)):
        eventually(lambda: runs)
        owner(edit)
        eventually(stopped.is_set)
        if edit.startswith("UPDATE"):
            eventually(lambda: owner.status(1) == "done")
    again = edit.startswith("UPDATE")
    assert owner.outcomes(1) == (["superseded", "done"] if again else ["superseded"])
    assert runs == ([1, 2] if again else [1])


def test_an_owners_edit_is_not_delayed_by_a_late_error(url: str, owner: Owner) -> None:
    """A row its owner set back to ready is ready now, even when the superseded handler then requested a retry."""
    owner.insert(1)
    queue = jobs_queue(lease=60.0, retry_base=500.0)
    go = threading.Event()
    runs: list[int] = []

    @queue.handler
    async def work(job: Job) -> None:
        runs.append(job.n)
        if job.n == 1:
            while not go.is_set():
                await asyncio.sleep(0.01)
            raise OSError("late")

    with working(make_worker(url, queue)):
        eventually(lambda: runs)
        owner("UPDATE jobs SET status = 'new' WHERE id = 1")
        go.set()
        eventually(lambda: owner.status(1) == "done", within=8)
    assert owner.outcomes(1) == ["superseded", "done"]


def test_a_worker_that_cannot_renew_stops_its_own_jobs(url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals fail: before the lease ends the worker stops its handler, so that it cannot overlap with another one."""
    owner.insert(1)
    queue = jobs_queue(lease=5.0)
    stopped: list[float] = []
    recorder = EventRecorder()

    @queue.handler
    async def work(job: Job) -> None:
        if job.n > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            [now] = owner_again("SELECT " + NOW[owner.dialect] + " AS now")
            [lease] = owner_again(f"SELECT {seconds(owner, 'lease_until')} AS until FROM tabellion_attempts")
            stopped.append(float(lease["until"]) - float(now["now"]))
            raise

    kept = Store.renew

    async def refuse(store: Store, jobs: Any) -> Any:
        if not stopped:
            raise StoreError("no")
        return await kept(store, jobs)

    monkeypatch.setattr(Store, "renew", refuse)
    owner_again = _in_thread(url)
    with working(make_worker(url, queue, listeners=[recorder])):
        eventually(lambda: owner.status(1) == "done")
    assert len(stopped) == 1
    assert stopped[0] > 0, "the handler ran past its lease"
    assert owner.outcomes(1) == ["released", "done"]


def _in_thread(url: str) -> Any:
    """An owner that may be queried from inside a running event loop."""

    def asked(statement: str) -> list[dict[str, Any]]:
        answers: list[list[dict[str, Any]]] = []

        def go() -> None:
            with owning(url, create=False) as owner:
                answers.append(owner(statement))

        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
        return answers[0]

    return asked


@pytest.mark.parametrize("why", ["stopping", "timeout", "gone"])
def test_a_job_stopped_before_its_handler_started_is_reported(why: Why) -> None:
    """A handler stopped before its first line has run is still reported: its slot is free again."""
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None:
        await asyncio.sleep(60)

    async def story() -> list[Settlement | None]:
        reports: list[Settlement | None] = []
        runner = Runner(asyncio.get_running_loop(), lambda _, settlement: reports.append(settlement))
        run = Run(Job(queue, 1, "1", {"id": 1}, n=1, token="t", attempt=1, worker="w"))
        runner.start([run])
        runner.stop(run, why)
        async with asyncio.timeout(10):
            while not reports:
                await asyncio.sleep(0)
        return reports

    [settlement] = asyncio.run(story())
    assert (settlement.outcome if settlement else None) == {"stopping": "released", "timeout": "retried"}.get(why)


def test_a_thread_stopped_as_it_returns_is_reported() -> None:
    """A threaded handler stopped at the moment it returns is reported: its slot is free again."""
    queue = jobs_queue()
    ending, stop_requested = threading.Event(), threading.Event()
    reports: list[Settlement | None] = []

    @queue.handler
    def work(job: Job) -> None:
        pass

    class Slow(Job):
        """A job whose folder takes a while to remove."""

        def close(self) -> None:
            """Remove the folder in many small steps."""
            ending.set()
            stop_requested.wait(10)
            for _ in range(1000):
                time.sleep(0)

    async def story() -> None:
        runner = Runner(asyncio.get_running_loop(), lambda _, settlement: reports.append(settlement))
        run = Run(Slow(queue, 1, "1", {"id": 1}, n=1, token="t", attempt=1, worker="w"))
        runner.start([run])
        await asyncio.to_thread(ending.wait, 10)
        run.ended_at = None  # what the engine's thread saw when it looked, a moment ago
        runner.stop(run, "timeout")
        stop_requested.set()
        assert run.thread is not None
        await asyncio.to_thread(run.thread.join, 10)

    asyncio.run(story())
    assert len(reports) == 1
