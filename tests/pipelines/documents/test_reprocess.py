"""Reprocessing with people's decisions kept; and deleting for good."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.engine.controls import cancel
from tabellion.engine.ids import new_id
from tabellion.pipelines.documents import local_files, tables
from tabellion.pipelines.documents.compact import compact, templates_of
from tabellion.pipelines.documents.local_files import submit_local
from tabellion.pipelines.documents.lookup import get
from tabellion.pipelines.documents.queues import documents_queue
from tabellion.pipelines.documents.reprocess import DocumentRunning, NoSuchDocument, delete, reprocess
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.submit import submit
from tabellion.pipelines.documents.webhooks import document_outbox
from tabellion.storage.blobs import Blobs
from tests.models.bills import bill
from tests.pipelines.documents.papers import (
    add_endpoint,
    document,
    edit_field,
    finish_review,
    paper,
    process_all,
    put,
    rows,
    submit_bills,
    submit_file,
    write_type,
)
from tests.workers import ask

DOUBTFUL = bill("Acme Tools Ltd", "12 High Street")


def reprocess_one(url: str, settings: Settings, key: str, **how: Any) -> None:
    ask(url, lambda store: reprocess(store, settings, key, **how))
    process_all(url, settings)


def fields(url: str, key: str) -> dict[str, dict[str, Any]]:
    """The rows of a document's fields, their JSON parsed."""
    found = rows(url, "SELECT * FROM tabellion_extracted_fields WHERE document_id = $1", key)
    result = ("value", "read_value", "old_value")
    return {
        row["name"]: row | {name: json.loads(row[name]) if row[name] is not None else None for name in result}
        for row in found
    }


def trail(url: str, key: str) -> list[tuple[str, str]]:
    """Who did what to a document, in order; asserts that the chain is valid."""
    assert ask(url, audit.verify).whole
    return [(one["action"], one["actor"]) for one in ask(url, lambda store: audit.history(store, subject=key))]


def test_a_correction_is_never_overwritten(url: str, settings: Settings) -> None:
    """Not in the field, the result or the outputs; everything else is read again and judged with it."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    edit_field(url, one.id, "total", "121.00")
    edit_field(url, one.id, "payment_terms", "30 days")
    reprocess_one(url, settings, one.id)
    found = document(url, one.id)
    assert (found["status"], found["version"]) == ("completed", 2)
    total = found["fields"]["total"]
    assert (total["value"], total["locked"]) == ("121.00", True)
    assert (found["fields"]["tax"]["value"], found["fields"]["tax"]["locked"]) == ("20.00", False)
    assert "rule" in [issue["code"] for issue in found["issues"]]  # 100 and 20 do not make 121
    body = json.loads(asyncio.run(settings.lake.get(found["outputs"]["json"])))
    assert body["fields"]["total"]["value"] == "121.00"
    assert body["locked"] == ["total", "payment_terms"]
    assert (
        json.loads(rows(url, "SELECT result FROM tabellion_documents")[0]["result"])["fields"]["total"]["value"]
        == "121.00"
    )


def test_three_values_of_a_locked_field_are_kept(url: str, settings: Settings) -> None:
    """The person's, the one read at that time, and the newest reading's."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    assert fields(url, one.id)["total"]["read_value"] == "120.00"
    edit_field(url, one.id, "total", "121.00")
    edit_field(url, one.id, "customer", "Nobody Ltd")
    rows(url, "UPDATE tabellion_extracted_fields SET old_value = '\"119.00\"' WHERE name = 'total' RETURNING name")
    reprocess_one(url, settings, one.id)
    found = fields(url, one.id)
    total, customer = found["total"], found["customer"]
    assert (total["value"], total["old_value"], total["read_value"]) == ("121.00", "119.00", "120.00")
    assert (total["state"], total["corrected_by"], total["locked"]) == ("corrected", "anna", True)
    assert (customer["value"], customer["read_value"]) == ("Nobody Ltd", None)
    assert json.loads(total["candidates"])[0] == {
        "value": "120.00", "page": 1, "box": json.loads(total["box"]), "quote": "120.00", "from": "words",
    }  # fmt: skip
    write_type(settings, "slip")
    reprocess_one(url, settings, one.id, type="slip")
    assert fields(url, one.id)["customer"]["read_value"] is None


