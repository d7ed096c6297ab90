"""Seed 001: one worker over prod, staging and dev: documents, then companies, then rights, and nothing done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment, Job, Store, Worker, config
from tabellion.engine.sql import CLOCK
from tabellion.engine.worker import polling
from tabellion.extractions.states import ExtractionStatus
from tabellion.extractions.storage import files_of
from tabellion.pipelines.ocr.queues import ocr_queues
from tabellion.pipelines.registries.handlers import RegistryHandlers
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.pipelines.registries.queues import registry_queues
from tabellion.pipelines.registries.settings import settings_of
from tests.pipelines.ocr.deeds import settings_in
from tests.servers import free_port


class RecordingHandlers(RegistryHandlers):
    """Handlers that record their jobs instead of visiting a site."""

    def __init__(self, folder: Path, done: list[str]) -> None:
        loaded = config.load(variables={"TABELLION_DATA": str(folder)})
        self.settings = settings_of(loaded)
        self._done = done
        super().__init__(self.settings, lambda _: files_of(loaded))

    async def extract(self, job: Job) -> dict[str, Any]:
        """Record a document."""
        await self._note(job, job["lot"])
        return {"storage_path": "extractions/x.pdf"}

    async def look_up_company(self, job: Job) -> dict[str, Any]:
        """Record a company."""
        await self._note(job, job["company"])
        return {}

    async def look_up_rights(self, job: Job) -> dict[str, Any]:
        """Record a name."""
        await self._note(job, job["name"])
        return {}

    async def _note(self, job: Job, what: str) -> None:
        self._done.append(f"{job.environment} {job.queue.name} {what}")
        await asyncio.sleep(0)


def worker(folder: Path, environments: list[Environment], done: list[str], **options: Any) -> Worker:
    handlers = RecordingHandlers(folder, done)
    return Worker(environments, registry_queues(handlers.settings, handlers), poll=0.1, **options)


async def fill(url: str, count: int) -> None:
    """Add `count` rows to each table, oldest first."""
    async with Store(url) as store:
        await PIPELINE.prepare(store)
        for number in range(count):
            # Said, and not left to a clock that may count in milliseconds.
            ago = f"interval '{count - number} seconds'" if store.dialect == "postgresql" else str(count - number)
            for table, column in (
                ("rdprm_searches", "name"), ("search_sessions", "company"), ("extraction_queue", "lot"),
            ):  # fmt: skip
                text = f"INSERT INTO {table} ({column}, created_at) VALUES ($1, {CLOCK[store.dialect]} - {ago})"
                await store.database.fetch(text, str(number))


def test_environments_and_queues_are_worked_in_order(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one slot: prod before dev; in each, documents, companies, rights; the oldest row first."""
    monkeypatch.setattr(polling, "PATIENCE", 60.0)  # a database that is slow to answer loses its turn
    places = [Environment("prod", url), Environment("dev", f"sqlite:///{tmp_path}/dev.db")]
    for place in places:
        asyncio.run(fill(place.url, 2))
    done: list[str] = []
    worker(tmp_path, places, done, concurrency=1).run(until_idle=True)
    assert done == [
        f"{place.name} {queue} {number}"
        for place in places
        for queue in ("extraction", "companies", "rights")
        for number in range(2)
    ]


def test_concurrent_workers_do_every_row_once(url: str, tmp_path: Path) -> None:
    """Three workers at once on the same three tables: no row is done twice, none is left."""
    asyncio.run(fill(url, 15))
    done: list[str] = []

    async def together() -> None:
        places = [Environment("prod", url)]
        await asyncio.gather(*(worker(tmp_path, places, done).serve(until_idle=True) for _ in range(3)))

    asyncio.run(together())
    assert len(done) == 45
    assert set(Counter(done).values()) == {1}


def test_shares_keep_prod_from_starving_the_others(tmp_path: Path) -> None:
    """With equal shares, dev gets turns in each queue while prod still has a backlog."""
    places = [Environment(name, f"sqlite:///{tmp_path}/{name}.db", share=0.5) for name in ("prod", "dev")]
    asyncio.run(fill(places[0].url, 20))
    asyncio.run(fill(places[1].url, 2))
    done: list[str] = []
    worker(tmp_path, places, done).run(until_idle=True)
    assert len(done) == 66
    last_of_dev = max(place for place, text in enumerate(done) if text.startswith("dev "))
    assert last_of_dev < 59, "dev was worked last, as without shares"


def test_both_errors_of_a_row_are_visible(url: str, tmp_path: Path) -> None:
    """Extraction fails once and succeeds later, then OCR fails for good: the row has both texts, each in its column."""

    class FailingOnce(RecordingHandlers):
        """Handlers whose first extraction of each document fails."""

        async def extract(self, job: Job) -> dict[str, Any]:
            """Record a document at its second attempt."""
            if job.attempt == 1:
                raise ConnectionError("Failed to login to registre")
            return await super().extract(job)

    asyncio.run(fill(url, 1))
    handlers = FailingOnce(tmp_path, [])
    handlers.settings = replace(handlers.settings, retry_base=0.05)
    queues = [*registry_queues(handlers.settings, handlers), *ocr_queues(settings_in(tmp_path))]
    Worker([Environment("prod", url)], queues, poll=0.1).run(until_idle=True)

    async def read_row() -> dict[str, Any]:
        async with Store(url) as store:
            return dict((await store.database.fetch("SELECT * FROM extraction_queue"))[0])

    row = asyncio.run(read_row())
    assert row["status_id"] == ExtractionStatus.ERREUR
    assert "Failed to login to registre" in row["error_message"]
    assert "extractions/x.pdf" in row["ocr_error"]
    assert "login" not in row["ocr_error"]


def test_an_unreachable_staging_database_delays_nothing_else(sqlite_url: str, tmp_path: Path) -> None:
    """Prod and dev are worked while staging does not answer, and while a database lacks the tables."""
    places = [
        Environment("prod", sqlite_url),
        Environment("staging", f"postgresql://nobody@127.0.0.1:{free_port()}/none"),
        Environment("empty", f"sqlite:///{tmp_path}/empty.db"),
        Environment("dev", f"sqlite:///{tmp_path}/dev.db"),
    ]
    for place in (places[0], places[3]):
        asyncio.run(fill(place.url, 1))
    done: list[str] = []

    async def until_done() -> None:
        one = worker(tmp_path, places, done)
        serving = asyncio.create_task(one.serve())
        async with asyncio.timeout(60):
            while len(done) < 6:
                await asyncio.sleep(0.05)
        one.stop()
        await serving

    asyncio.run(until_done())
    assert {text.partition(" ")[0] for text in done} == {"prod", "dev"}


def test_rows_left_running_by_an_old_worker_are_recovered(url: str, tmp_path: Path) -> None:
    """Documents and companies that another program left running an hour ago are taken over."""
    asyncio.run(fill(url, 1))

    async def leave() -> None:
        async with Store(url) as store:
            postgres = store.dialect == "postgresql"
            then = "now() - interval '1 hour'" if postgres else "(strftime('%s', 'now') - 3600)"
            await store.database.fetch(
                f"UPDATE extraction_queue SET status_id = 2, worker_id = 'old', processing_started_at = {then}"
            )
            await store.database.fetch(
                f"UPDATE search_sessions SET status = 'scraping_company_data', updated_at = {then}"
            )

    asyncio.run(leave())
    done: list[str] = []
    worker(tmp_path, [Environment("prod", url)], done).run(until_idle=True)
    assert sorted(text.split()[1] for text in done) == ["companies", "extraction", "rights"]
