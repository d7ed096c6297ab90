"""The testing kit for users: run one job inline, set the clock, assert on outcomes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tabellion import Job, Permanent, Queue, RateLimited, Store
from tabellion.testing import Clock, run_job, work_off
from tests.engine.made_tables import asynchronous

STATES: dict[str, Any] = {"ready": "new", "running": "working", "done": "done", "failed": "failed"}


def queue_with(function: Any, **options: Any) -> Queue:
    """Return a queue whose handler is this function."""
    queue = Queue("tasks", **STATES, **options)
    queue.handler(function)
    return queue


def test_a_clock_moves_only_when_advanced() -> None:
    """It stands still otherwise."""
    clock = Clock(100)
    assert clock() == clock() == 100
    clock.advance(2.5)
    assert clock() == 102.5


def test_a_handlers_result() -> None:
    """What would be written, noted and attached, without a database."""

    async def handler(job: Job) -> dict[str, Any]:
        job.note("page 1")
        job.note("page 2")
        job.also("INSERT INTO pages VALUES (:n)", n=1)
        return {"total": job["amount"] * 2, "tries": job.attempt}

    result = run_job(queue_with(handler), {"id": 7, "amount": 6}, attempt=2)
    assert (result.outcome, result.values, result.error) == ("done", {"total": 12, "tries": 2}, None)
    assert result.notes == ("page 1", "page 2")
    assert result.also == (("INSERT INTO pages VALUES (:n)", {"n": 1}),)
    assert result.job is not None
    assert result.job.key == 7


def test_a_plain_function_is_a_handler_too() -> None:
    """`def` and `async def` are recognised."""
    assert run_job(queue_with(lambda job: {"x": 1}), {}).values == {"x": 1}
    assert run_job(queue_with(lambda job: None), {}).outcome == "done"


@pytest.mark.parametrize(
    ("error", "attempt", "outcome"),
    [
        (Permanent("empty PDF"), 1, "failed"),
        (RateLimited(after=30), 1, "limited"),
        (ValueError("odd"), 1, "retried"),
        (ValueError("odd"), 4, "failed"),
        (TimeoutError(), 1, "retried"),
    ],
)
def test_each_outcome_of_a_handler(error: Exception, attempt: int, outcome: str) -> None:
    """A raised exception ends the job as in a worker."""

    def handler(job: Job) -> None:
        raise error

    result = run_job(queue_with(handler), {"id": 1}, attempt=attempt)
    assert result.outcome == outcome
    assert result.error
    assert (result.after is not None) == (outcome in ("limited", "retried"))


def test_a_result_that_is_not_a_dict() -> None:
    """The error is the one of production."""
    result = run_job(queue_with(lambda job: ["x"]), {})
    assert result.outcome == "failed"
    assert "return a dict of columns" in (result.error or "")


def test_the_jobs_folder_is_removed() -> None:
    """A job run inline has its own temp folder, and leaves nothing."""
    seen: list[Path] = []

    def handler(job: Job) -> None:
        (job.folder / "x").write_text("x")
        seen.append(job.folder)

    run_job(queue_with(handler), {})
    assert not seen[0].exists()


def test_a_queue_without_a_handler() -> None:
    """There is nothing to run, and the error says so."""
    with pytest.raises(ValueError, match="'tasks' has no handler"):
        run_job(Queue("tasks", **STATES), {})


def test_draining_a_queue(tmp_path: Path) -> None:
    """Every due row in order, each with its outcome; rows due later wait for the clock."""
    clock = Clock()
    calls: list[int] = []

    def handler(job: Job) -> dict[str, Any]:
        calls.append(job.key)
        if job.key == 2 and job.attempt == 1:
            raise ValueError("odd")
        if job.key == 3:
            raise Permanent("never")
        return {"result": f"r{job.key}"}

    async def story() -> None:
        queue = queue_with(handler, retry_base=10)
        async with Store(f"sqlite:///{tmp_path}/work.db", clock=clock) as store:
            await store.database.fetch("CREATE TABLE tasks (id integer PRIMARY KEY, status text, result text)")
            await store.add_many(queue, [{"id": number} for number in (1, 2, 3)])
            results = await work_off(store, queue)
            assert [(result.job and result.job.key, result.outcome) for result in results] == [
                (1, "done"), (2, "retried"), (3, "failed"),
            ]  # fmt: skip
            assert await work_off(store, queue) == []
            clock.advance(20)
            assert [result.outcome for result in await work_off(store, queue)] == ["done"]
            assert await store.counts(queue) == {"ready": 0, "running": 0, "done": 2, "failed": 1}

    asyncio.run(story())
    assert calls == [1, 2, 3, 2]


@asynchronous
async def test_draining_shows_a_refused_result(tmp_path: Path) -> None:
    """A result the database refuses is a failure, with the reason in it."""
    queue = queue_with(lambda job: {"reslt": 1})
    async with Store(f"sqlite:///{tmp_path}/work.db") as store:
        await store.database.fetch("CREATE TABLE tasks (id integer PRIMARY KEY, status text, result text)")
        await store.add(queue, id=1)
        [result] = await work_off(store, queue)
        assert result.outcome == "failed"
        assert "did you mean 'result'" in (result.error or "")


@asynchronous
async def test_draining_stops_at_its_limit(tmp_path: Path) -> None:
    """A handler that is rate limited for no time does not run forever."""

    def handler(job: Job) -> None:
        raise RateLimited(after=0)

    queue = queue_with(handler)
    async with Store(f"sqlite:///{tmp_path}/work.db") as store:
        await store.database.fetch("CREATE TABLE tasks (id integer PRIMARY KEY, status text)")
        await store.add(queue, id=1)
        assert len(await work_off(store, queue, limit=5)) == 5