def test_a_confirmed_value_stays_confirmed_while_unchanged(url: str, settings: Settings) -> None:
    """Another value was not confirmed by anyone."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    for name in ("total", "tax"):
        edit_field(url, one.id, name, None, "confirmed")
    rows(url, "UPDATE tabellion_extracted_fields SET value = '\"7.00\"' WHERE name = 'tax' RETURNING name")
    reprocess_one(url, settings, one.id)
    found = fields(url, one.id)
    assert (found["total"]["state"], found["total"]["value"]) == ("confirmed", "120.00")
    assert (found["tax"]["state"], found["tax"]["value"]) == (None, "20.00")


def test_a_reopened_review_stays_open(url: str, settings: Settings) -> None:
    """Even without doubts: a person asked for it."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    finish_review(url, key)
    process_all(url, settings)
    write_type(settings, "anything", "processing: {review: never}\n")
    reprocess_one(url, settings, key, type="anything", reopen=True)
    assert rows(url, "SELECT status FROM tabellion_review_items") == [{"status": "pending"}]
    assert (
        json.loads((Path(settings.lake.url) / document(url, key)["outputs"]["json"]).read_text())["review"] == "pending"
    )


def test_an_open_item_shows_that_its_fields_changed(url: str, settings: Settings) -> None:
    """Its version grows, even if the document has no doubts any more."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    rows(url, "UPDATE tabellion_review_items SET status = 'in_review' RETURNING id")
    write_type(settings, "anything", "processing: {review: never}\n")
    reprocess_one(url, settings, key, type="anything")
    assert rows(url, "SELECT status, version FROM tabellion_review_items") == [{"status": "in_review", "version": 2}]


def test_the_trail_says_who_reprocessed_and_deleted(url: str, settings: Settings) -> None:
    """With what was requested; it outlives the document."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    finish_review(url, key)
    process_all(url, settings)
    reprocess_one(url, settings, key, model="local", actor="key:erp")
    reprocess_one(url, settings, key, reopen=True, actor="anna")
    ask(url, lambda store: delete(store, settings, key, actor="anna"))
    entries = trail(url, key)
    assert [one for one in entries if one[0] != "extracted"] == [
        ("created", "tabellion"), ("approved", "anna"), ("reprocessed", "key:erp"), ("reprocessed", "anna"),
        ("reopened", "anna"), ("deleted", "anna"),
    ]  # fmt: skip
    assert [action for action, _ in entries].count("extracted") == 3
    history = {one["action"]: one for one in ask(url, lambda store: audit.history(store, subject=key))}
    assert history["reprocessed"]["more"] == {"type": "invoice", "model": "local", "reopen": True}
    assert history["reopened"]["item_id"] == history["created"]["item_id"] is not None


def test_a_refused_action_leaves_no_trail(url: str, settings: Settings) -> None:
    """A document being read is neither reprocessed nor deleted, and nothing is recorded."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    rows(url, "UPDATE tabellion_documents SET status = 'processing' RETURNING id")
    for do in (reprocess, delete):
        with pytest.raises(DocumentRunning):
            ask(url, lambda store, do=do: do(store, settings, one.id))  # type: ignore[misc]
    assert trail(url, one.id) == []


def unreadable(settings: Settings, number: int = 0) -> Path:
    """Delete a bill's file: reading it fails for good."""
    path = put(settings, number).path
    return path.rename(path.with_suffix(".away"))


