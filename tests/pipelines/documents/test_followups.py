"""Duplicates take their original's fate, and failures are told whoever made them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.delivery import endpoints
from tabellion.engine.controls import cancel, restart
from tabellion.pipelines.documents.queues import documents_queue
from tabellion.pipelines.documents.reprocess import delete, reprocess
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.webhooks import document_outbox
from tests.models.bills import bill
from tests.pipelines.documents.papers import document, processed, put, rows, sent, submitted, write_type
from tests.working import ask

BROKEN = b"%PDF-1.7\n"
LETTER = bill("Dear neighbour", "the cat came back on Tuesday", "Yours, Fred")


@pytest.fixture
def telling(settings: Settings) -> Settings:
    return replace(settings, outbox=document_outbox)


def listening(url: str) -> None:
    async def go(store: Store) -> None:
        await endpoints.SCHEMA.prepare(store)
        await endpoints.add(store, "https://example.com/hook")

    ask(url, go)


def told(url: str) -> list[tuple[str, str]]:
    found = rows(url, "SELECT document_id, event, body FROM tabellion_webhook_deliveries ORDER BY created_at, event")
    assert all(json.loads(one["body"])["data"]["id"] == one["document_id"] for one in found)
    return [(one["event"], one["document_id"]) for one in found]


def test_duplicates_that_waited_end_with_their_original(url: str, settings: Settings) -> None:
    """Completed: they are duplicates, and tell what it tells; the file was read once."""
    first, second, third = submitted(url, settings, 0, 0, 0, type="invoice")
    assert (second.status, third.status) == ("queued", "queued")
    processed(url, settings)
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
    first, second = sent(url, settings, BROKEN), sent(url, settings, BROKEN)
    processed(url, settings)
    error = document(url, first)["error"]
    found = document(url, second)
    assert (found["status"], found["duplicate_of"], found["error"]["code"]) == ("failed", first, error["code"])
    assert first in found["error"]["message"]


def test_a_failure_that_is_mended_mends_its_duplicates(url: str, settings: Settings) -> None:
    """Tried again by a person, by the engine's own means: those who failed with it succeed with it."""
    first, second = submitted(url, settings, 0, 0, type="invoice")
    path = put(settings, 0).path
    path.rename(path.with_suffix(".away"))
    processed(url, settings)
    assert [document(url, one.id)["status"] for one in (first, second)] == ["failed"] * 2
    path.with_suffix(".away").rename(path)
    ask(url, lambda store: restart(store, documents_queue(settings)))
    processed(url, settings)
    assert [document(url, one.id)["status"] for one in (first, second)] == ["completed", "duplicate"]
    assert document(url, second.id)["error"] is None


def test_duplicates_of_a_document_being_read_again_wait(url: str, settings: Settings) -> None:
    """A follower looks at an original that is queued once more: it goes on waiting and ends with it."""
    first, second = sent(url, settings, BROKEN), sent(url, settings, BROKEN)
    processed(url, settings)
    ask(url, lambda store: reprocess(store, settings, first))
    assert document(url, second)["status"] == "queued"
    processed(url, settings)
    assert document(url, second)["status"] == "failed"


def test_a_duplicate_whose_original_vanished_is_read_itself(url: str, settings: Settings) -> None:
    """And the others follow it."""
    made = submitted(url, settings, 0, 0, 0, type="invoice")
    rows(url, "DELETE FROM tabellion_documents WHERE id = $1 RETURNING id", made[0].id)
    rows(url, "DELETE FROM tabellion_processed_documents RETURNING key")
    processed(url, settings)
    states = [document(url, one.id) for one in made[1:]]
    assert sorted(one["status"] for one in states) == ["completed", "duplicate"]


def test_endings_are_told_once_each(url: str, telling: Settings) -> None:
    """Completed, duplicate and failed; a duplicate that came late is told too."""
    listening(url)
    first, second = submitted(url, telling, 0, 0, type="invoice")
    broken = sent(url, telling, BROKEN)
    processed(url, telling)
    [late] = submitted(url, telling, 0, type="invoice")
    assert late.status == "duplicate"
    processed(url, telling)
    assert sorted(told(url)) == sorted([
        ("document.completed", first.id), ("document.duplicate", second.id), ("document.failed", broken),
        ("document.duplicate", late.id),
    ])  # fmt: skip
    processed(url, telling)
    assert len(told(url)) == 4


