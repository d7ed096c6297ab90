"""A worker that claims only while it serves a hint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tabellion import Environment, Job
from tabellion.engine.celery.hinted_worker import HintedWorker
from tabellion.engine.celery.process_worker import Processes, ProcessWorker
from tabellion.errors import DeclarationError
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually

queue = jobs_queue()


@queue.handler
async def work(job: Job) -> None:
    """Fail once if the size is one."""
    if job["size"] == 1 and job.attempt == 1:
        raise OSError("told to break")


def make(url: str, **options: Any) -> HintedWorker:
    """A worker on this database."""
    return HintedWorker([Environment("prod", url)], [queue], poll=0.05, **options)


@pytest.fixture
def owner(url: str) -> Iterator[Owner]:
    with owning(url) as owner:
        yield owner


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
        assert process.serve_hint("prod", "jobs") == {"retried": 1}
        eventually(lambda: process.serve_hint("prod", "jobs") == {"done": 1})
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