def test_a_failed_reprocessing_loses_nothing(url: str, settings: Settings) -> None:
    """The result, the outputs, their hashes and the duplicates stay; the error says what went wrong."""
    first, second = submit_bills(url, settings, 0, 0, type="invoice")
    process_all(url, settings)
    before, copy = document(url, first.id), document(url, second.id)
    write_type(settings, "slip")
    away = unreadable(settings)
    ask(url, lambda store: reprocess(store, settings, first.id, type="slip"))
    while_waiting = document(url, first.id)
    assert (while_waiting["status"], while_waiting["outputs"]) == ("queued", before["outputs"])
    process_all(url, settings)
    after = document(url, first.id)
    assert (after["status"], after["error"]["code"]) == ("completed", "file_missing")
    assert "the previous reading" in after["error"]["note"]
    changed = {"error", "version", "started_at", "completed_at", "attempts"}
    assert {name for name in before if before[name] != after[name]} <= changed
    for kind in ("json", "parquet"):
        data = asyncio.run(settings.lake.get(after["outputs"][kind]))
        assert hashlib.sha256(data).hexdigest() == after["hashes"][kind]
    same = ("status", "duplicate_of", "type", "fields", "outputs", "hashes", "verdict")
    assert {name: document(url, second.id)[name] for name in same} == {name: copy[name] for name in same}
    # Whoever comes with the old question finds the old answer.
    away.rename(away.with_suffix(""))
    assert submit_bills(url, settings, 0, type="invoice")[0].duplicate_of == first.id
    reprocess_one(url, settings, first.id)
    assert (document(url, first.id)["error"], document(url, first.id)["status"]) == (None, "completed")


def test_duplicates_of_a_failed_reprocessing_fail_with_it(url: str, settings: Settings) -> None:
    """A duplicate as the type that could not be read fails; one of the former type follows the document."""
    write_type(settings, "slip")
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    ask(url, lambda store: reprocess(store, settings, one.id, type="slip"))
    [late] = submit_bills(url, settings, 0, type="slip")
    assert late.duplicate_of == one.id
    unreadable(settings)
    process_all(url, settings)
    assert (document(url, one.id)["status"], document(url, one.id)["type"]) == ("completed", "invoice")
    found = document(url, late.id)
    assert (found["status"], found["duplicate_of"], found["error"]["code"]) == ("failed", None, "file_missing")
    put(settings, 0)
    ask(url, lambda store: reprocess(store, settings, one.id))
    [late] = submit_bills(url, settings, 0, type="invoice")
    unreadable(settings)
    process_all(url, settings)
    found = document(url, late.id)
    assert (found["status"], found["duplicate_of"]) == ("duplicate", one.id)


def test_a_duplicate_that_cannot_be_reprocessed_stays_a_duplicate(url: str, settings: Settings) -> None:
    """It has the values of its original, and an error."""
    first, second = submit_bills(url, settings, 0, 0, type="invoice")
    process_all(url, settings)
    unreadable(settings)
    reprocess_one(url, settings, second.id)
    found = document(url, second.id)
    assert (found["status"], found["duplicate_of"]) == ("duplicate", first.id)
    assert found["fields"] == document(url, first.id)["fields"]
    assert found["error"]["code"] == "file_missing"


def test_a_failed_reprocessing_is_reported(url: str, settings: Settings) -> None:
    """To webhooks: that it failed, and that the document is unchanged."""
    telling = replace(settings, outbox=document_outbox)
    add_endpoint(url)
    [one] = submit_bills(url, telling, 0, type="invoice")
    process_all(url, telling)
    unreadable(telling)
    ask(url, lambda store: reprocess(store, telling, one.id))
    ask(url, lambda store: cancel(store, documents_queue(telling), one.id))
    process_all(url, telling)
    deliveries = rows(url, "SELECT event, body FROM tabellion_webhook_deliveries ORDER BY created_at")
    assert [row["event"] for row in deliveries] == ["document.completed", "document.failed"]
    data = json.loads(deliveries[1]["body"])["data"]
    assert (data["status"], data["error"]["message"]) == ("completed", "cancelled")
    assert data["outputs"]["json"] == document(url, one.id)["outputs"]["json"] is not None


