"""From a file to a complete row, with outputs that match their hashes."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabellion import GateSettings, Store
from tabellion.accounts import audit
from tabellion.errors import RateLimited
from tabellion.models.base import Ask, Blob, Part, Reply, Schema
from tabellion.models.errors import BadOutput, Rejected, Unavailable
from tabellion.models.gated import GatedModel
from tabellion.models.output import judge
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.row import seconds
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.submit import submit
from tabellion.pipelines.documents.tables import SCHEMA
from tabellion.storage.lake import Lake
from tests.models.bills import LINES, bill, reply_about
from tests.pipelines.documents.papers import document, process_all, put, rows, submit_bills, submit_file, write_type
from tests.pipelines.documents.review.items import put_user
from tests.reading import papers
from tests.waiting import eventually
from tests.workers import ask, make_worker, working

FAST = {"clerk": GateSettings(rate=500, min_rate=500, max_rate=500)}


class ScriptedModel:
    """A model that returns or raises what it is given."""

    name, model = "clerk", "clerk-1"
    takes = ("application/pdf",)

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Return the next answer; the last one forever."""
        self.asked += 1
        assert isinstance(parts[0], Blob)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        text = json.dumps(answer)
        return Reply(text, judge(text, schema, ask), cost=0.25, model=self.model)

    async def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def scripted_model(settings: Settings) -> Callable[..., tuple[ScriptedModel, Settings]]:
    """Settings whose documents a scripted model reads, behind a gate."""

    def make(*answers: Any) -> tuple[ScriptedModel, Settings]:
        one = ScriptedModel(*answers)
        return one, replace(settings, models={"clerk": "clerk"}, model=lambda _: GatedModel(one), default_model="clerk")

    return make


def output(settings: Settings, found: dict[str, Any], kind: str) -> bytes:
    data = asyncio.run(settings.lake.get(found["outputs"][kind]))
    assert hashlib.sha256(data).hexdigest() == found["hashes"][kind]
    return data


def test_a_document_is_read_and_written(url: str, settings: Settings) -> None:
    """Fields with confidence and box, both outputs complete, and one attempt in the register."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["type"], found["pages"], found["verdict"]) == ("completed", "invoice", 1, "accept")
    assert found["fields"]["total"]["value"] == "120.00"
    assert found["fields"]["total"]["box"] is not None
    assert next(iter(found["fields"])) == "vendor"
    assert (found["error"], found["attempts"], found["progress"], found["cost"]) == (None, 1, None, None)
    body = json.loads(output(settings, found, "json"))
    assert body["id"] == one.id
    assert body["fields"]["total"] == found["fields"]["total"]
    assert output(settings, found, "parquet")[:4] == b"PAR1"
    day = found["created_at"][:10].replace("-", "/")
    assert found["outputs"] == {"json": f"json/{day}/{one.id}.json", "parquet": f"parquet/{day}/{one.id}.parquet"}
    [attempt] = rows(url, "SELECT queue, outcome FROM tabellion_attempts")
    assert attempt == {"queue": "documents", "outcome": "done"}


def test_the_type_is_detected_where_none_is_requested(url: str, settings: Settings) -> None:
    """The requested and the detected type are stored separately."""
    [one] = submit_bills(url, settings, 0)
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["type"], found["asked_type"]) == ("invoice", None)
    assert found["type_key"] == settings.types.get("invoice").key


def test_a_document_of_no_known_type_is_not_accepted(url: str, settings: Settings) -> None:
    """Nor is a blank page: the row, the result and the outputs say so."""
    keys = [submit_file(url, settings, papers.pdf((text,))) for text in ("Once upon a time", "")]
    process_all(url, settings)
    for key in keys:
        found = document(url, key)
        assert (found["status"], found["type"], found["verdict"]) == ("completed", None, "warn")
        assert json.loads(output(settings, found, "json"))["verdict"] == "warn"
        assert found["reasons"][0]["code"] == "type_uncertain"


def test_an_unreadable_file_fails_at_once_with_its_reason(url: str, settings: Settings) -> None:
    """The code is the reader's; no retry, no outputs, no fields."""
    first, second = submit_file(url, settings, papers.pdf(password="secret")), submit_file(url, settings, b"%PDF-1.7\n")
    process_all(url, settings)
    found = document(url, first)
    assert (found["status"], found["error"]["code"]) == ("failed", "pdf_encrypted")
    assert (found["error"]["attempts"], found["error"]["tried"]) == (1, ["read locally"])
    assert found["outputs"] == {"json": None, "parquet": None}
    assert document(url, second)["status"] == "failed"
    assert rows(url, "SELECT * FROM tabellion_extracted_fields") == []


