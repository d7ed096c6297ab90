"""Outputs that are no longer current are removed: those of an older reading, and those of killed attempts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabellion import Store
from tabellion.pipelines.documents.outputs import possible_paths
from tabellion.pipelines.documents.queues import MOST_CRASHES, documents_queue
from tabellion.pipelines.documents.reprocess import reprocess
from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import document, process_all, rows, submit_bills, write_type
from tests.workers import ask

LEFT = b"what an attempt wrote before it was killed"


def run_killed_attempts(url: str, settings: Settings, times: int) -> None:
    """Workers claim the document, write outputs at every possible path, and are killed before they commit."""

    async def go(store: Store) -> None:
        queue = documents_queue(replace(settings, lease=0.2))
        for _ in range(times):
            [job] = await store.claim(queue, 1, "w")
            values = {**job.values, "id": job.text_key}
            for path in possible_paths(settings.types.all(), values):
                await settings.lake.put(path, LEFT)
            while not await store.sweep(queue):
                await asyncio.sleep(0.01)

    ask(url, go)


def list_files(settings: Settings) -> list[str]:
    """The files in the lake."""
    return [str(one) for one in Path(settings.lake.url).rglob("[!.]*.*")]


def contents(settings: Settings, found: dict[str, Any]) -> list[bytes]:
    """The content of a document's outputs."""
    return [(Path(settings.lake.url) / path).read_bytes() for path in found["outputs"].values()]


def test_outputs_of_killed_attempts_are_removed_when_the_document_fails(url: str, settings: Settings) -> None:
    """Queries on the lake find no uncommitted document."""
    [one] = submit_bills(url, settings, 0)
    run_killed_attempts(url, settings, MOST_CRASHES)
    assert list_files(settings)
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["error"]["code"]) == ("failed", "worker_crashed")
    assert list_files(settings) == []
    assert rows(url, "SELECT id FROM tabellion_superseded_outputs") == []


def test_the_cause_of_the_last_failure_does_not_matter(url: str, settings: Settings) -> None:
    """An earlier attempt may have been killed after it had written."""
    [one] = submit_bills(url, settings, 0)
    run_killed_attempts(url, settings, 1)
    settings.blobs.path(document(url, one.id)["sha256"]).unlink()
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["error"]["code"]) == ("failed", "file_missing")
    assert list_files(settings) == []


def test_a_restored_duplicate_leaves_no_outputs(url: str, settings: Settings) -> None:
    """It was reprocessed alone, and that attempt was killed."""
    one, two = submit_bills(url, settings, 0, 0, type="invoice")
    process_all(url, settings)
    before = list_files(settings)
    ask(url, lambda store: reprocess(store, settings, two.id, type="receipt"))
    run_killed_attempts(url, settings, MOST_CRASHES)
    assert list_files(settings) != before
    process_all(url, settings)
    assert (document(url, two.id)["status"], document(url, two.id)["duplicate_of"]) == ("duplicate", one.id)
    assert list_files(settings) == before


def test_outputs_of_a_killed_attempt_elsewhere_are_removed_on_success(url: str, settings: Settings) -> None:
    """Another type was detected that time, or its templates have changed since."""
    write_type(settings, "slip", 'output: {json: "slips/{id}.json", parquet: null}\n')
    [one] = submit_bills(url, settings, 0, type="invoice")
    run_killed_attempts(url, settings, 1)
    process_all(url, settings)
    found = document(url, one.id)
    assert sorted(list_files(settings)) == sorted(
        str(Path(settings.lake.url) / path) for path in found["outputs"].values()
    )


def test_a_killed_worker_costs_the_document_no_attempt(url: str, settings: Settings) -> None:
    """It is read with all its attempts, and its outputs are its own."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    rows(url, "UPDATE tabellion_documents SET max_attempts = 1 RETURNING id")
    run_killed_attempts(url, settings, MOST_CRASHES - 1)
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["attempts"]) == ("completed", 1)
    assert LEFT not in contents(settings, found)


def test_a_restored_document_has_its_outputs_again(url: str, settings: Settings) -> None:
    """A killed attempt had overwritten them."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    before = document(url, one.id)
    ask(url, lambda store: reprocess(store, settings, one.id))
    run_killed_attempts(url, settings, MOST_CRASHES)
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["outputs"]) == ("completed", before["outputs"])
    assert LEFT not in contents(settings, found)