def test_the_api_and_the_outputs_have_the_same_fields(url: str, settings: Settings) -> None:
    """After a correction, a reprocessing, a type without the corrected field, and the end of the review."""
    key = submit_file(url, settings, bill("Acme Tools Ltd", "12 High Street", "Total: 120.00"), type="invoice")
    process_all(url, settings)
    edit_field(url, key, "total", "121.00")
    edit_field(url, key, "tax", None, "absent")
    rows(
        url,
        "UPDATE tabellion_extracted_fields SET confidence = 0.3, source = 'ocr' WHERE name = 'total' RETURNING name",
    )
    write_type(settings, "slip")

    def alike() -> dict[str, Any]:
        found = document(url, key)
        body = json.loads(asyncio.run(settings.lake.get(found["outputs"]["json"])))
        assert body["fields"] == found["fields"]
        assert list(body["fields"]) == list(found["fields"])
        assert body["locked"] == [name for name, one in found["fields"].items() if one["locked"]]
        return dict(found["fields"])

    reprocess_one(url, settings, key)
    first = alike()
    assert (first["total"]["value"], first["total"]["source"], first["total"]["confidence"]) == (
        "121.00",
        "person",
        1.0,
    )
    assert (first["tax"]["value"], first["tax"]["reasons"]) == (None, ["marked as absent by a person"])
    reprocess_one(url, settings, key, type="slip")
    second = alike()
    assert "tax" not in settings.types.get("slip")
    assert second["tax"] == first["tax"]
    assert "invoice_number" not in second
    finish_review(url, key)
    process_all(url, settings)
    assert alike()["tax"] == first["tax"]


def test_a_type_may_discard_corrections(url: str, settings: Settings) -> None:
    """Where it says so."""
    write_type(settings, "slip", "idempotency: {preserve_locked: false}\n")
    [one] = submit_bills(url, settings, 0, type="slip")
    process_all(url, settings)
    edit_field(url, one.id, "total", "121.00")
    reprocess_one(url, settings, one.id)
    assert (
        document(url, one.id)["fields"]["total"] | {"value": "120.00", "locked": False}
        == (document(url, one.id)["fields"]["total"])
    )


def test_a_correction_made_while_it_is_read_is_kept_too(url: str, settings: Settings) -> None:
    """It is read once more: the first answer would not include it."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    ask(url, lambda store: reprocess(store, settings, one.id))

    class Slow:
        """Settings whose lake lets a person correct a field before it writes."""

        def __init__(self) -> None:
            self.puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                await asyncio.to_thread(edit_field, url, one.id, "total", "121.00")
            return await settings.lake.put(path, data)

    slow = Slow()
    process_all(url, replace(settings, lake=slow))  # type: ignore[arg-type]
    found = document(url, one.id)
    assert (found["status"], found["fields"]["total"]["value"]) == ("completed", "121.00")
    body = json.loads(asyncio.run(settings.lake.get(found["outputs"]["json"])))
    assert (body["fields"]["total"]["value"], slow.puts) == ("121.00", 4)


def test_another_type_reads_other_fields(url: str, settings: Settings) -> None:
    """Fields that the new type lacks are removed, except corrected ones; the key follows the new request."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    edit_field(url, one.id, "tax", "20.01")
    write_type(settings, "slip")
    reprocess_one(url, settings, one.id, type="slip")
    found = document(url, one.id)
    assert (found["type"], found["type_key"]) == ("slip", settings.types.get("slip").key)
    assert set(found["fields"]) == {"vendor", "total", "tax"}
    keys = rows(
        url,
        "SELECT p.key, d.key AS own FROM tabellion_processed_documents AS p "
        "JOIN tabellion_documents AS d ON d.id = p.document_id",
    )
    assert [row["key"] for row in keys] == [row["own"] for row in keys]
    assert len(keys) == 1
    [as_before] = submit_bills(url, settings, 0, type="invoice")
    assert as_before.duplicate_of is None


def list_outputs(settings: Settings) -> set[str]:
    """The existing outputs."""
    return {entry.path for entry in asyncio.run(settings.lake.list())}


