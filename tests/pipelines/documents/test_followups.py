"""Duplicates end like their original, and failures are reported whatever their cause."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tabellion.engine.controls import cancel, restart
from tabellion.pipelines.documents.queues import documents_queue
from tabellion.pipelines.documents.reprocess import delete, reprocess
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.webhooks import document_outbox
from tests.models.bills import bill
from tests.pipelines.documents.papers import (
    add_endpoint,
    document,
    process_all,
    put,
    rows,
    submit_bills,
    submit_file,
    write_type,
)
from tests.workers import ask

BROKEN = b"%PDF-1.7\n"
LETTER = bill("Dear neighbour", "the cat came back on Tuesday", "Yours, Fred")


@pytest.fixture
def notified(settings: Settings) -> Settings:
    return replace(settings, outbox=document_outbox)


def deliveries(url: str) -> list[tuple[str, str]]:
    found = rows(url, "SELECT document_id, event, body FROM tabellion_webhook_deliveries ORDER BY created_at, event")
    assert all(json.loads(one["body"])["data"]["id"] == one["document_id"] for one in found)
    return [(one["event"], one["document_id"]) for one in found]


def test_waiting_duplicates_end_with_their_original(url: str, settings: Settings) -> None:
    """Completed: they are duplicates with its values; the file was read once."""
    first, second, third = submit_bills(url, settings, 0, 0, 0, type="invoice")
    assert (second.status, third.status) == ("queued", "queued")
    process_all(url, settings)
    original = document(url, first.id)
    for one in (second, third):
        found = document(url, one.id)
        assert (found["status"], found["duplicate_of"]) == ("duplicate", first.id)
        assert found["fields"] == original["fields"]
        assert (found["outputs"], found["hashes"]) == (original["outputs"], original["hashes"])
        assert found["completed_at"] is not None
    reads = rows(url, "SELECT key FROM tabellion_attempts WHERE queue = 'documents'")
    assert reads == [{"key": first.id}]
    assert len(list(Path(settings.lake.url).rglob("*.parquet"))) == 1


def test_duplicates_fail_with_their_original(url: str, settings: Settings) -> None:
    """With its code, naming it."""
    first, second = submit_file(url, settings, BROKEN), submit_file(url, settings, BROKEN)
    process_all(url, settings)
    error = document(url, first)["error"]
    found = document(url, second)
    assert (found["status"], found["duplicate_of"], found["error"]["code"]) == ("failed", first, error["code"])
    assert first in found["error"]["message"]


def test_a_successful_retry_completes_its_duplicates(url: str, settings: Settings) -> None:
    """Retried by a person with the engine's own means: those that failed with it succeed with it."""
    first, second = submit_bills(url, settings, 0, 0, type="invoice")
    path = put(settings, 0).path
    path.rename(path.with_suffix(".away"))
    process_all(url, settings)
    assert [document(url, one.id)["status"] for one in (first, second)] == ["failed"] * 2
    path.with_suffix(".away").rename(path)
    ask(url, lambda store: restart(store, documents_queue(settings)))
    process_all(url, settings)
    assert [document(url, one.id)["status"] for one in (first, second)] == ["completed", "duplicate"]
    assert document(url, second.id)["error"] is None


def test_duplicates_of_a_document_being_reprocessed_wait(url: str, settings: Settings) -> None:
    """A duplicate of an original that is queued again waits and ends with it."""
    first, second = submit_file(url, settings, BROKEN), submit_file(url, settings, BROKEN)
    process_all(url, settings)
    ask(url, lambda store: reprocess(store, settings, first))
    assert document(url, second)["status"] == "queued"
    process_all(url, settings)
    assert document(url, second)["status"] == "failed"


def test_a_duplicate_whose_original_was_deleted_is_read_itself(url: str, settings: Settings) -> None:
    """And the others follow it."""
    submitted = submit_bills(url, settings, 0, 0, 0, type="invoice")
    rows(url, "DELETE FROM tabellion_documents WHERE id = $1 RETURNING id", submitted[0].id)
    rows(url, "DELETE FROM tabellion_processed_documents RETURNING key")
    process_all(url, settings)
    states = [document(url, one.id) for one in submitted[1:]]
    assert sorted(one["status"] for one in states) == ["completed", "duplicate"]


def test_each_ending_is_reported_once(url: str, notified: Settings) -> None:
    """Completed, duplicate and failed; a late duplicate is reported too."""
    add_endpoint(url)
    first, second = submit_bills(url, notified, 0, 0, type="invoice")
    broken = submit_file(url, notified, BROKEN)
    process_all(url, notified)
    [late] = submit_bills(url, notified, 0, type="invoice")
    assert late.status == "duplicate"
    process_all(url, notified)
    assert sorted(deliveries(url)) == sorted([
        ("document.completed", first.id), ("document.duplicate", second.id), ("document.failed", broken),
        ("document.duplicate", late.id),
    ])  # fmt: skip
    process_all(url, notified)
    assert len(deliveries(url)) == 4