def test_an_invalid_type_file_does_not_affect_other_types(url: str, settings: Settings) -> None:
    """Their documents are read as usual; where the type was detected, a note mentions the file."""
    write_type(settings, "slip", "  what is: this\n")
    [one], [two] = submit_bills(url, settings, 0), submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    found = document(url, one.id)
    assert (found["status"], found["type"], found["attempts"]) == ("completed", "invoice", 1)
    assert [note for note in found["notes"] if note.startswith("the document type slip was skipped:")]
    assert document(url, two.id)["status"] == "completed"


def test_documents_of_an_invalid_type_file_wait(url: str, settings: Settings) -> None:
    """No attempt is spent, the error names the file, and once it is fixed they are read."""
    write_type(settings, "slip")
    [one] = submit_bills(url, settings, 0, type="slip")
    write_type(settings, "slip", "  what is: this\n")
    quick = replace(settings, retry_base=0.05)
    with working(make_worker(url, *documents_queues(quick))):
        error = eventually(lambda: document(url, one.id)["error"])
        assert (error["code"], document(url, one.id)["status"] in ("queued", "processing")) == ("configuration", True)
        assert "slip.yaml:" in error["message"]
        write_type(settings, "slip")
        eventually(lambda: document(url, one.id)["status"] == "completed")
    found = document(url, one.id)
    assert (found["attempts"], found["error"]) == (1, None)
    assert {row["outcome"] for row in rows(url, "SELECT outcome FROM tabellion_attempts")} == {"limited", "done"}


def test_types_decide_which_outputs_are_written(url: str, settings: Settings) -> None:
    """A custom template, and none at all."""
    write_type(settings, "slip", 'output: {json: "slips/{type}/{id}.json", parquet: null}\n')
    [one] = submit_bills(url, settings, 0, type="slip")
    process_all(url, settings)
    found = document(url, one.id)
    assert found["outputs"] == {"json": f"slips/slip/{one.id}.json", "parquet": None}
    assert json.loads(output(settings, found, "json"))["type"] == "slip"


def test_progress_is_visible_while_pages_are_read(url: str, settings: Settings) -> None:
    """The register has the last page's note, the row all pages."""
    key = submit_file(url, settings, papers.pdf(LINES, pages=3), type="invoice")
    process_all(url, settings)
    assert rows(url, "SELECT note FROM tabellion_attempts") == [{"note": "page 3 of 3"}]
    assert rows(url, "SELECT pages, done_pages FROM tabellion_documents") == [{"pages": 3, "done_pages": 3}]
    assert document(url, key)["pages"] == 3


def test_a_model_reads_and_its_cost_is_recorded(url: str, scripted_model: Any, settings: Settings) -> None:
    """Its values match the pages; the price is in the row; it has its own queue."""
    model, rich = scripted_model(reply_about(settings.types.get("invoice"), total=("120.00", "Total: 120.00")))
    [one] = submit_bills(url, rich, 0, type="invoice")
    process_all(url, rich, gates=FAST)
    found = document(url, one.id)
    assert (found["status"], found["model"], found["cost"], model.asked) == ("completed", "clerk", 0.25, 1)
    assert "model and page text agree" in found["fields"]["total"]["reasons"]
    assert rows(url, "SELECT queue FROM tabellion_attempts") == [{"queue": "documents_clerk"}]


def test_a_failing_model_is_retried(url: str, scripted_model: Any, settings: Settings) -> None:
    """By the engine, after a while; nothing read before is lost."""
    model, rich = scripted_model(Unavailable("503"), reply_about(settings.types.get("invoice")))
    [one] = submit_bills(url, rich, 0, type="invoice")
    process_all(url, replace(rich, retry_base=0.02), gates=FAST)
    found = document(url, one.id)
    assert (found["status"], found["attempts"], model.asked) == ("completed", 2, 2)


