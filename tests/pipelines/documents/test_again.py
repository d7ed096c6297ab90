"""Reading once more, with what people said kept; and taking out for good."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion import Store
from tabellion.pipelines.documents import endpoints, webhooks
from tabellion.pipelines.documents.again import Missing, Underway, delete, reprocess
from tabellion.pipelines.documents.compact import compact, templates_of
from tabellion.pipelines.documents.lookup import get
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.submit import new_id
from tests.models.bills import bill
from tests.pipelines.documents.papers import document, processed, put, rows, sent, submitted, write_type
from tests.working import ask

DOUBTFUL = bill("Acme Tools Ltd", "12 High Street")


def again(url: str, settings: Settings, key: str, **how: Any) -> None:
    ask(url, lambda store: reprocess(store, settings, key, **how))
    processed(url, settings)


def lock(url: str, key: str, name: str, value: Any) -> None:
    now = "1.0" if url.startswith("sqlite") else "to_timestamp(1.0)"
    rows(
        url,
        f"""INSERT INTO extracted_fields (document_id, name, place, value, confidence, source, reasons, locked,
  corrected_at) VALUES ($1, $2, 0, $3, 1.0, 'person', '[]', TRUE, {now})
ON CONFLICT (document_id, name) DO UPDATE SET value = excluded.value, locked = TRUE,
  corrected_at = excluded.corrected_at
RETURNING name""",
        key, name, json.dumps(value),
    )  # fmt: skip


def test_what_a_person_corrected_is_never_overwritten(url: str, settings: Settings) -> None:
    """Not in the field, not in the result, not in the outputs; everything else is read anew and judged with it."""
    [one] = submitted(url, settings, 0, type="invoice")
    processed(url, settings)
    lock(url, one.id, "total", "121.00")
    lock(url, one.id, "payment_terms", "30 days")
    again(url, settings, one.id)
    found = document(url, one.id)
    assert (found["status"], found["version"]) == ("completed", 2)
    total = found["fields"]["total"]
    assert (total["value"], total["locked"]) == ("121.00", True)
    assert (found["fields"]["tax"]["value"], found["fields"]["tax"]["locked"]) == ("20.00", False)
    assert "rule" in [issue["code"] for issue in found["issues"]]  # 100 and 20 do not make 121
    told = json.loads(asyncio.run(settings.lake.get(found["outputs"]["json"])))
    assert told["fields"]["total"]["value"] == "121.00"
    assert told["locked"] == ["total", "payment_terms"]
    assert json.loads(rows(url, "SELECT result FROM documents")[0]["result"])["fields"]["total"]["value"] == "121.00"


def test_a_type_may_let_corrections_go(url: str, settings: Settings) -> None:
    """Where it says so."""
    write_type(settings, "slip", "idempotency: {preserve_locked: false}\n")
    [one] = submitted(url, settings, 0, type="slip")
    processed(url, settings)
    lock(url, one.id, "total", "121.00")
    again(url, settings, one.id)
    assert (
        document(url, one.id)["fields"]["total"] | {"value": "120.00", "locked": False}
        == (document(url, one.id)["fields"]["total"])
    )


def test_a_correction_that_comes_while_it_is_read_is_kept_too(url: str, settings: Settings) -> None:
    """It is read once more: the answer of the first time would not have it."""
    [one] = submitted(url, settings, 0, type="invoice")
    processed(url, settings)
    ask(url, lambda store: reprocess(store, settings, one.id))

    class Slow:
        """Settings whose lake lets somebody correct a field before it writes."""

        def __init__(self) -> None:
            self.puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                await asyncio.to_thread(lock, url, one.id, "total", "121.00")
            return await settings.lake.put(path, data)

    slow = Slow()
    processed(url, replace(settings, lake=slow))  # type: ignore[arg-type]
    found = document(url, one.id)
    assert (found["status"], found["fields"]["total"]["value"]) == ("completed", "121.00")
    told = json.loads(asyncio.run(settings.lake.get(found["outputs"]["json"])))
    assert (told["fields"]["total"]["value"], slow.puts) == ("121.00", 4)


def test_another_type_reads_other_fields(url: str, settings: Settings) -> None:
    """What the new type does not have goes, but for what a person said; the key is the new question's."""
    [one] = submitted(url, settings, 0, type="invoice")
    processed(url, settings)
    lock(url, one.id, "tax", "20.01")
    write_type(settings, "slip")
    again(url, settings, one.id, type="slip")
    found = document(url, one.id)
    assert (found["type"], found["type_key"]) == ("slip", settings.types.get("slip").key)
    assert set(found["fields"]) == {"vendor", "total", "tax"}
    keys = rows(
        url, "SELECT p.key, d.key AS own FROM processed_documents AS p JOIN documents AS d ON d.id = p.document_id"
    )
    assert [row["key"] for row in keys] == [row["own"] for row in keys]
    assert len(keys) == 1
    [as_before] = submitted(url, settings, 0, type="invoice")
    assert as_before.duplicate_of is None


def test_review_items_are_brought_up_to_date_and_not_doubled(url: str, settings: Settings) -> None:
    """While nobody has finished them; one that is no longer needed goes."""
    key = sent(url, settings, DOUBTFUL, type="invoice")
    processed(url, settings)
    [before] = rows(url, "SELECT * FROM review_items")
    again(url, settings, key)
    [after] = rows(url, "SELECT * FROM review_items")
    assert (after["id"], after["version"], after["due_at"]) == (before["id"], 2, before["due_at"])
    write_type(settings, "anything", "processing: {review: never}\n")
    again(url, settings, key, type="anything")
    assert rows(url, "SELECT * FROM review_items") == []


