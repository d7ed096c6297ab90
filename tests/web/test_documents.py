"""Documents over HTTP: one, many, waiting for one, reprocessing, deleting."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.models.bills import bill
from tests.pipelines.documents.review.items import put_item
from tests.waiting import eventually
from tests.web.live import Live, live, problem

URL = "/api/documents"
END = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "clock_timestamp()",
}


def finish(web: Live, id: str, status: str = "completed") -> None:  # noqa: A002
    """End a document as a worker would."""
    now = END["sqlite" if web.urls["prod"].startswith("sqlite") else "postgresql"]
    web.sql(
        f"UPDATE tabellion_documents SET status = $2, completed_at = {now}, version = version + 1 WHERE id = $1",
        id,
        status,
    )


def test_a_document_has_all_its_fields(web_any: Live) -> None:
    """The names that clients depend on."""
    one = web_any.upload(bill())
    document = web_any.get(one["status_url"]).json()
    names = {
        "id", "status", "type", "model", "sha256", "duplicate_of", "progress", "pages", "fields", "issues", "outputs",
        "cost", "error", "verdict", "reasons", "name", "media", "bytes", "created_at", "started_at", "completed_at",
        "version", "status_url", "reviewed", "review",
    }  # fmt: skip
    assert names <= document.keys()
    assert (document["id"], document["status"], document["outputs"]) == (
        one["id"], "queued", {"json": None, "parquet": None}
    )  # fmt: skip
    assert document["created_at"].endswith("Z")


def test_a_list_is_paged_with_cursors(web_any: Live) -> None:
    """Newest first, each once, even when others arrive meanwhile."""
    submitted = [web_any.upload(bill(f"n {number}"))["id"] for number in range(7)]
    seen: list[str] = []
    page = web_any.get(f"{URL}?limit=3").json()
    while True:
        seen += [row["id"] for row in page["documents"]]
        if page["next"] is None:
            break
        web_any.upload(bill(f"later {len(seen)}"))
        page = web_any.get(f"{URL}?limit=3&cursor={page['next']}").json()
    assert seen == submitted[::-1]


def test_a_list_is_filtered(web_any: Live) -> None:
    """By status, type, verdict, time and name; a cursor belongs to its filter."""
    first = web_any.upload(bill("a"), "Rechnung_100%.pdf", data={"type": "invoice"})["id"]
    second = web_any.upload(bill("b"), "other.pdf")["id"]
    finish(web_any, second)
    web_any.sql("UPDATE tabellion_documents SET verdict = 'warn' WHERE id = $1", second)

    def ids(query: str) -> list[str]:
        answer = web_any.get(f"{URL}?{query}")
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["documents"]]

    assert ids("status=queued") == [first]
    assert ids("status=completed") == [second]
    assert ids("type=invoice") == [first]
    assert ids("type=nothing-of-the-sort") == []
    assert ids("verdict=warn") == [second]
    assert ids("q=RECHNUNG") == [first]
    assert ids("q=0%25") == [first]
    assert ids("q=%25") == [first]
    assert ids("q=_") == [first]
    assert ids("q=!") == []
    assert ids("q='%3B--") == []
    assert ids("since=2020-01-01T00:00:00Z&until=2100-01-01") == [second, first]
    assert ids("since=2100-01-01T00:00:00%2B02:00") == []
    cursor = web_any.get(f"{URL}?limit=1").json()["next"]
    problem(web_any.get(f"{URL}?limit=1&status=queued&cursor={cursor}"), 422, "cursor_invalid")


def test_a_list_shows_the_review_status(web_any: Live) -> None:
    """As in the outputs, for a duplicate that of its original; the list can be filtered by it."""
    first, second, copy = (web_any.upload(bill(text), f"{name}.pdf")["id"] for name, text in ("ax", "by", "cy"))
    finish(web_any, second)
    finish(web_any, copy, "duplicate")
    web_any.store("prod", lambda store: put_item(store, second, status="in_review"))

    def review_by_id(query: str = "") -> dict[str, str | None]:
        answer = web_any.get(f"{URL}?{query}")
        assert answer.status_code == 200, answer.text
        return {row["id"]: row["review"] for row in answer.json()["documents"]}

    assert review_by_id() == {first: None, second: "pending", copy: "pending"}
    assert review_by_id("review=pending") == {second: "pending", copy: "pending"}
    web_any.sql("UPDATE tabellion_review_items SET status = 'corrected'")
    assert review_by_id("review=pending") == {}
    assert review_by_id("review=corrected&q=b") == {second: "corrected"}
    problem(web_any.get(f"{URL}?review=in_review"), 422, "value_invalid")


def test_waiting_ends_when_the_document_ends(web_any: Live) -> None:
    """Not earlier, and not only at the timeout."""
    one = web_any.upload(bill())
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(web_any.get(f"{one['status_url']}?wait=25")))
    thread.start()
    served = web_any.app.state.auth.environments["prod"].served["documents"]
    eventually(lambda: served.updates._watches)
    assert not answers
    began = time.monotonic()
    finish(web_any, one["id"])
    thread.join(20)
    assert answers[0].json()["status"] == "completed"
    assert time.monotonic() - began < 20
    assert web_any.get(f"{one['status_url']}?wait=60").json()["status"] == "completed"


def test_waiting_ends_at_the_timeout(web: Live) -> None:
    """With the document's status; more than a minute is rejected."""
    one = web.upload(bill("waits"))
    assert web.get(f"{one['status_url']}?wait=1").json()["status"] == "queued"
    problem(web.get(f"{one['status_url']}?wait=61"), 422, "value_invalid")
    problem(web.get(f"{one['status_url']}?wait=-1"), 422, "value_invalid")