def test_a_model_that_keeps_failing_fails_the_document(url: str, scripted_model: Any) -> None:
    """After four attempts; the error says what was tried, and how often."""
    model, rich = scripted_model(BadOutput("not JSON", "json"))
    [one] = submit_bills(url, rich, 0, type="invoice")
    process_all(url, replace(rich, retry_base=0.02), gates=FAST)
    error = document(url, one.id)["error"]
    assert (error["code"], error["attempts"], model.asked) == ("model_bad_output", 4, 4)
    assert error["tried"] == ["read locally", "asked clerk (clerk-1)"]
    assert [form["code"] for form in error["translatable"]["tried"]] == ["tried.local", "tried.model"]


def test_a_refusal_is_final(url: str, scripted_model: Any) -> None:
    """What the model will never answer is not retried."""
    model, rich = scripted_model(Rejected("blocked"))
    [one] = submit_bills(url, rich, 0, type="invoice")
    process_all(url, rich, gates=FAST)
    assert (document(url, one.id)["error"]["code"], model.asked) == ("model_rejected", 1)


def test_a_rate_limit_costs_no_attempt(url: str, scripted_model: Any, settings: Settings) -> None:
    """It defers the document."""
    model, rich = scripted_model(RateLimited(0.05), reply_about(settings.types.get("invoice")))
    [one] = submit_bills(url, rich, 0, type="invoice")
    process_all(url, rich, gates=FAST)
    found = document(url, one.id)
    assert (found["status"], found["attempts"], model.asked) == ("completed", 1, 2)


def test_the_same_question_is_paid_for_once(url: str, scripted_model: Any, settings: Settings) -> None:
    """Two documents of one file whose type keeps both: one call, two results."""
    write_type(settings, "slip", "idempotency: {policy: keep}\n")
    model, rich = scripted_model(reply_about(settings.types.get("slip")))
    submitted = submit_bills(url, rich, 0, 0, type="slip")
    process_all(url, rich, gates=FAST)
    found = [document(url, one.id) for one in submitted]
    assert [one["status"] for one in found] == ["completed"] * 2
    assert sorted(one["cost"] for one in found) == [0.0, 0.25]
    assert model.asked == 1
    # Outputs say nothing of who paid: two attempts at one document write the same bytes.
    first, second = ({**json.loads(output(rich, one, "json")), "id": "", "created_at": ""} for one in found)
    assert first == second


def test_the_cost_before_an_outage_stays_in_the_row(
    url: str, scripted_model: Any, settings: Settings, tmp_path: Path
) -> None:
    """The answer is stored, so the attempt that writes the outputs costs nothing; the document's cost still
    includes it.
    """
    model, rich = scripted_model(reply_about(settings.types.get("invoice")))
    (tmp_path / "store").touch()
    away = replace(rich, lake=Lake(tmp_path / "store" / "lake"), retry_base=0.02)
    [one] = submit_bills(url, away, 0, type="invoice")
    with working(make_worker(url, *documents_queues(away), gates=FAST)):
        eventually(lambda: document(url, one.id)["error"])
        assert document(url, one.id)["cost"] == 0.25
        (tmp_path / "store").unlink()
        eventually(lambda: document(url, one.id)["status"] == "completed")
    assert (document(url, one.id)["cost"], model.asked) == (0.25, 1)


def test_text_that_no_database_accepts_is_cleaned(url: str, scripted_model: Any, settings: Settings) -> None:
    """A NUL in the model's answer, and half a surrogate pair in the file's name."""
    _, rich = scripted_model(reply_about(settings.types.get("invoice"), customer=("A\x00B", "A\x00B")))
    one = ask(url, lambda store: submit(store, rich, put(rich, 0, "a\x00\ud800.pdf"), type="invoice"))
    process_all(url, rich, gates=FAST)
    found = document(url, one.id)
    assert (found["status"], found["name"]) == ("completed", "a\\u0000\\ud800.pdf")
    assert found["fields"]["customer"]["value"] == "A\\x00B"
    assert "\x00" not in json.dumps(found, ensure_ascii=False)
    json.dumps(found, ensure_ascii=False).encode()


def test_a_certain_invoice_needs_no_review(url: str, settings: Settings) -> None:
    """No review item where every field has a high confidence."""
    write_type(settings, "slip")
    [one] = submit_bills(url, settings, 0, type="slip")
    process_all(url, settings)
    assert document(url, one.id)["reasons"] == []
    assert rows(url, "SELECT * FROM tabellion_review_items") == []


