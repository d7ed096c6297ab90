"""The declarations: what they write into the tables beside the states."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment, Job, Permanent, Queue, Store, Worker, config
from tabellion.engine import controls
from tabellion.extractions.storage import files_of
from tabellion.monitor.doctor import examine
from tabellion.pipelines.ocr.queues import ocr_queue
from tabellion.pipelines.registries.handlers import RegistryHandlers
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.pipelines.registries.queues import companies_queue, extraction_queue, registry_queues
from tabellion.pipelines.registries.settings import settings_of
from tests.pipelines.ocr.deeds import settings_in


class StubHandlers(RegistryHandlers):
    """Handlers that visit no site, and find nothing under the name `refused`."""

    async def extract(self, job: Job) -> dict[str, Any]:
        """A document; none of the lot `refused`."""
        if job["lot"] == "refused":
            raise Permanent("refused")
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


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
def test_an_extraction_that_fails_after_an_old_error_of_ocr_counts_as_extraction(
    url: str, tmp_path: Path, how: str
) -> None:
    """A row whose OCR failed is extracted again and fails: only extraction counts, retries and shows it."""
    lot = "refused" if how == "fails" else "found"
    work(
        url, tmp_path,
        "INSERT INTO extraction_queue (id, status_id, lot, ocr_error, ocr_attempts, processing_started_at) "
        f"VALUES ('again', {1 if how == 'fails' else 4}, '{lot}', 'the old file was empty', 3, NULL)",
    )  # fmt: skip
    extraction, ocr = declared(tmp_path)

    async def judge() -> None:
        async with Store(url) as store:
            if how == "is cancelled":
                await store.database.fetch("UPDATE extraction_queue SET status_id = 1")
                assert await controls.cancel(store, extraction, "again")
            assert (await store.counts(extraction))["failed"] == 1
            assert (await store.counts(ocr))["failed"] == 0
            assert await controls.restart(store, ocr, ["again"]) == 0
            assert await controls.restart(store, extraction, ["again"]) == 1

    asyncio.run(judge())
    [row] = rows(url, "SELECT * FROM extraction_queue")
    assert (row["status_id"], row["ocr_error"]) == (1, None)
    assert row["error_message"]  # kept: the queue keeps its last error


def test_a_document_whose_ocr_failed_counts_as_ocr(url: str, tmp_path: Path) -> None:
    """With or without an older error of its extraction."""
    work(
        url, tmp_path,
        "INSERT INTO extraction_queue (id, status_id, error_message, ocr_error) VALUES "
        "('ocr', 4, NULL, 'invalid PDF'), ('both', 4, 'failed to login', 'invalid PDF')",
    )  # fmt: skip
    extraction, ocr = declared(tmp_path)

    async def count() -> tuple[int, int]:
        async with Store(url) as store:
            return (await store.counts(extraction))["failed"], (await store.counts(ocr))["failed"]

    assert asyncio.run(count()) == (0, 2)


def declared(folder: Path) -> tuple[Queue, Queue]:
    """The two queues of the table."""
    settings = settings_of(config.load(variables={"TABELLION_DATA": str(folder)}))
    return extraction_queue(settings), ocr_queue(settings_in(folder))


def test_doctor_names_a_column_that_is_not_recognized(url: str, tmp_path: Path) -> None:
    """A table whose column for the company, or for the text, has an unknown name is not called suitable."""
    work(
        url, tmp_path,
        "ALTER TABLE search_sessions RENAME COLUMN company TO raison",
        "ALTER TABLE extraction_queue RENAME COLUMN ocr_text TO contenu",
    )  # fmt: skip
    settings = settings_of(config.load(variables={"TABELLION_DATA": str(tmp_path)}))
    queues = [companies_queue(settings), *declared(tmp_path)]
    findings = asyncio.run(examine(Environment("prod", url), queues))
    errors = {finding.where: finding.what for finding in findings if finding.level == "error"}
    assert "registries.columns.company" in errors["prod: companies"]
    assert "extractions.text_column" in errors["prod: ocr"]
    suitable = [finding.where for finding in findings if "is suitable" in finding.what]
    assert suitable == ["prod: extraction"]