def test_outputs_at_old_paths_are_removed(url: str, settings: Settings) -> None:
    """Once the new ones are committed; the type's templates say where they are."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    assert len(list_outputs(settings)) == 2
    write_type(settings, "slip", 'output: {json: "slips/{id}.json", parquet: null}\n')
    reprocess_one(url, settings, one.id, type="slip")
    found = document(url, one.id)
    assert list_outputs(settings) == {f"slips/{one.id}.json"} == {found["outputs"]["json"]}
    reprocess_one(url, settings, one.id, type="invoice")
    assert list_outputs(settings) == set(document(url, one.id)["outputs"].values())
    assert rows(url, "SELECT * FROM tabellion_superseded_outputs") == []


def test_outputs_of_a_failed_reprocessing_stay(url: str, settings: Settings) -> None:
    """The document still has them."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    before = list_outputs(settings)
    write_type(settings, "slip", 'output: {json: "slips/{id}.json", parquet: null}\n')
    unreadable(settings)
    reprocess_one(url, settings, one.id, type="slip")
    assert list_outputs(settings) == before == set(document(url, one.id)["outputs"].values())


def test_a_document_leaves_day_files_of_its_old_paths(url: str, settings: Settings) -> None:
    """Its old row would be found beside the new one, below another folder."""
    write_type(settings, "slip", 'output: {parquet: "slips/{yyyy}/{mm}/{dd}/{id}.parquet"}\n')
    one, other = submit_bills(url, settings, 0, 1, type="slip")
    process_all(url, settings)
    day = datetime.fromisoformat(document(url, one.id)["created_at"]).date()
    templates = templates_of([settings.types.get("slip").output.parquet])
    asyncio.run(compact(settings.lake, day, templates))
    reprocess_one(url, settings, one.id, type="invoice")
    kept = [
        (path.relative_to(settings.lake.url).parts[0], id_)
        for path in Path(settings.lake.url).rglob("*.parquet")
        for id_ in pq.read_table(path)["id"].to_pylist()
    ]
    assert sorted(kept) == sorted([("parquet", one.id), ("slips", other.id), ("slips", other.id)])


def test_duplicates_do_not_change_type_with_their_original(url: str, settings: Settings) -> None:
    """The oldest is read in its place, with the corrections, and the others follow it."""
    submitted = submit_bills(url, settings, 0, 0, 0, type="invoice")
    process_all(url, settings)
    edit_field(url, submitted[0].id, "total", "121.00")
    write_type(settings, "slip")
    reprocess_one(url, settings, submitted[0].id, type="slip")
    first, second, third = (document(url, one.id) for one in submitted)
    assert [one["type"] for one in (first, second, third)] == ["slip", "invoice", "invoice"]
    assert [one["status"] for one in (first, second, third)] == ["completed", "completed", "duplicate"]
    assert (second["duplicate_of"], third["duplicate_of"]) == (None, second["id"])
    assert [one["fields"]["total"]["value"] for one in (first, second, third)] == ["121.00"] * 3
    assert set(first["fields"]) == {"vendor", "total"}
    for kind, key in (("invoice", second["id"]), ("slip", first["id"])):
        assert submit_bills(url, settings, 0, type=kind)[0].duplicate_of == key


def test_duplicates_follow_a_document_that_keeps_its_type(url: str, settings: Settings) -> None:
    """Also when the type has a new version: it is the same type."""
    write_type(settings, "slip")
    first, second = submit_bills(url, settings, 0, 0, type="slip")
    process_all(url, settings)
    write_type(settings, "slip", "  tax: money\n")
    reprocess_one(url, settings, first.id)
    assert (document(url, second.id)["status"], document(url, second.id)["duplicate_of"]) == ("duplicate", first.id)
    assert document(url, second.id)["fields"] == document(url, first.id)["fields"]
    assert document(url, second.id)["hashes"] == document(url, first.id)["hashes"]
    assert document(url, first.id)["type_key"] == settings.types.get("slip").key


