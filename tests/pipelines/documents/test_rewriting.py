"""Outputs after a review: what people said, judged with it, and nothing lost when somebody is killed."""

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
from tabellion.pipelines.documents.compact import compact, templates_of
from tabellion.pipelines.documents.export import export
from tabellion.pipelines.documents.export_formats import ToFile
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.reprocess import DocumentRunning, delete, reprocess
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.webhooks import document_outbox
from tabellion.storage.lake import LakeError
from tests.models.bills import bill
from tests.pipelines.documents.papers import document, ended, processed, rows, said, sent, submitted, write_type
from tests.waiting import eventually
from tests.working import ROOT, ask, make_worker, working

DOUBTFUL = bill("Acme Tools Ltd", "12 High Street", "Total: 120.00")


@pytest.fixture
def key(url: str, settings: Settings) -> str:
    """A document that was read, with a review item."""
    one = sent(url, settings, DOUBTFUL, type="invoice")
    processed(url, settings)
    assert document(url, one)["review"]["status"] == "pending"
    return one


def told(settings: Settings, found: dict[str, Any]) -> dict[str, Any]:
    """The JSON output, which is what its hash says."""
    data = asyncio.run(settings.lake.get(found["outputs"]["json"]))
    assert hashlib.sha256(data).hexdigest() == found["hashes"]["json"]
    return dict(json.loads(data))


def row_of(settings: Settings, found: dict[str, Any]) -> dict[str, Any]:
    """The Parquet output, which is what its hash says."""
    data = asyncio.run(settings.lake.get(found["outputs"]["parquet"]))
    assert hashlib.sha256(data).hexdigest() == found["hashes"]["parquet"]
    [row] = pq.read_table(io.BytesIO(data)).to_pylist()
    return dict(row)


def test_outputs_have_what_people_said(url: str, settings: Settings, key: str) -> None:
    """Values, locks and that it was reviewed, in both files, in the row and in what the API tells."""
    said(url, key, "invoice_date", "2026-03-14")
    said(url, key, "total", "121.00")
    said(url, key, "customer", None, "absent")
    ended(url, key)
    processed(url, settings)
    found = document(url, key)
    assert (found["status"], found["version"], found["reviewed"]) == ("completed", 2, True)
    assert (found["review"]["status"], found["review"]["reviewer"]) == ("corrected", "anna")
    assert (found["fields"]["total"]["value"], found["fields"]["total"]["locked"]) == ("121.00", True)
    output = told(settings, found)
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


def test_a_review_that_begins_anew_is_no_review(url: str, settings: Settings) -> None:
    """The outputs say so; nobody is told."""
    telling = replace(settings, outbox=document_outbox)
    ask(url, endpoints.SCHEMA.prepare)
    ask(url, lambda store: endpoints.add(store, "https://example.com/hook", ["document.reviewed"]))
    key = sent(url, telling, DOUBTFUL, type="invoice")
    processed(url, telling)
    for status in ("approved", "pending"):
        ended(url, key, status)
        processed(url, telling)
        assert told(settings, document(url, key))["reviewed"] is (status == "approved")
    assert len(rows(url, "SELECT event FROM tabellion_webhook_deliveries")) == 1


def test_the_verdict_is_of_what_people_said(url: str, settings: Settings) -> None:
    """What was missing is there, what was doubted is settled; what they broke is told."""
    write_type(settings, "slip", "  day: {type: date, required: true}\n")
    key = sent(url, settings, bill("Acme Tools Ltd", "Total: 120.00"), type="slip")
    processed(url, settings)
    assert document(url, key)["verdict"] == "reject"
    said(url, key, "day", "2026-03-14")
    ended(url, key)
    processed(url, settings)
    found = document(url, key)
    assert (found["verdict"], found["issues"], told(settings, found)["verdict"]) == ("accept", [], "accept")
    said(url, key, "day", "2026-02-31")
    ended(url, key)
    processed(url, settings)
    found = document(url, key)
    assert (found["verdict"], [issue["code"] for issue in found["issues"]]) == ("reject", ["type"])
    assert told(settings, found)["issues"] == found["issues"]


def test_a_rule_that_fails_on_paper_is_a_warning(url: str, settings: Settings) -> None:
    """Where a person has had their word on all that it is about."""
    write_type(settings, "slip", "  tip: money\nvalidation: [{name: no_tip, rule: tip < total}]\n")
    key = sent(url, settings, bill("Acme Tools Ltd", "Total: 120.00"), type="slip")
    processed(url, settings)
    said(url, key, "tip", "300.00")
    ended(url, key)
    processed(url, settings)
    assert document(url, key)["verdict"] == "reject"
    said(url, key, "total", "120.00")
    ended(url, key)
    processed(url, settings)
    found = document(url, key)
    assert (found["verdict"], [(one["rule"], one["severity"]) for one in found["issues"]]) == (
        "warn", [("no_tip", "warning")],
    )  # fmt: skip