def test_failures_outside_the_handler_are_reported_too(url: str, notified: Settings) -> None:
    """Cancelled by a person: no handler was there to report it."""
    add_endpoint(url)
    [one] = submit_bills(url, notified, 0, type="invoice")
    ask(url, lambda store: cancel(store, documents_queue(notified), one.id))
    process_all(url, notified)
    assert deliveries(url) == [("document.failed", one.id)]
    assert document(url, one.id)["error"] == {"code": "try_failed", "message": "cancelled", "attempts": 0}


def test_a_second_failure_is_reported_again(url: str, notified: Settings) -> None:
    """A retry that fails again is reported again; it can still be retried."""
    add_endpoint(url)
    key = submit_file(url, notified, BROKEN)
    process_all(url, notified)
    assert ask(url, lambda store: restart(store, documents_queue(notified))) == 1
    process_all(url, notified)
    assert deliveries(url) == [("document.failed", key)] * 2


def test_a_deleted_document_is_replaced_by_a_duplicate(url: str, settings: Settings) -> None:
    """The oldest is read in its place and the rest follow that; corrected fields are kept."""
    submitted = submit_bills(url, settings, 0, 0, 0, type="invoice")
    process_all(url, settings)
    rows(
        url,
        "UPDATE tabellion_extracted_fields SET value = '\"99.00\"', locked = TRUE WHERE name = 'total' RETURNING name",
    )
    ask(url, lambda store: delete(store, settings, submitted[0].id))
    assert document(url, submitted[1].id)["status"] == "queued"
    process_all(url, settings)
    heir, other = (document(url, one.id) for one in submitted[1:])
    assert (heir["status"], heir["duplicate_of"]) == ("completed", None)
    assert (other["status"], other["duplicate_of"]) == ("duplicate", submitted[1].id)
    assert heir["fields"]["total"]["value"] == "99.00"
    assert rows(url, "SELECT document_id FROM tabellion_processed_documents") == [{"document_id": submitted[1].id}]


def letters(url: str, settings: Settings) -> list[str]:
    """Three copies of a letter of no known type."""
    submitted = [submit_file(url, settings, LETTER) for _ in range(3)]
    process_all(url, settings)
    assert document(url, submitted[0])["type"] is None
    return submitted


def test_duplicates_of_an_unknown_document_get_its_type(url: str, settings: Settings) -> None:
    """Someone assigns the type once, not for every copy."""
    first, *copies = letters(url, settings)
    write_type(settings, "slip")
    ask(url, lambda store: reprocess(store, settings, first, type="slip"))
    process_all(url, settings)
    for copy in copies:
        deliveries = document(url, copy)
        assert (deliveries["status"], deliveries["duplicate_of"], deliveries["type"]) == ("duplicate", first, "slip")
    assert [one["document_id"] for one in rows(url, "SELECT document_id FROM tabellion_review_items")] == [first]
    assert document(url, submit_file(url, settings, LETTER, type="slip"))["duplicate_of"] == first


def test_duplicates_of_an_unknown_document_are_restored_with_it(url: str, settings: Settings) -> None:
    """When it cannot be read as the assigned type."""
    first, *copies = letters(url, settings)
    write_type(settings, "slip")
    ask(url, lambda store: reprocess(store, settings, first, type="slip"))
    settings.blobs.path(document(url, first)["sha256"]).unlink()
    process_all(url, settings)
    assert document(url, first)["error"] is not None
    for copy in copies:
        deliveries = document(url, copy)
        assert (deliveries["status"], deliveries["duplicate_of"]) == ("duplicate", first)
        assert (deliveries["type"], deliveries["asked_type"]) == (None, None)
        assert deliveries["type_key"] == document(url, first)["type_key"]


def test_a_held_item_loses_reasons_that_no_longer_apply(url: str, settings: Settings) -> None:
    """Once the document has a type and is read without doubts, the item has no reason left."""
    first, *_ = letters(url, settings)
    rows(url, "UPDATE tabellion_review_items SET status = 'in_review' RETURNING id")
    [before] = rows(url, "SELECT reasons FROM tabellion_review_items")
    assert [one["code"] for one in json.loads(before["reasons"])] == ["type_uncertain"]
    write_type(settings, "anything", "processing: {review: never}\n")
    ask(url, lambda store: reprocess(store, settings, first, type="anything"))
    process_all(url, settings)
    [after] = rows(url, "SELECT status, reasons FROM tabellion_review_items")
    assert (after["status"], json.loads(after["reasons"])) == ("in_review", [])