def test_review_items_are_updated_and_not_duplicated(url: str, settings: Settings) -> None:
    """While unfinished; one that is no longer needed is deleted."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    [before] = rows(url, "SELECT * FROM tabellion_review_items")
    reprocess_one(url, settings, key)
    [after] = rows(url, "SELECT * FROM tabellion_review_items")
    assert (after["id"], after["version"], after["due_at"]) == (before["id"], 2, before["due_at"])
    write_type(settings, "anything", "processing: {review: never}\n")
    reprocess_one(url, settings, key, type="anything")
    assert rows(url, "SELECT * FROM tabellion_review_items") == []


@pytest.mark.parametrize("status", ["approved", "corrected", "rejected"])
def test_a_finished_review_is_not_reopened_by_itself(url: str, settings: Settings, status: str) -> None:
    """The document has its doubts; the item stays until someone asks for more."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    rows(url, "UPDATE tabellion_review_items SET status = $1, reasons = '[]' RETURNING id", status)
    reprocess_one(url, settings, key)
    [item] = rows(url, "SELECT * FROM tabellion_review_items")
    assert (item["status"], item["reasons"]) == (status, "[]")
    assert document(url, key)["reasons"]
    reprocess_one(url, settings, key, reopen=True)
    [item] = rows(url, "SELECT * FROM tabellion_review_items")
    assert (item["status"], item["reviewer"], item["finished_at"]) == ("pending", None, None)
    assert json.loads(item["reasons"]) == document(url, key)["reasons"]


@pytest.mark.parametrize("status", ["approved", "corrected", "rejected"])
def test_an_approved_value_is_not_replaced_silently(url: str, settings: Settings, status: str) -> None:
    """Where a later reading differs, the review restarts and says why; a rejected one stays rejected."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    edit_field(url, key, "customer", "Somebody")
    rows(
        url,
        "UPDATE tabellion_extracted_fields SET value = $1 WHERE name = 'vendor' RETURNING name",
        '"Seen by a person"',
    )
    rows(url, "UPDATE tabellion_review_items SET status = $1, reviewer = 'anna' RETURNING id", status)
    reprocess_one(url, settings, key)
    [item] = rows(url, "SELECT status, reviewer, reasons, assigned_to FROM tabellion_review_items")
    if status == "rejected":
        assert (item["status"], item["reviewer"]) == ("rejected", "anna")
        return
    assert (item["status"], item["reviewer"]) == ("pending", None)
    assert [one["fields"] for one in json.loads(item["reasons"]) if one["code"] == "reread"] == [["vendor"]]
    found = document(url, key)
    assert (found["reviewed"], found["fields"]["customer"]["value"]) == (False, "Somebody")
    assert ("reopened", "tabellion") in trail(url, key)
    [entry] = [one for one in ask(url, lambda store: audit.history(store, subject=key)) if one["action"] == "reopened"]
    assert (entry["reason"], entry["more"]["fields"]) == ("reread", ["vendor"])
    assert json.loads((Path(settings.lake.url) / found["outputs"]["json"]).read_text())["reviewed"] is False


def test_a_duplicate_can_be_reprocessed_alone(url: str, settings: Settings) -> None:
    """It is then a document of its own."""
    first, second = submit_bills(url, settings, 0, 0, type="invoice")
    process_all(url, settings)
    reprocess_one(url, settings, second.id)
    found = document(url, second.id)
    assert (found["status"], found["duplicate_of"]) == ("completed", None)
    assert second.id in found["outputs"]["json"]
    assert rows(url, "SELECT document_id FROM tabellion_processed_documents") == [{"document_id": first.id}]


def test_an_unfinished_document_is_left_alone(url: str, settings: Settings) -> None:
    """Neither reprocessed nor deleted while a worker has it; a missing one is reported."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    with pytest.raises(DocumentRunning):
        ask(url, lambda store: reprocess(store, settings, one.id))
    rows(url, "UPDATE tabellion_documents SET status = 'processing' RETURNING id")
    for do in (reprocess, delete):
        with pytest.raises(DocumentRunning):
            ask(url, lambda store, do=do: do(store, settings, one.id))  # type: ignore[misc]
        with pytest.raises(NoSuchDocument):
            ask(url, lambda store, do=do: do(store, settings, new_id()))  # type: ignore[misc]


