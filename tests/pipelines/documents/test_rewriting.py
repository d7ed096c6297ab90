"""Outputs after a review: people's values, judged again, and nothing lost when a process is killed."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion import Store
from tabellion.delivery import endpoints
from tabellion.pipelines.documents import review_reasons
from tabellion.pipelines.documents.compact import compact, templates_of
from tabellion.pipelines.documents.export import export
from tabellion.pipelines.documents.export_formats import ToFile
from tabellion.pipelines.documents.lookup import get, list_documents
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.reprocess import DocumentRunning, delete, reprocess
from tabellion.pipelines.documents.review import claims, editing, finishing, item_view
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.webhooks import document_outbox
from tabellion.storage.lake import LakeError
from tests.models.bills import FixedModel, bill, reply_about
from tests.pipelines.documents.papers import (
    document,
    edit_field,
    finish_review,
    paper,
    process_all,
    rows,
    submit_bills,
    submit_file,
    write_type,
)
from tests.pipelines.documents.review.items import CLEO
from tests.waiting import eventually
from tests.workers import ROOT, ask, make_worker, working

DOUBTFUL = bill("Acme Tools Ltd", "12 High Street", "Total: 120.00")


@pytest.fixture
def key(url: str, settings: Settings) -> str:
    """A processed document with a review item."""
    one = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    assert document(url, one)["review"]["status"] == "pending"
    return one


def read_json(settings: Settings, found: dict[str, Any]) -> dict[str, Any]:
    """The JSON output; asserts its hash."""
    data = asyncio.run(settings.lake.get(found["outputs"]["json"]))
    assert hashlib.sha256(data).hexdigest() == found["hashes"]["json"]
    return dict(json.loads(data))


def row_of(settings: Settings, found: dict[str, Any]) -> dict[str, Any]:
    """The Parquet output; asserts its hash."""
    data = asyncio.run(settings.lake.get(found["outputs"]["parquet"]))
    assert hashlib.sha256(data).hexdigest() == found["hashes"]["parquet"]
    [row] = pq.read_table(io.BytesIO(data)).to_pylist()
    return dict(row)


def test_outputs_have_the_reviewed_values(url: str, settings: Settings, key: str) -> None:
    """Values, locks and the review status, in both files, in the row and in the API."""
    edit_field(url, key, "invoice_date", "2026-03-14")
    edit_field(url, key, "total", "121.00")
    edit_field(url, key, "customer", None, "absent")
    finish_review(url, key)
    process_all(url, settings)
    found = document(url, key)
    assert (found["status"], found["version"], found["reviewed"]) == ("completed", 2, True)
    assert (found["review"]["status"], found["review"]["reviewer"]) == ("corrected", "anna")
    assert (found["fields"]["total"]["value"], found["fields"]["total"]["locked"]) == ("121.00", True)
    output = read_json(settings, found)
    total = output["fields"]["total"]
    assert (total["value"], total["locked"], total["confidence"], total["source"]) == ("121.00", True, 1.0, "person")
    assert (output["reviewed"], output["version"], output["fields"]["customer"]["value"]) == (True, 2, None)
    assert set(output["locked"]) == {"invoice_date", "total", "customer"}
    row = row_of(settings, found)
    assert (row["total"], str(row["invoice_date"]), row["customer"]) == (Decimal(121), "2026-03-14", None)
    assert (row["reviewed"], set(row["locked"])) == (True, set(output["locked"]))
    [row] = rows(url, "SELECT chore, result FROM tabellion_documents")
    assert row["chore"] is None
    assert json.loads(row["result"])["read_fields"]["total"]["value"] == "120.00"


def test_a_restarted_review_is_not_reviewed(url: str, settings: Settings) -> None:
    """The outputs say so; no webhook is sent."""
    telling = replace(settings, outbox=document_outbox)
    ask(url, endpoints.SCHEMA.prepare)
    ask(url, lambda store: endpoints.add(store, "https://example.com/hook", ["document.reviewed"]))
    key = submit_file(url, telling, DOUBTFUL, type="invoice")
    process_all(url, telling)
    for status in ("approved", "pending"):
        finish_review(url, key, status)
        process_all(url, telling)
        assert read_json(settings, document(url, key))["reviewed"] is (status == "approved")
    assert len(rows(url, "SELECT event FROM tabellion_webhook_deliveries")) == 1


def test_the_verdict_follows_the_reviewed_values(url: str, settings: Settings) -> None:
    """Missing values are there, doubts are settled; errors people made are reported."""
    write_type(settings, "slip", "  day: {type: date, required: true}\n")
    key = submit_file(url, settings, bill("Acme Tools Ltd", "Total: 120.00"), type="slip")
    process_all(url, settings)
    assert document(url, key)["verdict"] == "reject"
    edit_field(url, key, "day", "2026-03-14")
    finish_review(url, key)
    process_all(url, settings)
    found = document(url, key)
    assert (found["verdict"], found["issues"], read_json(settings, found)["verdict"]) == ("accept", [], "accept")
    edit_field(url, key, "day", "2026-02-31")
    finish_review(url, key)
    process_all(url, settings)
    found = document(url, key)
    assert (found["verdict"], [issue["code"] for issue in found["issues"]]) == ("reject", ["type"])
    assert read_json(settings, found)["issues"] == found["issues"]


def verdicts(url: str, settings: Settings, key: str) -> dict[str, str]:
    """The verdict on a document wherever it is shown."""

    async def look(store: Store) -> dict[str, str]:
        found = await get(store, key, settings.types.get)
        assert found is not None
        assert found["review"] is not None
        item = await item_view.get(store, settings.types.get, found["review"]["id"], CLEO)
        output = json.loads(await settings.lake.get(str(found["outputs"]["json"])))
        [row] = await store.database.fetch("SELECT verdict, result FROM tabellion_documents WHERE id = $1", key)
        [listed] = (await list_documents(store))[0]
        return {
            "row": row["verdict"], "result": json.loads(row["result"])["verdict"], "list": str(listed["verdict"]),
            "detail": str(found["verdict"]), "output": output["verdict"], "item": str(item["document"]["verdict"]),
        }  # fmt: skip

    return ask(url, look)


def test_one_verdict_everywhere_after_a_review_is_reopened(url: str, settings: Settings) -> None:
    """A reason that was corrected no longer counts: in the row, list, detail, outputs and item."""
    write_type(settings, "slip", "  day: {type: date, required: true}\n")
    key = submit_file(url, settings, bill("Acme Tools Ltd", "Total: 120.00"), type="slip")
    process_all(url, settings)
    assert set(verdicts(url, settings, key).values()) == {"reject"}
    item = document(url, key)["review"]["id"]
    types = settings.types.get

    async def correct(store: Store) -> int:
        await claims.claim(store, item, CLEO)
        return await editing.edit(store, types, item, CLEO, 1, {"day": Change("correct", "2026-03-14")})

    version = ask(url, correct)
    # Until the outputs are rewritten, only what is judged when it is asked for has the correction.
    shown = verdicts(url, settings, key)
    assert {name for name, verdict in shown.items() if verdict == "accept"} == {"detail", "item"}
    ask(url, lambda store: finishing.approve(store, types, item, CLEO, version, unseen=True))
    process_all(url, settings)
    assert set(verdicts(url, settings, key).values()) == {"accept"}
    ask(url, lambda store: finishing.reopen(store, item, CLEO, "look again"))
    process_all(url, settings)
    found = document(url, key)
    assert (found["review"]["status"], found["version"], found["reviewed"]) == ("pending", 3, False)
    assert set(verdicts(url, settings, key).values()) == {"accept"}


def test_a_confirmed_value_that_is_read_again_is_not_doubted(url: str, settings: Settings) -> None:
    """As long as it is the same: then the row, the list and the outputs have the verdict of the detail."""
    write_type(settings, "slip", "  note: {type: text, required: true}\n")
    slip = settings.types.get("slip")
    facts = {"vendor": ("Acme Tools Ltd", "Acme Tools Ltd"), "total": ("120.00", "Total: 120.00")}

    def saying(note: str) -> Settings:
        model = FixedModel(reply_about(slip, note=note, **facts))
        return replace(settings, models={"saying": "saying"}, model=lambda _: model, default_model="saying")

    key = submit_file(url, saying("rush"), DOUBTFUL, type="slip")
    process_all(url, saying("rush"))
    assert set(verdicts(url, settings, key).values()) == {"warn"}
    edit_field(url, key, "note", None, "confirmed")
    finish_review(url, key, "approved")
    process_all(url, saying("rush"))
    for note, expected in (("rush", "accept"), ("slow", "warn")):
        ask(url, lambda store, note=note: reprocess(store, saying(note), key, reopen=True))  # type: ignore[misc]
        process_all(url, saying(note))
        found = document(url, key)
        assert (found["fields"]["note"]["value"], found["review"]["status"]) == (note, "pending")
        assert set(verdicts(url, settings, key).values()) == {expected}


@pytest.mark.parametrize(("ending", "verdict"), [("rejected", "reject"), ("approved", "accept")])
def test_a_document_that_is_read_once_more_keeps_the_verdict_of_its_review(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, ending: str, verdict: str
) -> None:
    """Unless the review is reopened while it is read: then it is judged without it."""
    monkeypatch.setattr(review_reasons, "UNSURE", 2.0)  # the type of every document is doubted
    key = submit_file(url, settings, paper())
    process_all(url, settings)
    before = verdicts(url, settings, key)
    assert set(before.values()) == {"warn"}
    finish_review(url, key, ending)
    process_all(url, settings)
    ended = verdicts(url, settings, key)
    ask(url, lambda store: reprocess(store, settings, key))
    process_all(url, settings)
    assert verdicts(url, settings, key) == ended
    assert (ended["row"], len(set(ended.values()))) == (verdict, 1)
    item = document(url, key)["review"]["id"]

    class Slow:
        """A lake that lets an operator reopen the review before it writes."""

        puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                reopen = lambda store: finishing.reopen(store, item, CLEO, "look again")  # noqa: E731
                await asyncio.to_thread(ask, url, reopen)
            return await settings.lake.put(path, data)

    ask(url, lambda store: reprocess(store, settings, key))
    process_all(url, replace(settings, lake=Slow()))  # type: ignore[arg-type]
    assert document(url, key)["review"]["status"] == "pending"
    assert verdicts(url, settings, key) == before


def test_a_rule_that_fails_on_confirmed_values_is_a_warning(url: str, settings: Settings) -> None:
    """Where a person decided about all its fields."""
    write_type(settings, "slip", "  tip: money\nvalidation: [{name: no_tip, rule: tip < total}]\n")
    key = submit_file(url, settings, bill("Acme Tools Ltd", "Total: 120.00"), type="slip")
    process_all(url, settings)
    edit_field(url, key, "tip", "300.00")
    finish_review(url, key)
    process_all(url, settings)
    assert document(url, key)["verdict"] == "reject"
    edit_field(url, key, "total", "120.00")
    finish_review(url, key)
    process_all(url, settings)
    found = document(url, key)
    assert (found["verdict"], [(one["rule"], one["severity"]) for one in found["issues"]]) == (
        "warn", [("no_tip", "warning")],
    )  # fmt: skip


def test_a_confirmed_value_is_no_longer_doubted(url: str, settings: Settings, key: str) -> None:
    """Its issues are over; the value and its confidence stay as read."""
    [before] = rows(url, "SELECT result FROM tabellion_documents")
    result = json.loads(before["result"])
    issue = {"code": "xml_differs", "severity": "warning", "message": "no", "fields": ["total"], "rule": "twice"}
    result["issues"] = [issue, issue | {"fields": ["vendor"]}]
    rows(url, "UPDATE tabellion_documents SET result = $1 RETURNING id", json.dumps(result))
    edit_field(url, key, "total", None, "confirmed")
    finish_review(url, key, "approved")
    process_all(url, settings)
    found = document(url, key)
    kept = [issue["fields"] for issue in found["issues"] if issue["code"] == "xml_differs"]
    assert kept == [["vendor"]]
    assert (found["fields"]["total"]["value"], found["fields"]["total"]["locked"]) == ("120.00", False)
    assert read_json(settings, found)["fields"]["total"] == found["fields"]["total"]


def test_a_rejected_document_is_not_reviewed_but_reported(url: str, settings: Settings) -> None:
    """Webhooks report how its review ended, once."""
    telling = replace(settings, outbox=document_outbox)

    async def listen(store: Store) -> None:
        await endpoints.SCHEMA.prepare(store)
        await endpoints.add(store, "https://example.com/hook", ["document.reviewed"])

    ask(url, listen)
    key = submit_file(url, telling, DOUBTFUL, type="invoice")
    process_all(url, telling)
    finish_review(url, key, "rejected")
    process_all(url, telling)
    found = document(url, key)
    assert (found["reviewed"], read_json(telling, found)["reviewed"]) == (False, False)
    assert (found["verdict"], row_of(telling, found)["verdict"]) == ("reject", "reject")
    [delivery] = rows(url, "SELECT event, body FROM tabellion_webhook_deliveries")
    data = json.loads(delivery["body"])["data"]
    assert (delivery["event"], data["review"]["status"], data["reviewed"]) == ("document.reviewed", "rejected", False)
    assert (data["version"], data["hashes"], data["status"]) == (2, found["hashes"], "completed")


def test_export_and_day_files_have_the_newest_values(url: str, settings: Settings, key: str, tmp_path: Path) -> None:
    """Even if the day file was written before the review, and its small files are gone."""
    day = datetime.fromisoformat(document(url, key)["created_at"]).date()
    asyncio.run(compact(settings.lake, day, templates_of([]), remove=True, grace=0))
    edit_field(url, key, "total", "121.00")
    finish_review(url, key)
    process_all(url, settings)
    asyncio.run(compact(settings.lake, day, templates_of([]), remove=True, grace=0))
    [file] = Path(settings.lake.url).rglob("parquet/daily/**/*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert (row["total"], row["reviewed"], row["locked"]) == (Decimal(121), True, ["total"])
    out = tmp_path / "out.jsonl"
    ask(url, lambda store: export(store, "jsonl", ToFile(out), types=settings.types.get))
    one = json.loads(out.read_text())
    assert (one["fields"]["total"]["value"], one["reviewed"], one["locked"]) == ("121.00", True, ["total"])


def test_duplicates_have_the_reviewed_values_of_their_original(url: str, settings: Settings) -> None:
    """Fields, review and outputs; later ones too."""
    write_type(settings, "seen", "processing: {review: always}\n")
    first, second = submit_bills(url, settings, 0, 0, type="seen")
    process_all(url, settings)
    edit_field(url, first.id, "total", "121.00")
    finish_review(url, first.id)
    process_all(url, settings)
    [third] = submit_bills(url, settings, 0, type="seen")
    process_all(url, settings)
    original = document(url, first.id)
    for one in (second, third):
        found = document(url, one.id)
        assert (found["status"], found["reviewed"], found["review"]) == ("duplicate", True, original["review"])
        assert found["fields"]["total"]["value"] == "121.00"
        assert (found["verdict"], found["hashes"]) == (original["verdict"], original["hashes"])


def test_a_document_being_rewritten_is_left_alone(url: str, settings: Settings, key: str) -> None:
    """Neither reprocessed nor deleted meanwhile; one that waits for it may be deleted."""
    finish_review(url, key)
    with pytest.raises(DocumentRunning):
        ask(url, lambda store: reprocess(store, settings, key))
    rows(url, "UPDATE tabellion_documents SET chore = 'rewriting' RETURNING id")
    with pytest.raises(DocumentRunning):
        ask(url, lambda store: reprocess(store, settings, key))
    with pytest.raises(DocumentRunning):
        ask(url, lambda store: delete(store, settings, key))
    rows(url, "UPDATE tabellion_documents SET chore = 'rewrite' RETURNING id")
    ask(url, lambda store: delete(store, settings, key))
    assert rows(url, "SELECT id FROM tabellion_documents") == []


def test_an_edit_made_meanwhile_is_written(url: str, settings: Settings, key: str) -> None:
    """The first write is void, and the document is written once more."""
    edit_field(url, key, "total", "121.00")
    finish_review(url, key)

    class Slow:
        """A lake that lets a person correct a field before it writes."""

        puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                await asyncio.to_thread(edit_field, url, key, "total", "122.00")
                await asyncio.to_thread(finish_review, url, key)
            return await settings.lake.put(path, data)

    slow = Slow()
    eager = replace(settings, lake=slow, lease=1.0)  # type: ignore[arg-type]
    with working(make_worker(url, *documents_queues(eager))):
        eventually(lambda: rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}], within=30)
    found = document(url, key)
    assert (read_json(settings, found)["fields"]["total"]["value"], slow.puts) == ("122.00", 4)
    assert (found["fields"]["total"]["value"], found["version"]) == ("122.00", 3)


def test_a_review_that_ends_during_a_reprocessing_is_written(url: str, settings: Settings, key: str) -> None:
    """The reading did not know of it; the outputs have it anyway."""
    ask(url, lambda store: reprocess(store, settings, key))

    class Slow:
        """A lake that lets a person finish the review before it writes."""

        puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                await asyncio.to_thread(finish_review, url, key, "approved")
            return await settings.lake.put(path, data)

    process_all(url, replace(settings, lake=Slow()))  # type: ignore[arg-type]
    found = document(url, key)
    assert (found["status"], found["reviewed"], read_json(settings, found)["reviewed"]) == ("completed", True, True)
    assert rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}]


@pytest.mark.parametrize("status", ["rejected", "approved"])
def test_a_review_that_ends_before_a_reprocessing_fails_is_written(
    url: str, settings: Settings, key: str, status: str
) -> None:
    """The document is restored, and its outputs say how its review ended."""
    before = document(url, key)["version"]
    ask(url, lambda store: reprocess(store, settings, key))
    finish_review(url, key, status)
    settings.blobs.path(document(url, key)["sha256"]).unlink()
    process_all(url, settings)
    found = document(url, key)
    assert (found["status"], found["error"]["code"], found["version"]) == ("completed", "file_missing", before + 2)
    assert read_json(settings, found)["reviewed"] is (status == "approved")
    assert rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}]


def test_a_reprocessed_document_keeps_its_review_status(url: str, settings: Settings, key: str) -> None:
    """In its outputs, without being written twice."""
    edit_field(url, key, "total", "121.00")
    finish_review(url, key)
    process_all(url, settings)
    ask(url, lambda store: reprocess(store, settings, key))
    process_all(url, settings)
    found = document(url, key)
    assert (read_json(settings, found)["reviewed"], read_json(settings, found)["locked"]) == (True, ["total"])
    assert (found["version"], found["review"]["status"]) == (3, "corrected")
    assert (
        json.loads(rows(url, "SELECT result FROM tabellion_documents")[0]["result"])["read_fields"]["total"]["value"]
        == "120.00"
    )
    assert len(rows(url, "SELECT n FROM tabellion_attempts WHERE queue = 'reviewed'")) == 1


@pytest.mark.parametrize("place", ["put.post_rename", "settle.pre_commit", "settle.post_commit"])
def test_a_kill_loses_nothing(url: str, settings: Settings, key: str, tmp_path: Path, place: str) -> None:
    """Whenever it happens, both files and their hashes have the final values."""
    edit_field(url, key, "total", "121.00")
    finish_review(url, key)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.pipelines.documents.reader", url, str(tmp_path)], cwd=ROOT, check=False,
        env=os.environ | {"TABELLION_FAILPOINTS": f"{place}:kill"}, timeout=30, capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with working(make_worker(url, *documents_queues(settings))):
        eventually(lambda: rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}], within=30)
    found = document(url, key)
    assert (read_json(settings, found)["fields"]["total"]["value"], row_of(settings, found)["total"]) == ("121.00", 121)


def test_an_outage_of_the_lake_is_waited_for(url: str, settings: Settings, key: str) -> None:
    """However often it takes: no attempt is spent, and the values are written in the end."""
    edit_field(url, key, "total", "121.00")
    finish_review(url, key)

    class Out:
        """A lake that accepts nothing at first."""

        puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts <= 12:
                raise LakeError("out")
            return await settings.lake.put(path, data)

    out = replace(settings, lake=Out(), retry_base=0.005)  # type: ignore[arg-type]
    with working(make_worker(url, *documents_queues(out))):
        eventually(lambda: rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}], within=30)
    found = document(url, key)
    assert read_json(settings, found)["fields"]["total"]["value"] == "121.00"


def test_a_missing_type_leaves_the_outputs_unchanged(url: str, settings: Settings) -> None:
    """The document is marked as unwritten, the register says why."""
    write_type(settings, "slip", "processing: {review: always}\n")
    [one] = submit_bills(url, settings, 0, type="slip")
    process_all(url, settings)
    before = document(url, one.id)
    Path(settings.types.folders[0], "slip.yaml").unlink()
    finish_review(url, one.id)
    process_all(url, replace(settings, retry_base=0.02))
    assert rows(url, "SELECT status, chore FROM tabellion_documents") == [{"status": "completed", "chore": "unwritten"}]
    assert document(url, one.id)["hashes"] == before["hashes"]
    [*_, last] = rows(url, "SELECT error FROM tabellion_attempts WHERE queue = 'reviewed' ORDER BY n")
    assert "slip" in last["error"]
