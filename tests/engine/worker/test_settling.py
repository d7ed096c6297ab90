"""Endings as they are written: what handlers return, raise and attach, on both databases."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tabellion import Job, Permanent, RateLimited
from tests.table_owner import Owner, jobs_queue, owning, seconds
from tests.waiting import eventually
from tests.workers import EventRecorder, drain, make_worker, worker_process, working

pytestmark = pytest.mark.usefixtures("often")


def test_a_returned_dict_is_written_with_done(url: str, owner: Owner) -> None:
    """The handler's dict is written together with the done state."""
    owner.insert(1)
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        return {"result": f"{job['id']} by {job.worker}", "size": 7}

    drain(make_worker(url, queue, id="w1"))
    row = owner.row(1)
    assert (row["status"], row["result"], row["size"]) == ("done", "1 by w1", 7)
    assert owner.outcomes(1) == ["done"]


def test_permanent_fails_at_once(url: str, owner: Owner) -> None:
    """`Permanent` ends in failed after one attempt, with its text in the error column."""
    owner.insert(1)
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None:
        raise Permanent("empty PDF")

    drain(make_worker(url, queue))
    assert (owner.status(1), owner.row(1)["error"]) == ("failed", "empty PDF")
    assert owner.outcomes(1) == ["failed"]


def test_an_error_is_retried_until_attempts_run_out(url: str, owner: Owner) -> None:
    """Other exceptions are retried with backoff; after `max_attempts`, the first included, the job fails."""
    owner.insert(1)
    queue = jobs_queue(max_attempts=3)

    @queue.handler
    async def work(job: Job) -> None:
        raise OSError(f"try {job.attempt}")

    drain(make_worker(url, queue))
    assert owner.outcomes(1) == ["retried", "retried", "failed"]
    assert [attempt["attempt"] for attempt in owner.attempts(1)] == [1, 2, 3]
    assert owner.row(1)["attempts"] == 3
    assert str(owner.row(1)["error"]).startswith("OSError: try 3 (test_settling.py:")


def test_a_retried_job_waits_for_its_delay(url: str, owner: Owner) -> None:
    """A failed job is due again only after its delay, base·2ⁿ and up to half of that more."""
    owner.insert(1)
    queue = jobs_queue(retry_base=100.0)

    @queue.handler
    async def work(job: Job) -> None:
        raise OSError("no")

    with working(make_worker(url, queue)):
        eventually(lambda: owner.outcomes(1) == ["retried"])
        [attempt] = owner.attempts(1)
        [wait] = owner(
            f"SELECT {seconds(owner, 'retry_at')} - {seconds(owner, 'settled_at')} AS s FROM tabellion_attempts"
        )
        assert 99.9 <= wait["s"] <= 150.1
        assert attempt["attempt"] == 1
    assert owner.outcomes(1) == ["retried"]


def test_a_rate_limit_does_not_spend_the_attempt(url: str, owner: Owner) -> None:
    """`RateLimited` releases the job, and its next claim is still attempt 1."""
    owner.insert(1)
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None:
        if job.deferrals < 2:
            raise RateLimited(after=0.01)

    drain(make_worker(url, queue))
    assert owner.outcomes(1) == ["limited", "limited", "done"]
    assert [attempt["attempt"] for attempt in owner.attempts(1)] == [1, 1, 1]


UNWRITABLE: dict[str, Any] = {
    "a circle": lambda job: _circle(),
    "also that is no SQL": lambda job: job.also("NOT SQL AT ALL"),
    "a cost that is no number": lambda job: setattr(job, "cost", "much"),
}


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["result"] = circle
    return circle


@pytest.mark.parametrize("what", UNWRITABLE)
def test_an_unwritable_result_affects_no_other_job(url: str, owner: Owner, what: str) -> None:
    """A result that cannot be written ends its own job, and delays no other."""
    owner.insert(1, 2)
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> Any:
        if job.key == 1:
            return UNWRITABLE[what](job)
        await asyncio.sleep(0.1)
        return {"result": "ok"}

    with working(make_worker(url, queue)):
        eventually(lambda: owner.status(2) == "done", within=8)
        eventually(lambda: owner.status(1) == "failed", within=8)
        owner.insert(3)
        eventually(lambda: owner.status(3) == "done", within=8)


