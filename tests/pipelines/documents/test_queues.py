"""The queues of the pipeline, together and in several environments."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from tabellion import Environment, Worker
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.lake import Lake
from tests.pipelines.documents.papers import document, rows, settings_in, submit_bills, write_type
from tests.waiting import eventually
from tests.workers import Gauge, drain, make_worker, working


def test_queues_are_compatible(settings: Settings) -> None:
    """One per model behind its own gate, and the four follow-up queues."""
    rich = replace(settings, models={"gemini": "gemini", "my.models:Own": "own"})
    assert {queue.name: queue.uses for queue in documents_queues(rich)} == {
        "documents": None, "documents_gemini": "gemini", "documents_my_models_Own": "own", "followers": None,
        "failures": None, "reviewed": None, "superseded": None,
    }  # fmt: skip


def test_environments_keep_their_files_apart(sqlite_url: str, pg_url: str, tmp_path: Path) -> None:
    """One worker for both; each document is read from, and written to, the folders of its own."""
    prod, dev = settings_in(tmp_path / "prod"), settings_in(tmp_path / "dev")
    [one], [two] = submit_bills(sqlite_url, prod, 0, type="invoice"), submit_bills(pg_url, dev, 1, type="invoice")
    places = [Environment("prod", sqlite_url), Environment("dev", pg_url)]
    drain(Worker(places, documents_queues(prod, {"dev": dev}), poll=0.05))
    assert (document(sqlite_url, one.id)["status"], document(pg_url, two.id)["status"]) == ("completed",) * 2
    for settings, key in ((prod, one.id), (dev, two.id)):
        assert [path.stem for path in Path(settings.lake.url).rglob("*.json")] == [key]


class Counted:
    """A lake that counts concurrent writes by the first folder."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self.gauge = lake, Gauge()

    async def put(self, path: str, data: bytes) -> str:
        """Return once the allowed number is writing, so that one too many would be noticed."""
        with self.gauge.running(path.partition("/")[0]):
            while self.gauge.most["slips"] < 2 or self.gauge.most["notes"] < 3:
                await asyncio.sleep(0.01)
            return await self._lake.put(path, data)


def test_a_type_may_limit_its_concurrency(url: str, settings: Settings) -> None:
    """In all workers together, while documents of other types continue; each is read once."""
    write_type(settings, "slip", 'processing: {concurrency: 2}\noutput: {json: "slips/{id}.json", parquet: null}\n')
    write_type(settings, "note", 'output: {json: "notes/{id}.json", parquet: null}\n')
    submitted = [one for kind in ("slip", "note") for one in submit_bills(url, settings, *range(6), type=kind)]
    counted = Counted(settings.lake)
    slow = replace(settings, lake=counted, concurrency=4)  # type: ignore[arg-type]
    queues = {queue.name: queue.limit for queue in documents_queues(slow)}
    assert (queues["documents"], queues["documents_type_slip"]) == (None, 2)
    with working(*(make_worker(url, *documents_queues(slow), id=f"w{number}") for number in range(2))):
        eventually(lambda: all(document(url, one.id)["status"] == "completed" for one in submitted))
    assert counted.gauge.most["slips"] <= 2 < counted.gauge.most["notes"]
    attempts = rows(url, "SELECT queue, count(*) AS n FROM tabellion_attempts GROUP BY queue ORDER BY queue")
    assert attempts == [{"queue": "documents", "n": 6}, {"queue": "documents_type_slip", "n": 6}]


def test_a_type_may_set_its_retry_delays(url: str, settings: Settings) -> None:
    """Without them those of the settings apply."""
    write_type(settings, "slip", "processing: {retry_base: 3600, retries: 1}\n")
    broken = replace(settings, models={"none": "none"}, default_model="none", retry_base=0.01)  # which nobody makes
    [one], [two] = submit_bills(url, broken, 0, type="slip"), submit_bills(url, broken, 0, type="invoice")
    with working(make_worker(url, *documents_queues(broken))):
        eventually(lambda: document(url, two.id)["status"] == "failed")
        eventually(lambda: document(url, one.id)["error"])
    assert (document(url, one.id)["status"], document(url, one.id)["attempts"]) == ("queued", 1)