def test_what_a_person_confirmed_is_doubted_no_more(url: str, settings: Settings, key: str) -> None:
    """An issue of a field that somebody has looked at is over; the value and its confidence stay as they were read."""
    [before] = rows(url, "SELECT result FROM tabellion_documents")
    result = json.loads(before["result"])
    issue = {"code": "xml_differs", "severity": "warning", "message": "no", "fields": ["total"], "rule": "twice"}
    result["issues"] = [issue, issue | {"fields": ["vendor"]}]
    rows(url, "UPDATE tabellion_documents SET result = $1 RETURNING id", json.dumps(result))
    said(url, key, "total", None, "confirmed")
    ended(url, key, "approved")
    processed(url, settings)
    found = document(url, key)
    kept = [issue["fields"] for issue in found["issues"] if issue["code"] == "xml_differs"]
    assert kept == [["vendor"]]
    assert (found["fields"]["total"]["value"], found["fields"]["total"]["locked"]) == ("120.00", False)
    assert told(settings, found)["fields"]["total"] == found["fields"]["total"]


def test_a_rejected_document_is_not_reviewed_and_told_all_the_same(url: str, settings: Settings) -> None:
    """Listeners hear how its review ended; once."""
    telling = replace(settings, outbox=document_outbox)

    async def listen(store: Store) -> None:
        await endpoints.SCHEMA.prepare(store)
        await endpoints.add(store, "https://example.com/hook", ["document.reviewed"])

    ask(url, listen)
    key = sent(url, telling, DOUBTFUL, type="invoice")
    processed(url, telling)
    ended(url, key, "rejected")
    processed(url, telling)
    found = document(url, key)
    assert (found["reviewed"], told(telling, found)["reviewed"]) == (False, False)
    assert (found["verdict"], row_of(telling, found)["verdict"]) == ("reject", "reject")
    [delivery] = rows(url, "SELECT event, body FROM tabellion_webhook_deliveries")
    data = json.loads(delivery["body"])["data"]
    assert (delivery["event"], data["review"]["status"], data["reviewed"]) == ("document.reviewed", "rejected", False)
    assert (data["version"], data["hashes"], data["status"]) == (2, found["hashes"], "completed")


def test_export_and_the_files_of_a_day_have_the_newest(url: str, settings: Settings, key: str, tmp_path: Path) -> None:
    """Though the day's file was made before the review, and its small files are gone."""
    day = datetime.fromisoformat(document(url, key)["created_at"]).date()
    asyncio.run(compact(settings.lake, day, templates_of([]), remove=True, grace=0))
    said(url, key, "total", "121.00")
    ended(url, key)
    processed(url, settings)
    asyncio.run(compact(settings.lake, day, templates_of([]), remove=True, grace=0))
    [file] = Path(settings.lake.url).rglob("parquet/daily/**/*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert (row["total"], row["reviewed"], row["locked"]) == (Decimal(121), True, ["total"])
    out = tmp_path / "out.jsonl"
    ask(url, lambda store: export(store, "jsonl", ToFile(out), types=settings.types.get))
    one = json.loads(out.read_text())
    assert (one["fields"]["total"]["value"], one["reviewed"], one["locked"]) == ("121.00", True, ["total"])


def test_duplicates_tell_what_people_said_of_their_original(url: str, settings: Settings) -> None:
    """Fields, review and outputs; those that come later too."""
    write_type(settings, "seen", "processing: {review: always}\n")
    first, second = submitted(url, settings, 0, 0, type="seen")
    processed(url, settings)
    said(url, first.id, "total", "121.00")
    ended(url, first.id)
    processed(url, settings)
    [third] = submitted(url, settings, 0, type="seen")
    processed(url, settings)
    original = document(url, first.id)
    for one in (second, third):
        found = document(url, one.id)
        assert (found["status"], found["reviewed"], found["review"]) == ("duplicate", True, original["review"])
        assert found["fields"]["total"]["value"] == "121.00"
        assert (found["verdict"], found["hashes"]) == (original["verdict"], original["hashes"])


def test_a_document_that_is_being_rewritten_is_left_alone(url: str, settings: Settings, key: str) -> None:
    """Neither read again nor deleted meanwhile; one that waits to be may be deleted."""
    ended(url, key)
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


def test_whoever_says_more_meanwhile_is_heard(url: str, settings: Settings, key: str) -> None:
    """The first writing is void, and the document is written once more."""
    said(url, key, "total", "121.00")
    ended(url, key)

    class Slow:
        """A lake that lets somebody correct a field before it writes."""

        puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                await asyncio.to_thread(said, url, key, "total", "122.00")
                await asyncio.to_thread(ended, url, key)
            return await settings.lake.put(path, data)

    slow = Slow()
    eager = replace(settings, lake=slow, lease=1.0)  # type: ignore[arg-type]
    with working(make_worker(url, *documents_queues(eager))):
        eventually(lambda: rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}], within=30)
    found = document(url, key)
    assert (told(settings, found)["fields"]["total"]["value"], slow.puts) == ("122.00", 4)
    assert (found["fields"]["total"]["value"], found["version"]) == ("122.00", 3)


