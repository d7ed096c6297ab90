"""Environments that do not answer, and declarations that do not fit them."""

from __future__ import annotations

import asyncio

import pytest

from tabellion import Environment, Job, Queue, Worker
from tabellion.engine.errors import DeclarationError, TabellionError
from tests.owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.working import Diary, Shift, make_worker, working

pytestmark = pytest.mark.usefixtures("often")


def test_a_dead_environment_is_reported_once_and_skipped(url: str, owner: Owner) -> None:
    """A database nobody answers for is told once; the others' work goes on."""
    owner.insert(*range(1, 31))
    queue = jobs_queue()
    diary = Diary()

    @queue.handler
    async def work(job: Job) -> None:
        await asyncio.sleep(0.02)

    nowhere = Environment("staging", "postgresql://postgres@127.0.0.1:9/nothing")
    worker = Worker([nowhere, Environment("prod", url)], [queue], poll=0.05, concurrency=1, listeners=[diary])
    with working(worker):
        eventually(lambda: owner.count("done") == 30)
    assert [event.environment for event in diary.of("environment_down")] == ["staging"]


def test_declaration_errors_come_before_any_claim(url: str, owner: Owner) -> None:
    """One queue that does not fit its table stops the worker before any row of any queue is touched."""
    owner.insert(1)
    good = jobs_queue()
    bad = Queue("missing", ready="new", running="running", done="done", failed="failed")
    for queue in (good, bad):
        queue.handler(lambda job: None)
    with pytest.raises(DeclarationError, match="missing"):
        Shift(make_worker(url, good, bad)).end()
    assert owner.attempts() == []
    assert owner.status(1) == "new"


@pytest.mark.parametrize("wrong", ["postgresql://127.0.0.1:notaport/x", "postgresql://[half/x"])
def test_a_url_that_makes_no_sense_is_an_error(wrong: str) -> None:
    """A database URL that cannot be understood ends the worker with a word about it; it does not hang."""
    queue = jobs_queue()
    queue.handler(lambda job: None)
    with pytest.raises((TabellionError, ValueError)):
        Shift(make_worker(wrong, queue)).end(within=8)
