"""Outputs that a document has no more are removed: those of an older reading, and those of attempts that died."""

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
from tests.pipelines.documents.papers import document, processed, rows, submitted, write_type
from tests.working import ask

LEFT = b"what an attempt wrote before it was killed"


def killed(url: str, settings: Settings, times: int) -> None:
    """Workers claim the document, write outputs in every place there is, and are killed before they can say so."""

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


def lying(settings: Settings) -> list[str]:
    """What lies in the lake."""
    return [str(one) for one in Path(settings.lake.url).rglob("[!.]*.*")]


def contents(settings: Settings, found: dict[str, Any]) -> list[bytes]:
    """What the outputs of a document hold."""
    return [(Path(settings.lake.url) / path).read_bytes() for path in found["outputs"].values()]


def test_what_dead_attempts_wrote_goes_when_the_document_failed(url: str, settings: Settings) -> None:
    """Whoever queries the lake finds no document that nobody vouches for."""
    [one] = submitted(url, settings, 0)
    killed(url, settings, MOST_CRASHES)
    assert lying(settings)
    processed(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["error"]["code"]) == ("failed", "worker_crashed")
    assert lying(settings) == []
    assert rows(url, "SELECT id FROM tabellion_superseded_outputs") == []


def test_it_does_not_matter_why_the_last_attempt_failed(url: str, settings: Settings) -> None:
    """An attempt before it may have died after it had written."""
    [one] = submitted(url, settings, 0)
    killed(url, settings, 1)
    settings.blobs.path(document(url, one.id)["sha256"]).unlink()
    processed(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["error"]["code"]) == ("failed", "file_missing")
    assert lying(settings) == []


def test_a_duplicate_that_goes_back_to_being_one_leaves_nothing(url: str, settings: Settings) -> None:
    """It was read by itself, which died."""
    one, two = submitted(url, settings, 0, 0, type="invoice")
    processed(url, settings)
    before = lying(settings)
    ask(url, lambda store: reprocess(store, settings, two.id, type="receipt"))
    killed(url, settings, MOST_CRASHES)
    assert lying(settings) != before
    processed(url, settings)
    assert (document(url, two.id)["status"], document(url, two.id)["duplicate_of"]) == ("duplicate", one.id)
    assert lying(settings) == before


def test_what_a_dead_attempt_wrote_elsewhere_goes_when_the_document_succeeds(url: str, settings: Settings) -> None:
    """Another type was found that time, or its templates have changed since."""
    write_type(settings, "slip", 'output: {json: "slips/{id}.json", parquet: null}\n')
    [one] = submitted(url, settings, 0, type="invoice")
    killed(url, settings, 1)
    processed(url, settings)
    found = document(url, one.id)
    assert sorted(lying(settings)) == sorted(str(Path(settings.lake.url) / path) for path in found["outputs"].values())


def test_a_worker_that_is_killed_says_little_about_the_document(url: str, settings: Settings) -> None:
    """It is read all the same, with every attempt it had, and its outputs are its own."""
    [one] = submitted(url, settings, 0, type="invoice")
    rows(url, "UPDATE tabellion_documents SET max_attempts = 1 RETURNING id")
    killed(url, settings, MOST_CRASHES - 1)
    processed(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["attempts"]) == ("completed", 1)
    assert LEFT not in contents(settings, found)


def test_a_document_that_goes_back_to_its_result_has_its_outputs_again(url: str, settings: Settings) -> None:
    """A reading that died had written over them."""
    [one] = submitted(url, settings, 0, type="invoice")
    processed(url, settings)
    before = document(url, one.id)
    ask(url, lambda store: reprocess(store, settings, one.id))
    killed(url, settings, MOST_CRASHES)
    processed(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["outputs"]) == ("completed", before["outputs"])
    assert LEFT not in contents(settings, found)