def test_a_document_is_reprocessed(web_any: Live) -> None:
    """Once it has ended, as another type if requested; 409 while it is queued or processing."""
    one = web_any.upload(bill())
    problem(web_any.ask("POST", f"{one['status_url']}/reprocess"), 409, "document_running")
    for status in ("processing",):
        web_any.sql("UPDATE tabellion_documents SET status = $2 WHERE id = $1", one["id"], status)
        problem(web_any.ask("POST", f"{one['status_url']}/reprocess"), 409, "document_running")
    finish(web_any, one["id"], "failed")
    answer = web_any.ask("POST", f"{one['status_url']}/reprocess", json={"type": "invoice"})
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"id": one["id"], "status": "queued", "status_url": one["status_url"]}
    document = web_any.get(one["status_url"]).json()
    assert (document["status"], document["type"]) == ("queued", "invoice")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"type": "unheard-of"}, "value_invalid", "/type"), ({"model": "gpt-9"}, "value_invalid", "/model"),
        ({"type": ""}, "value_invalid", "/type"), ({"status": "completed"}, "value_unknown", "/status"),
        ({"type": 3}, "value_invalid", "/type"),
    ],
)  # fmt: skip
def test_invalid_reprocess_requests_are_rejected(web: Live, body: Any, code: str, field: str) -> None:
    """422 with the field."""
    one = web.upload(bill("again"))
    finish(web, one["id"])
    error = problem(web.ask("POST", f"{one['status_url']}/reprocess", json=body), 422, code)
    assert error["field"] == field


def test_reprocessing_a_finished_review_needs_reopen(web_any: Live) -> None:
    """Without `reopen` it is refused; the audit log names the key."""
    one = web_any.upload(bill())
    finish(web_any, one["id"])
    web_any.store("prod", lambda store: put_item(store, one["id"], status="corrected", reviewer="anna"))
    document = web_any.get(one["status_url"]).json()
    assert (document["reviewed"], document["review"]["status"], document["review"]["reviewer"]) == (
        True, "corrected", "anna",
    )  # fmt: skip
    problem(web_any.ask("POST", f"{one['status_url']}/reprocess", json={"reopen": "yes"}), 422, "value_invalid")
    for body, status in (({}, "corrected"), ({"reopen": True}, "pending")):
        answer = web_any.ask("POST", f"{one['status_url']}/reprocess", json=body, key=web_any.key("operator"))
        assert answer.status_code == 202, answer.text
        assert web_any.get(one["status_url"]).json()["review"]["status"] == status
        finish(web_any, one["id"])
    entries = web_any.sql("SELECT actor, action FROM tabellion_audit_log WHERE document_id IS NOT NULL ORDER BY n")
    assert [(row["actor"], row["action"]) for row in entries] == [
        ("key:operator", action) for action in ("reprocessed", "reprocessed", "reopened")
    ]


def test_a_document_is_deleted_with_its_file(web_any: Live) -> None:
    """It is not found afterwards; the same file may be uploaded again."""
    one = web_any.upload(bill("deleted"))
    sha256 = web_any.get(one["status_url"]).json()["sha256"]
    assert web_any.get(f"{one['status_url']}/pages/1.png?width=100").status_code == 200
    answer = web_any.ask("DELETE", one["status_url"], key=web_any.key("operator"))
    assert (answer.status_code, answer.content) == (204, b"")
    problem(web_any.get(one["status_url"]), 404, "not_found")
    problem(web_any.ask("DELETE", one["status_url"]), 404, "not_found")
    assert not list(web_any.blobs("prod").rglob(sha256))
    assert not list((web_any.config.data / "pictures").rglob("*.png"))
    assert web_any.upload(bill("deleted"))["status"] == "queued"