def test_a_review_that_ends_while_the_document_is_read_again_is_written(url: str, settings: Settings, key: str) -> None:
    """The reading did not know of it; the outputs say so all the same."""
    ask(url, lambda store: reprocess(store, settings, key))

    class Slow:
        """A lake that lets somebody finish the review before it writes."""

        puts = 0

        async def put(self, path: str, data: bytes) -> str:
            self.puts += 1
            if self.puts == 1:
                await asyncio.to_thread(ended, url, key, "approved")
            return await settings.lake.put(path, data)

    processed(url, replace(settings, lake=Slow()))  # type: ignore[arg-type]
    found = document(url, key)
    assert (found["status"], found["reviewed"], told(settings, found)["reviewed"]) == ("completed", True, True)
    assert rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}]


@pytest.mark.parametrize("status", ["rejected", "approved"])
def test_a_review_that_ends_before_a_second_reading_fails_is_written(
    url: str, settings: Settings, key: str, status: str
) -> None:
    """The document goes back to what it was, and its outputs say how its review ended."""
    before = document(url, key)["version"]
    ask(url, lambda store: reprocess(store, settings, key))
    ended(url, key, status)
    settings.blobs.path(document(url, key)["sha256"]).unlink()
    processed(url, settings)
    found = document(url, key)
    assert (found["status"], found["error"]["code"], found["version"]) == ("completed", "file_missing", before + 2)
    assert told(settings, found)["reviewed"] is (status == "approved")
    assert rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}]


def test_a_document_that_was_reviewed_and_is_read_again_says_so(url: str, settings: Settings, key: str) -> None:
    """In its outputs, without being written twice."""
    said(url, key, "total", "121.00")
    ended(url, key)
    processed(url, settings)
    ask(url, lambda store: reprocess(store, settings, key))
    processed(url, settings)
    found = document(url, key)
    assert (told(settings, found)["reviewed"], told(settings, found)["locked"]) == (True, ["total"])
    assert (found["version"], found["review"]["status"]) == (3, "corrected")
    assert (
        json.loads(rows(url, "SELECT result FROM tabellion_documents")[0]["result"])["read_fields"]["total"]["value"]
        == "120.00"
    )
    assert len(rows(url, "SELECT n FROM tabellion_attempts WHERE queue = 'reviewed'")) == 1


@pytest.mark.parametrize("place", ["put.post_rename", "settle.pre_commit", "settle.post_commit"])
def test_a_kill_loses_nothing(url: str, settings: Settings, key: str, tmp_path: Path, place: str) -> None:
    """Whenever it comes, both files and their hashes are those of what people said in the end."""
    said(url, key, "total", "121.00")
    ended(url, key)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.pipelines.documents.reader", url, str(tmp_path)], cwd=ROOT, check=False,
        env=os.environ | {"TABELLION_FAILPOINTS": f"{place}:kill"}, timeout=30, capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with working(make_worker(url, *documents_queues(settings))):
        eventually(lambda: rows(url, "SELECT chore FROM tabellion_documents") == [{"chore": None}], within=30)
    found = document(url, key)
    assert (told(settings, found)["fields"]["total"]["value"], row_of(settings, found)["total"]) == ("121.00", 121)


def test_a_lake_that_is_out_is_waited_for(url: str, settings: Settings, key: str) -> None:
    """However often it takes: no attempt is spent, and what people said is written in the end."""
    said(url, key, "total", "121.00")
    ended(url, key)

    class Out:
        """A lake that takes nothing at first."""

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
    assert told(settings, found)["fields"]["total"]["value"] == "121.00"


def test_a_type_that_is_gone_leaves_the_outputs_as_they_were(url: str, settings: Settings) -> None:
    """The document says that it is unwritten, the register says why."""
    write_type(settings, "slip", "processing: {review: always}\n")
    [one] = submitted(url, settings, 0, type="slip")
    processed(url, settings)
    before = document(url, one.id)
    Path(settings.types.folders[0], "slip.yaml").unlink()
    ended(url, one.id)
    processed(url, replace(settings, retry_base=0.02))
    assert rows(url, "SELECT status, chore FROM tabellion_documents") == [{"status": "completed", "chore": "unwritten"}]
    assert document(url, one.id)["hashes"] == before["hashes"]
    [*_, last] = rows(url, "SELECT error FROM tabellion_attempts WHERE queue = 'reviewed' ORDER BY n")
    assert "slip" in last["error"]