def test_attached_statements_commit_with_the_finish(url: str, owner: Owner) -> None:
    """Statements attached to a job take effect exactly when it is done."""
    owner.insert(1)
    owner("CREATE TABLE pages (job integer, n integer)")
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None:
        job.also("INSERT INTO pages (job, n) VALUES (:job, :n)", job=job.key, n=job.attempt)
        if job.attempt == 1:
            raise OSError("not yet")

    drain(make_worker(url, queue))
    assert owner("SELECT job, n FROM pages") == [{"job": 1, "n": 2}]


def test_a_handler_may_raise_cancelled_error_itself(url: str, owner: Owner) -> None:
    """A CancelledError raised by the handler spends the attempt like any other error; it does not loop forever."""
    owner.insert(1)
    queue = jobs_queue(max_attempts=2)

    @queue.handler
    async def work(job: Job) -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    with working(make_worker(url, queue)):
        eventually(lambda: owner.status(1) == "failed", within=8)
    assert owner.outcomes(1) == ["retried", "failed"]


@pytest.mark.parametrize("threads", [False, True])
def test_a_handler_that_exits_does_not_end_the_worker(url: str, owner: Owner, tmp_path: Path, threads: bool) -> None:
    """`sys.exit()` in a handler is an error of that job: the worker continues and reports it."""
    owner.insert(1)
    with worker_process(url, tmp_path, exits=1, threads=threads, max_attempts=2, lease=0.5) as child:
        eventually(lambda: owner.status(1) == "failed" or child.process.poll() is not None, within=8)
        assert child.process.poll() is None, child.errors()
        assert "SystemExit" in owner.row(1)["error"]
        owner.insert(2)
        eventually(lambda: owner.status(2) == "done", within=8)


def test_a_locked_row_does_not_delay_other_endings(pg_url: str) -> None:
    """A forgotten lock on one running row delays that row's ending only, and is not an outage."""
    with owning(pg_url) as owner, owning(pg_url, create=False) as psql:
        owner.insert(1, 2, 3)
        queue = jobs_queue(lease=60)
        go = threading.Event()

        @queue.handler
        async def work(job: Job) -> dict[str, Any]:
            await asyncio.to_thread(go.wait, 30)
            return {"result": "ok"}

        recorder = EventRecorder()
        with working(make_worker(pg_url, queue, listeners=[recorder])):
            eventually(lambda: owner.count("running") == 3)
            psql("BEGIN")
            psql("SELECT 1 FROM jobs WHERE id = 2 FOR UPDATE")
            go.set()
            eventually(lambda: (owner.status(1), owner.status(3)) == ("done", "done"))
            assert owner.status(2) == "running"
            psql("ROLLBACK")
            eventually(lambda: owner.status(2) == "done")
        assert "environment_down" not in recorder.names


def test_a_result_for_a_missing_table_delays_no_other(url: str, owner: Owner) -> None:
    """It is reported once and written when the table exists; the environment stays up."""
    owner.insert(1, 2, 3)
    queue = jobs_queue(lease=60)

    @queue.handler
    async def work(job: Job) -> None:
        if job.key == 2:
            job.also("INSERT INTO tabellion_extra (job) VALUES (:job)", job=job.key)

    diary = EventRecorder()
    with working(make_worker(url, queue, listeners=[diary])):
        eventually(lambda: (owner.status(1), owner.status(3)) == ("done", "done"))
        eventually(lambda: diary.of("result_refused"))
        assert owner.status(2) == "running"
        owner("CREATE TABLE tabellion_extra (job integer)")
        eventually(lambda: owner.status(2) == "done", within=20)
    [event] = diary.of("result_refused")
    assert (event.key, "tabellion_extra" in (event.error or "")) == ("2", True)
    assert "environment_down" not in diary.names
    assert owner("SELECT job FROM tabellion_extra") == [{"job": 2}]