def test_a_document_in_processing_is_not_deleted(web: Live) -> None:
    """409 until it has ended."""
    one = web.upload(bill("at work"))
    web.sql("UPDATE tabellion_documents SET status = 'processing' WHERE id = $1", one["id"])
    problem(web.ask("DELETE", one["status_url"]), 409, "document_running")
    assert web.get(one["status_url"]).status_code == 200


def test_a_file_shared_by_two_documents_stays(web: Live) -> None:
    """It is deleted with the last of them."""
    first, second = web.upload(bill("shared")), web.upload(bill("shared"))
    sha256 = web.get(first["status_url"]).json()["sha256"]
    assert web.ask("DELETE", first["status_url"]).status_code == 204
    assert list(web.blobs("prod").rglob(sha256))
    assert web.ask("DELETE", second["status_url"]).status_code == 204
    assert not list(web.blobs("prod").rglob(sha256))


def test_a_type_may_reject_duplicates(tmp_path_factory: pytest.TempPathFactory) -> None:
    """409 with the original."""
    folder = tmp_path_factory.mktemp("refuses")
    (folder / "types").mkdir()
    (folder / "types" / "once.yaml").write_text(
        'name: once\nversion: "1"\nfields:\n  total: {type: money, required: true}\nidempotency:\n  policy: reject\n'
    )
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, types=(folder / "types",)) as web:
        first = web.upload(bill(), data={"type": "once"})
        files = {"file": ("a.pdf", bill(), "application/pdf")}
        error = problem(web.ask("POST", URL, files=files, data={"type": "once"}), 409, "duplicate_rejected")
        assert (error["original"], error["original_url"]) == (first["id"], first["status_url"])


def test_several_files_are_accepted_or_rejected_one_by_one(tmp_path: Path) -> None:
    """202 if one was accepted, and again under the same key; 409 if none was."""
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "once.yaml").write_text(
        'name: once\nversion: "1"\nfields:\n  total: {type: money, required: true}\nidempotency:\n  policy: reject\n'
    )
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}, types=(tmp_path / "types",)) as web:
        known = web.upload(bill("known"), data={"type": "once"})
        files = [("file", (f"{name}.pdf", bill(name), "application/pdf")) for name in ("one", "known", "two")]

        def send() -> Any:
            return web.ask("POST", URL, files=files, data={"type": "once"}, headers={"Idempotency-Key": "k"})

        answer = send()
        assert (answer.status_code, "location" in answer.headers) == (202, False)
        one, refused, two = answer.json()["documents"]
        assert (one["status"], two["status"], "reason" in one) == ("queued", "queued", False)
        assert (refused["status"], refused["reason"], refused["id"]) == ("rejected", "duplicate_rejected", None)
        assert (refused["duplicate_of"], refused["status_url"]) == (known["id"], known["status_url"])
        again = send()
        assert (again.status_code, again.json()) == (202, answer.json())
        error = problem(web.ask("POST", URL, files=files, data={"type": "once"}), 409, "duplicate_rejected")
        assert [entry["duplicate_of"] for entry in error["documents"]] == [one["id"], known["id"], two["id"]]
        assert len(web.sql("SELECT id FROM tabellion_documents")) == 3


def test_an_invalid_type_file_is_reported(tmp_path: Path) -> None:
    """To a client that names the type, with line and column; other uploads continue."""
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "slip.yaml").write_text('name: slip\nversion: "1"\nfields:\n  total: {type: mony}\n')
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}, types=(tmp_path / "types",)) as web:
        first = web.upload(bill())
        files = {"file": ("a.pdf", bill(), "application/pdf")}
        error = problem(web.ask("POST", URL, files=files, data={"type": "slip"}), 422, "type_broken")
        assert (error["field"], error["mistakes"][0].partition(": ")[0]) == ("/type", "slip.yaml:4:17")
        assert "'slip'" in error["detail"]
        assert str(tmp_path) not in json.dumps(error)
        web.sql("UPDATE tabellion_documents SET status = 'completed'")
        again = web.ask("POST", f"{first['status_url']}/reprocess", json={"type": "slip"})
        problem(again, 422, "type_broken")
        assert web.get(first["status_url"]).json()["status"] == "completed"