def test_deleting_leaves_nothing(url: str, settings: Settings) -> None:
    """Rows, outputs and file; the same file may be uploaded again and is read."""
    key = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    ask(url, lambda store: delete(store, settings, key))
    assert ask(url, lambda store: get(store, key)) is None
    for table in tables.SCHEMA.tables[:4]:
        assert rows(url, f"SELECT * FROM {table}") == []
    for folder in (settings.blobs.root, Path(settings.lake.url)):
        assert [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")] == []
    second = submit_file(url, settings, DOUBTFUL, type="invoice")
    assert document(url, second)["status"] == "queued"


def test_deleting_removes_copies_elsewhere(url: str, settings: Settings) -> None:
    """A model's stored answer and a webhook's body contain a document's text too."""
    telling = replace(settings, outbox=document_outbox)
    add_endpoint(url)
    first, second = submit_bills(url, telling, 0, 1, type="invoice")
    process_all(url, telling)
    for one in (first, second):
        now = "0" if url.startswith("sqlite") else "now()"
        rows(
            url,
            f"""INSERT INTO tabellion_memos (key, model, queue, row_key, token, asked_at, reply)
VALUES ($1, 'm', 'documents_m', $1, 't', {now}, 'Acme') RETURNING key""",
            one.id,
        )
    ask(url, lambda store: delete(store, telling, first.id))
    assert rows(url, "SELECT document_id FROM tabellion_webhook_deliveries") == [{"document_id": second.id}]
    assert rows(url, "SELECT row_key FROM tabellion_memos") == [{"row_key": second.id}]


def test_deleting_removes_it_from_day_files(url: str, settings: Settings) -> None:
    """Also after it was compacted with others."""
    one, other = submit_bills(url, settings, 0, 1, type="invoice")
    process_all(url, settings)
    templates = templates_of([])
    day = datetime.fromisoformat(document(url, one.id)["created_at"]).date()
    asyncio.run(compact(settings.lake, day, templates))
    ask(url, lambda store: delete(store, settings, one.id))
    found = [
        id_ for path in Path(settings.lake.url).rglob("*.parquet") for id_ in pq.read_table(path)["id"].to_pylist()
    ]
    assert set(found) == {other.id}
    assert len(found) == 2


def test_a_file_uploaded_while_it_is_deleted_is_not_lost(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delete checks again once the file is moved away: one accepted meanwhile gets it back."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    asked, remove = asyncio.Event(), Blobs.remove

    async def late(blobs: Blobs, sha256: str, **how: Any) -> bool:
        asked.set()
        await acknowledged.wait()
        return await remove(blobs, sha256, **how)

    monkeypatch.setattr(Blobs, "remove", late)
    acknowledged = asyncio.Event()

    async def go(store: Store) -> str:
        deleting = asyncio.create_task(delete(store, settings, one.id))
        await asked.wait()
        second = await submit_local(store, settings, paper(0), name="again.pdf", type="invoice")
        acknowledged.set()
        await deleting
        return second.id

    key = ask(url, go)
    process_all(url, settings)
    assert document(url, key)["status"] == "completed"
    assert asyncio.run(settings.blobs.has(document(url, key)["sha256"]))


def test_a_file_deleted_before_its_row_is_written_is_copied_again(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upload was not acknowledged yet: it is copied once more, and kept."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    submits = 0

    async def slow(store: Store, settings: Settings, content: Any, **how: Any) -> Any:
        nonlocal submits
        submits += 1
        if submits == 1:
            await delete(store, settings, one.id)
        return await submit(store, settings, content, **how)

    monkeypatch.setattr(local_files, "submit", slow)
    second = ask(url, lambda store: submit_local(store, settings, paper(0), name="again.pdf", type="invoice"))
    assert (submits, asyncio.run(settings.blobs.has(put(settings, 0).sha256))) == (2, True)
    assert [row["id"] for row in rows(url, "SELECT id FROM tabellion_documents")] == [second.id]


def test_a_file_of_another_document_stays(url: str, settings: Settings) -> None:
    """Of one with another type, for instance."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    submit_bills(url, settings, 0, type="receipt")
    ask(url, lambda store: delete(store, settings, one.id))
    assert put(settings, 0).path.exists()


def test_a_deleted_document_is_not_read(url: str, settings: Settings) -> None:
    """A document deleted while queued is skipped by a running worker."""
    [one] = submit_bills(url, settings, 0, type="invoice")

    async def go(store: Store) -> None:
        await delete(store, settings, one.id)

    ask(url, go)
    process_all(url, settings)
    assert rows(url, "SELECT * FROM tabellion_attempts") == []