@pytest.mark.parametrize("status", ["approved", "corrected", "rejected"])
def test_a_finished_review_is_not_opened_by_itself(url: str, settings: Settings, status: str) -> None:
    """The document says its doubts; the item stays as people left it, until somebody asks for more."""
    key = sent(url, settings, DOUBTFUL, type="invoice")
    processed(url, settings)
    rows(url, "UPDATE review_items SET status = $1, reasons = '[]' RETURNING id", status)
    again(url, settings, key)
    [item] = rows(url, "SELECT * FROM review_items")
    assert (item["status"], item["reasons"]) == (status, "[]")
    assert document(url, key)["reasons"]
    again(url, settings, key, reopen=True)
    [item] = rows(url, "SELECT * FROM review_items")
    assert item["status"] == "pending"
    assert json.loads(item["reasons"]) == document(url, key)["reasons"]


def test_a_duplicate_can_be_read_for_itself(url: str, settings: Settings) -> None:
    """It is a document of its own then."""
    first, second = submitted(url, settings, 0, 0, type="invoice")
    processed(url, settings)
    again(url, settings, second.id)
    found = document(url, second.id)
    assert (found["status"], found["duplicate_of"]) == ("completed", None)
    assert second.id in found["outputs"]["json"]
    assert rows(url, "SELECT document_id FROM processed_documents") == [{"document_id": first.id}]


def test_what_has_not_ended_is_left_alone(url: str, settings: Settings) -> None:
    """Neither read again nor deleted while a worker has it; what is not there is said to be missing."""
    [one] = submitted(url, settings, 0, type="invoice")
    with pytest.raises(Underway):
        ask(url, lambda store: reprocess(store, settings, one.id))
    rows(url, "UPDATE documents SET status = 'processing' RETURNING id")
    for do in (reprocess, delete):
        with pytest.raises(Underway):
            ask(url, lambda store, do=do: do(store, settings, one.id))  # type: ignore[misc]
        with pytest.raises(Missing):
            ask(url, lambda store, do=do: do(store, settings, new_id()))  # type: ignore[misc]


def test_deleting_leaves_nothing(url: str, settings: Settings) -> None:
    """Rows, outputs and file; the same file may come again and is read."""
    key = sent(url, settings, DOUBTFUL, type="invoice")
    processed(url, settings)
    ask(url, lambda store: delete(store, settings, key))
    assert ask(url, lambda store: get(store, key)) is None
    for table in ("documents", "processed_documents", "extracted_fields", "review_items"):
        assert rows(url, f"SELECT * FROM {table}") == []
    for folder in (settings.blobs.root, Path(settings.lake.url)):
        assert [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")] == []
    second = sent(url, settings, DOUBTFUL, type="invoice")
    assert document(url, second)["status"] == "queued"


def test_deleting_reaches_what_was_said_elsewhere(url: str, settings: Settings) -> None:
    """A model's remembered answer and a webhook's body hold a document's words too."""
    telling = replace(settings, outbox=webhooks.outbox)

    async def listen(store: Store) -> None:
        await endpoints.prepare(store)
        await endpoints.add(store, "https://example.com/hook")

    ask(url, listen)
    first, second = submitted(url, telling, 0, 1, type="invoice")
    processed(url, telling)
    for one in (first, second):
        now = "0" if url.startswith("sqlite") else "now()"
        rows(
            url,
            f"""INSERT INTO tabellion_memos (key, model, queue, row_key, token, asked_at, reply)
VALUES ($1, 'm', 'documents_m', $1, 't', {now}, 'Acme') RETURNING key""",
            one.id,
        )
    ask(url, lambda store: delete(store, telling, first.id))
    assert rows(url, "SELECT document_id FROM webhook_deliveries") == [{"document_id": second.id}]
    assert rows(url, "SELECT row_key FROM tabellion_memos") == [{"row_key": second.id}]


def test_deleting_reaches_the_files_of_a_day(url: str, settings: Settings) -> None:
    """A document that was put together with others is taken out of there too."""
    one, other = submitted(url, settings, 0, 1, type="invoice")
    processed(url, settings)
    templates = templates_of([])
    day = datetime.fromisoformat(document(url, one.id)["created_at"]).date()
    asyncio.run(compact(settings.lake, day, templates))
    ask(url, lambda store: delete(store, settings, one.id))
    found = [
        id_ for path in Path(settings.lake.url).rglob("*.parquet") for id_ in pq.read_table(path)["id"].to_pylist()
    ]
    assert set(found) == {other.id}
    assert len(found) == 2


def test_a_file_that_another_document_has_stays(url: str, settings: Settings) -> None:
    """As another type, for instance."""
    [one] = submitted(url, settings, 0, type="invoice")
    submitted(url, settings, 0, type="receipt")
    ask(url, lambda store: delete(store, settings, one.id))
    assert put(settings, 0).path.exists()


def test_a_deleted_document_of_a_running_worker_changes_nothing(url: str, settings: Settings) -> None:
    """A document deleted while queued is not read."""
    [one] = submitted(url, settings, 0, type="invoice")

    async def go(store: Store) -> None:
        await delete(store, settings, one.id)

    ask(url, go)
    processed(url, settings)
    assert rows(url, "SELECT * FROM tabellion_attempts") == []
