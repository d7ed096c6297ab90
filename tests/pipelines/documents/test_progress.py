"""Progress of documents: written only while the claim holds, and never an obstacle."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tabellion import Environment, Job, LeaseLost, Store
from tabellion.engine.context import OpenContext
from tabellion.pipelines.documents.progress import Cancelled, ProgressWriter
from tabellion.pipelines.documents.queues import documents_queue
from tabellion.pipelines.documents.settings import Settings
from tests.engine.made_tables import asynchronous
from tests.pipelines.documents.papers import rows, submit_bills


async def claimed(url: str, settings: Settings, worker: str = "w1") -> Job:
    async with Store(url) as store:
        return (await store.claim(documents_queue(settings), 1, worker))[0]


def report_three_pages(url: str, settings: Settings, *, before: Any = None, **changes: Any) -> Job:
    """Report three pages of a claimed document from a thread, and return the job."""

    async def go() -> Job:
        job = await claimed(url, settings)
        if before is not None:
            await asyncio.to_thread(before)
        async with OpenContext(Environment("prod", url)) as context:
            job.context = context
            for name, value in changes.items():
                setattr(job, name, value)
            progress = ProgressWriter(pause=0.0)
            watch = progress.start(job)
            for page in (1, 2, 3):
                await asyncio.to_thread(watch, page, 12)
            await asyncio.sleep(0)  # for the last ring
            assert progress._writing is not None
            await progress._writing
            return job

    return asyncio.run(go())


def test_pages_are_written_to_the_row_and_the_register(url: str, settings: Settings) -> None:
    """The last one reported stays."""
    submit_bills(url, settings, 0)
    job = report_three_pages(url, settings)
    assert job._note == "page 3 of 12"
    assert rows(url, "SELECT pages, done_pages FROM tabellion_documents") == [{"pages": 12, "done_pages": 3}]


def test_a_row_claimed_by_another_worker_is_left_alone(url: str, settings: Settings) -> None:
    """A worker that lost its claim unknowingly does not overwrite another's progress."""
    submit_bills(url, settings, 0)
    report_three_pages(
        url, settings, before=lambda: rows(url, "UPDATE tabellion_documents SET worker = 'w2' RETURNING id")
    )
    assert rows(url, "SELECT pages, done_pages FROM tabellion_documents") == [{"pages": None, "done_pages": None}]


def test_a_lost_claim_stops_the_reading(url: str, settings: Settings) -> None:
    """At its next page."""
    submit_bills(url, settings, 0)
    with pytest.raises(LeaseLost):
        report_three_pages(url, settings, lost=True)


def test_an_abandoned_reading_stops(url: str, settings: Settings) -> None:
    """The handler has ended; its thread ends at the next page, and reports nothing more."""
    submit_bills(url, settings, 0)

    async def go() -> list[BaseException]:
        job = await claimed(url, settings)
        watch = ProgressWriter().start(job)
        watch(1, 12)
        watch.end()
        caught: list[BaseException] = []

        def work() -> None:
            try:
                watch(2, 12)
            except Cancelled as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        await asyncio.to_thread(thread.join)
        return caught

    assert len(asyncio.run(go())) == 1


def test_a_single_page_is_not_reported(url: str, settings: Settings) -> None:
    """It ends before anyone looks."""
    submit_bills(url, settings, 0)

    async def go() -> str | None:
        job = await claimed(url, settings)
        ProgressWriter().start(job)(1, 1)
        return job._note

    assert asyncio.run(go()) is None


@asynchronous
async def test_a_database_that_is_down_costs_nothing(url: str, settings: Settings, sqlite_url: str) -> None:
    """Progress is reported again at the next page; the error is ignored."""
    submit_bills(url, settings, 0)
    job = await claimed(url, settings)
    async with OpenContext(Environment("prod", sqlite_url.replace("work.db", "none/such.db"))) as context:
        job.context = context  # a database without the tables
        progress = ProgressWriter(pause=0.0)
        progress.start(job)(1, 12)
        await asyncio.sleep(0)
        assert progress._writing is not None
        await progress._writing