def test_a_doubtful_document_gets_a_review_item(url: str, settings: Settings, tmp_path: Path) -> None:
    """In the finishing transaction: reasons, priority, and a deadline a day after the upload."""
    key = submit_file(url, settings, bill("Acme Tools Ltd", "12 High Street"), type="invoice")
    process_all(url, settings)
    found = document(url, key)
    assert found["verdict"] == "reject"
    assert "missing" in [reason["code"] for reason in found["reasons"]]
    [item] = rows(url, "SELECT * FROM tabellion_review_items")
    assert (item["document_id"], item["status"], json.loads(item["reasons"])) == (key, "pending", found["reasons"])
    assert 0 < item["priority"] < 1
    [row] = rows(url, "SELECT created_at FROM tabellion_documents")
    wait = item["due_at"] - row["created_at"]
    assert (wait if isinstance(wait, float) else wait.total_seconds()) == pytest.approx(86_400, abs=0.01)


def test_alternative_values_are_stored_beside_each_field(url: str, settings: Settings) -> None:
    """With their places; those of fields not found are in the result."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    found = {
        row["name"]: row
        for row in rows(url, "SELECT name, value, read_value, candidates FROM tabellion_extracted_fields")
    }
    assert all(row["value"] == row["read_value"] for row in found.values())
    offered = json.loads(found["total"]["candidates"])
    assert [offer["value"] for offer in offered][:2] == ["100.00", "20.00"]
    assert {"value", "page", "box", "quote", "from"} == set(offered[0])
    [row] = rows(url, "SELECT result FROM tabellion_documents")
    result = json.loads(row["result"])
    assert "due_date" not in result["fields"]
    assert [offer["value"] for offer in result["candidates"]["due_date"]] == ["2026-03-14"]
    assert "candidates" not in document(url, one.id)["fields"]["total"]


def test_discarded_answers_of_the_model_are_offered(url: str, scripted_model: Any, settings: Settings) -> None:
    """Before values found elsewhere on the page."""
    _, rich = scripted_model(reply_about(settings.types.get("invoice"), total=("999.00", "Total: 999.00")))
    submit_bills(url, rich, 0, type="invoice")
    process_all(url, rich, gates=FAST)
    [row] = rows(url, "SELECT value, candidates FROM tabellion_extracted_fields WHERE name = 'total'")
    assert row["value"] == '"120.00"'
    assert [(one["value"], one["from"]) for one in json.loads(row["candidates"])][:2] == [
        ("999.00", "model"), ("100.00", "page"),
    ]  # fmt: skip


def test_the_trail_has_what_was_read_and_the_assignment(url: str, settings: Settings) -> None:
    """In the finishing transaction: the values by the worker, the item, and the person with the least to do."""

    async def hire(store: Store) -> None:
        await SCHEMA.prepare(store)
        for name in ("anna", "bob"):
            await put_user(store, name)

    ask(url, hire)
    keys = [
        submit_file(url, settings, bill("Acme Tools Ltd", f"{number} High Street"), type="invoice")
        for number in range(4)
    ]
    process_all(url, settings)
    assert ask(url, audit.verify).whole
    items = rows(url, "SELECT assigned_to, proximity, document_id, id FROM tabellion_review_items ORDER BY assigned_to")
    assert [item["assigned_to"] for item in items] == ["anna", "anna", "bob", "bob"]
    assert all(0 <= item["proximity"] < 0.01 for item in items)
    read, created, given = ask(url, lambda store: audit.history(store, subject=keys[0]))
    [attempt] = rows(url, "SELECT worker FROM tabellion_attempts WHERE key = $1", keys[0])
    assert (read["action"], read["actor"]) == ("extracted", attempt["worker"])
    assert read["after"]["vendor"] == "Acme Tools Ltd"
    assert read["more"] == {"model": "local", "type": "invoice", "verdict": "reject", "version": 1}
    [item] = [item for item in items if item["document_id"] == keys[0]]
    assert (created["action"], created["item_id"]) == ("created", item["id"])
    assert (given["action"], given["item_id"], given["after"]) == ("assigned", item["id"], item["assigned_to"])


def test_a_type_may_require_review_always_or_never(url: str, settings: Settings) -> None:
    """Whatever the doubts."""
    write_type(settings, "seen", "processing: {review: always}\n")
    write_type(settings, "unseen", "processing: {review: never}\n")
    [one] = submit_bills(url, settings, 0, type="seen")
    two = submit_file(url, settings, bill("nothing of note"), type="unseen")
    process_all(url, settings)
    assert [reason["code"] for reason in document(url, one.id)["reasons"]] == ["always"]
    assert document(url, two)["reasons"]
    assert [item["document_id"] for item in rows(url, "SELECT document_id FROM tabellion_review_items")] == [one.id]


DETECTED = """\
name: ticket
version: "1"
recognise: {en: [zebra crossing permit, permit holder, crossing]}
fields:
  total: {type: money, required: true, threshold: 0.5, labels: {en: [total]}}
