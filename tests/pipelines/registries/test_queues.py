"""The declarations: what they write into the tables beside the states."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tabellion import Environment, Job, Permanent, Store, Worker, config
from tabellion.extractions.storage import files_of
from tabellion.pipelines.registries.handlers import RegistryHandlers
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.pipelines.registries.queues import registry_queues
from tabellion.pipelines.registries.settings import settings_of


class StubHandlers(RegistryHandlers):
    """Handlers that visit no site, and find nothing under the name `refused`."""

    async def extract(self, job: Job) -> dict[str, Any]:
        """A document."""
        return {"storage_path": "extractions/x.pdf"}

    async def look_up_rights(self, job: Job) -> dict[str, Any]:
        """A name."""
        if job["name"] == "refused":
            raise Permanent("refused")
        return {}


def work(url: str, folder: Path, *inserts: str) -> None:
    """Runs these statements, then a worker until nothing is left to do."""
    loaded = config.load(variables={"TABELLION_DATA": str(folder)})
    settings = settings_of(loaded)

    async def add() -> None:
        async with Store(url) as store:
            await PIPELINE.prepare(store)
            for text in inserts:
                await store.database.fetch(text)

    asyncio.run(add())
    queues = registry_queues(settings, StubHandlers(settings, lambda _: files_of(loaded)))
    Worker([Environment("prod", url)], queues, poll=0.1).run(until_idle=True)


def rows(url: str, text: str) -> list[dict[str, Any]]:
    """The answer to a query."""

    async def fetch() -> list[dict[str, Any]]:
        async with Store(url) as store:
            return [dict(row) for row in await store.database.fetch(text)]

    return asyncio.run(fetch())


def test_only_a_completed_search_has_the_time_of_its_completion(url: str, tmp_path: Path) -> None:
    """A search of the register of rights that failed was never completed."""
    work(url, tmp_path, "INSERT INTO rdprm_searches (name) VALUES ('found'), ('refused')")
    found, refused = rows(url, "SELECT * FROM rdprm_searches ORDER BY name")
    assert (found["status"], refused["status"]) == ("completed", "failed")
    assert found["completed_at"] is not None
    assert refused["completed_at"] is None


def test_a_document_that_changes_has_the_time_of_the_change(url: str, tmp_path: Path) -> None:
    """`updated_at` of `extraction_queue` is set by a worker that fetches the document."""
    work(url, tmp_path, "INSERT INTO extraction_queue (id) VALUES ('one')")
    before = rows(url, "SELECT status_id, created_at, updated_at FROM extraction_queue")[0]
    assert before["status_id"] == 3
    assert before["updated_at"] > before["created_at"]


def test_a_table_without_the_time_of_the_last_change_is_worked(url: str, tmp_path: Path) -> None:
    """Tables made by hand may lack `updated_at`."""
    work(
        url, tmp_path, "ALTER TABLE extraction_queue DROP COLUMN updated_at",
        "INSERT INTO extraction_queue (id) VALUES ('one')",
    )  # fmt: skip
    assert rows(url, "SELECT status_id FROM extraction_queue") == [{"status_id": 3}]
