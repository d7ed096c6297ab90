"""Leftovers are deleted; what may still be needed stays."""

from __future__ import annotations

import os
import time

from tabellion import Store
from tabellion.pipelines.documents.cleanup import GRACE, sweep
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import document, process_all, put, rows, submit_bills, write_type
from tests.workers import ask


def sweep_once(url: str, settings: Settings, since: float = 0.0) -> dict[str, int]:
    """Run one cleanup."""
    return ask(url, lambda store: sweep(store, settings, since))


def test_a_file_without_a_document_is_deleted_after_a_while(url: str, settings: Settings) -> None:
    """A late rejection left it; a running upload keeps its file, and so does a document."""
    submit_bills(url, settings, 0)
    known, refused, coming = (put(settings, number) for number in range(3))
    long_ago = time.time() - GRACE - 60
    for blob in (known, refused):
        os.utime(blob.path, (long_ago, long_ago))
    assert sweep_once(url, settings) == {"copies": 0, "halves": 0, "contents": 1, "stranded": 0}
    assert [blob.path.exists() for blob in (known, refused, coming)] == [True, False, True]
    assert sweep_once(url, settings)["contents"] == 0


def test_earlier_files_are_left_alone(url: str, settings: Settings) -> None:
    """A folder of uploads with another database beside it is not emptied."""
    blob = put(settings, 0)
    long_ago = time.time() - GRACE - 60
    os.utime(blob.path, (long_ago, long_ago))
    ask(url, lambda store: create_tables(store))
    assert sweep_once(url, settings, since=time.time())["contents"] == 0
    assert blob.path.exists()


async def create_tables(store: Store) -> None:
    """Create the empty tables."""
    from tabellion.pipelines.documents import tables

    await tables.SCHEMA.prepare(store)


def test_documents_whose_queue_is_gone_are_released(url: str, settings: Settings) -> None:
    """Their worker was killed, and the next one has no such queue; those being read are left."""
    write_type(settings, "slip", "processing: {concurrency: 1}\n")
    dead, alive = (one.id for one in submit_bills(url, settings, 0, 1, type="slip"))
    queue = next(one for one in documents_queues(settings) if one.name == "documents_type_slip")
    assert len(ask(url, lambda store: store.claim(queue, 1, "w1"))) == 1
    assert sweep_once(url, settings)["stranded"] == 0
    long_ago = "0.0" if url.startswith("sqlite") else "to_timestamp(0)"
    rows(url, f"UPDATE tabellion_attempts SET lease_until = {long_ago} WHERE key = $1 RETURNING key", dead)
    assert sweep_once(url, settings)["stranded"] == 1
    found = rows(url, "SELECT id, status, chore FROM tabellion_documents ORDER BY id")
    assert found == [{"id": key, "status": "queued", "chore": None} for key in (dead, alive)]
    write_type(settings, "slip")
    process_all(url, settings)
    assert document(url, dead)["status"] == "completed"