def test_what_others_than_the_handler_failed_is_told_too(url: str, telling: Settings) -> None:
    """Cancelled by a person: no handler was there to say so."""
    listening(url)
    [one] = submitted(url, telling, 0, type="invoice")
    ask(url, lambda store: cancel(store, documents_queue(telling), one.id))
    processed(url, telling)
    assert told(url) == [("document.failed", one.id)]
    assert document(url, one.id)["error"] == {"code": "try_failed", "message": "cancelled", "attempts": 0}


def test_a_second_failure_is_news(url: str, telling: Settings) -> None:
    """Tried again and failed again: told again; its state is still one that can be tried again."""
    listening(url)
    key = sent(url, telling, BROKEN)
    processed(url, telling)
    assert ask(url, lambda store: restart(store, documents_queue(telling))) == 1
    processed(url, telling)
    assert told(url) == [("document.failed", key)] * 2


def test_a_deleted_document_leaves_its_place_to_a_duplicate(url: str, settings: Settings) -> None:
    """The oldest is read in its stead and the rest follow that; fields that people corrected go with it."""
    made = submitted(url, settings, 0, 0, 0, type="invoice")
    processed(url, settings)
    rows(
        url,
        "UPDATE tabellion_extracted_fields SET value = '\"99.00\"', locked = TRUE WHERE name = 'total' RETURNING name",
    )
    ask(url, lambda store: delete(store, settings, made[0].id))
    assert document(url, made[1].id)["status"] == "queued"
    processed(url, settings)
    heir, other = (document(url, one.id) for one in made[1:])
    assert (heir["status"], heir["duplicate_of"]) == ("completed", None)
    assert (other["status"], other["duplicate_of"]) == ("duplicate", made[1].id)
    assert heir["fields"]["total"]["value"] == "99.00"
    assert rows(url, "SELECT document_id FROM tabellion_processed_documents") == [{"document_id": made[1].id}]


def letters(url: str, settings: Settings) -> list[str]:
    """Three copies of a letter that is none of the types there are."""
    made = [sent(url, settings, LETTER) for _ in range(3)]
    processed(url, settings)
    assert document(url, made[0])["type"] is None
    return made


def test_duplicates_of_an_unknown_document_become_what_it_becomes(url: str, settings: Settings) -> None:
    """Somebody says once what it is; nobody is asked again for every copy."""
    first, *copies = letters(url, settings)
    write_type(settings, "slip")
    ask(url, lambda store: reprocess(store, settings, first, type="slip"))
    processed(url, settings)
    for copy in copies:
        told = document(url, copy)
        assert (told["status"], told["duplicate_of"], told["type"]) == ("duplicate", first, "slip")
    assert [one["document_id"] for one in rows(url, "SELECT document_id FROM tabellion_review_items")] == [first]
    assert document(url, sent(url, settings, LETTER, type="slip"))["duplicate_of"] == first


def test_duplicates_of_an_unknown_document_go_back_with_it(url: str, settings: Settings) -> None:
    """Where it cannot be read as what it was said to be."""
    first, *copies = letters(url, settings)
    write_type(settings, "slip")
    ask(url, lambda store: reprocess(store, settings, first, type="slip"))
    settings.blobs.path(document(url, first)["sha256"]).unlink()
    processed(url, settings)
    assert document(url, first)["error"] is not None
    for copy in copies:
        told = document(url, copy)
        assert (told["status"], told["duplicate_of"]) == ("duplicate", first)
        assert (told["type"], told["asked_type"]) == (None, None)
        assert told["type_key"] == document(url, first)["type_key"]


def test_an_item_that_somebody_holds_does_not_keep_doubts_that_are_gone(url: str, settings: Settings) -> None:
    """Once the document has a type and is read without a doubt, no reason is left on the item."""
    first, *_ = letters(url, settings)
    rows(url, "UPDATE tabellion_review_items SET status = 'in_review' RETURNING id")
    [before] = rows(url, "SELECT reasons FROM tabellion_review_items")
    assert [one["code"] for one in json.loads(before["reasons"])] == ["type_uncertain"]
    write_type(settings, "anything", "processing: {review: never}\n")
    ask(url, lambda store: reprocess(store, settings, first, type="anything"))
    processed(url, settings)
    [after] = rows(url, "SELECT status, reasons FROM tabellion_review_items")
    assert (after["status"], json.loads(after["reasons"])) == ("in_review", [])