"""
PERMIT = bill("Zebra crossing permit", "Permit holder: Anna", "Crossing", "Total: 120.00")


def detected(settings: Settings, rest: str) -> None:
    """A type that documents are detected as."""
    folder = Path(settings.types.folders[0])
    folder.mkdir(exist_ok=True)
    (folder / "ticket.yaml").write_text(DETECTED + rest)


def test_a_detected_type_decides_the_model(url: str, scripted_model: Any, settings: Settings) -> None:
    """And the deadline of the review; duplicates share it, and a requested model wins."""
    detected(settings, "processing: {model: clerk, sla: 60, review: always}\n")
    model, rich = scripted_model(reply_about(settings.types.get("ticket"), total=("120.00", "Total: 120.00")))
    rich = replace(rich, default_model="local")
    one = submit_file(url, rich, PERMIT)
    process_all(url, rich, gates=FAST)
    found = document(url, one)
    assert (found["type"], found["model"], model.asked) == ("ticket", "clerk", 1)
    [row] = rows(url, "SELECT created_at, due_at FROM tabellion_review_items")
    [upload] = rows(url, "SELECT created_at FROM tabellion_documents")
    assert seconds(row["due_at"]) - seconds(upload["created_at"]) == pytest.approx(60, abs=1)
    two = submit_file(url, rich, PERMIT)
    process_all(url, rich, gates=FAST)
    assert (document(url, two)["status"], document(url, two)["duplicate_of"], model.asked) == ("duplicate", one, 1)
    three = submit_file(url, rich, PERMIT + b"\n", model="local")
    process_all(url, rich, gates=FAST)
    assert (document(url, three)["model"], model.asked) == ("local", 1)


def test_a_detected_type_decides_the_number_of_attempts(url: str, scripted_model: Any, settings: Settings) -> None:
    """retries: 0 is one attempt."""
    detected(settings, "processing: {model: clerk, retries: 0}\n")
    model, rich = scripted_model(BadOutput("not JSON", "json"))
    one = submit_file(url, replace(rich, default_model="local", retry_base=0.02), PERMIT)
    process_all(url, replace(rich, default_model="local", retry_base=0.02), gates=FAST)
    assert (document(url, one)["status"], model.asked) == ("failed", 1)


@pytest.mark.parametrize(("rules", "status"), [("policy: keep", "queued"), ("cache_ttl: 0", "queued")])
def test_a_detected_type_decides_about_duplicates(url: str, settings: Settings, rules: str, status: str) -> None:
    """The first upload of the file determined its type."""
    detected(settings, f"idempotency: {{{rules}}}\n")
    submit_file(url, settings, PERMIT)
    process_all(url, settings)
    two = submit_file(url, settings, PERMIT)
    assert document(url, two)["status"] == status


def test_the_deadline_and_the_pages_of_a_call_are_set(url: str, scripted_model: Any, settings: Settings) -> None:
    """The model is called with those of the settings."""
    asked: list[Ask] = []

    class Watched(ScriptedModel):
        async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
            asked.append(ask)
            return await super().call(parts, schema, ask)

    model = Watched(reply_about(settings.types.get("invoice"), total=("120.00", "Total: 120.00")))
    rich = replace(
        settings,
        models={"clerk": "clerk"},
        model=lambda _: GatedModel(model),
        default_model="clerk",
        model_deadline=7.0,
    )
    submit_file(url, rich, bill(*LINES), type="invoice")
    process_all(url, rich, gates=FAST)
    assert asked[0].deadline == 7.0
