"""What was done with a document: attempts, its review item, and its results as files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.messages import Message
from tabellion.pipelines.documents.queues import documents_queues
from tests.models.bills import bill
from tests.web.browser import signed_in
from tests.web.live import Live, live, problem
from tests.web.test_app import served


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application whose worker has read all documents."""
    folder = tmp_path_factory.mktemp("work")
    with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}) as web, served(web):
        yield web


@pytest.fixture(scope="module")
def document(done: Live) -> str:
    """A processed document whose name is markup."""
    one = done.upload(bill("work"), name="<b>bill.v2.pdf", data={"type": "invoice"})
    assert done.get(f"{one['status_url']}?wait=30").json()["status"] == "completed"
    return str(one["id"])


def test_every_attempt_is_listed(done: Live, document: str) -> None:
    """With worker, time and outcome; and its single review item."""
    body = done.get(f"/api/documents/{document}/work").json()
    [attempt] = body["attempts"]
    assert (attempt["queue"], attempt["attempt"], attempt["outcome"], attempt["error"]) == (
        "documents",
        1,
        "done",
        None,
    )
    assert attempt["claimed_at"] < attempt["settled_at"]
    assert attempt["worker"]
    assert body["review"]["status"] == "pending"
    assert body["review"]["url"] == f"/review/{body['review']['id']}"


def test_attempts_in_a_types_own_queue_are_listed(tmp_path: Path) -> None:
    """A type with its own concurrency has its own queue; its attempts are listed too."""
    folder = tmp_path / "types"
    folder.mkdir()
    text = 'name: slip\nversion: "1"\nfields:\n  vendor: {type: name}\nprocessing: {concurrency: 1}\n'
    (folder / "slip.yaml").write_text(text)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/prod.db"}, types=(str(folder),)) as web, served(web):
        one = web.upload(bill("bounded"), data={"type": "slip"})
        assert web.get(f"{one['status_url']}?wait=30").json()["status"] == "completed"
        [attempt] = web.get(f"/api/documents/{one['id']}/work").json()["attempts"]
    assert (attempt["queue"], attempt["outcome"]) == ("documents_type_slip", "done")


def test_a_note_has_its_form(web: Live) -> None:
    """For translation, while the attempt is in progress."""
    document = web.upload(bill("noted"))["id"]

    async def work(store: Store) -> None:
        claimed = await store.claim(documents_queues(web.settings())[0], 50, "w1")
        [job] = [job for job in claimed if job.text_key == document]
        job.note(Message("progress.page", n=3, total=12))
        await store.renew([job])

    web.store("prod", work)
    [attempt] = web.get(f"/api/documents/{document}/work").json()["attempts"]
    form = {"code": "progress.page", "params": {"n": 3, "total": 12}}
    assert (attempt["note"], attempt["translatable"]) == ("page 3 of 12", {"note": form})


def test_a_failure_says_why(done: Live) -> None:
    """As a problem with a code."""
    one = done.upload(b"%PDF-1.7\n nothing of a document", name="broken.pdf")
    assert done.get(f"{one['status_url']}?wait=30").json()["status"] == "failed"
    body = done.get(f"/api/documents/{one['id']}/work").json()
    assert body["attempts"][0]["outcome"] == "failed"
    assert body["attempts"][0]["error"]["code"]
    assert body["review"] is None
    problem(done.get(f"/api/documents/{one['id']}/outputs/json"), 404, "not_found")


def test_results_are_sent_as_attachments(done: Live, document: str) -> None:
    """Under the document's name, in a sandbox, with an ETag; an unknown kind is rejected."""
    browser = signed_in(done, "viewer")
    answer = browser.get(f"/api/documents/{document}/outputs/json")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.text)["id"] == document
    assert answer.headers["content-disposition"].startswith('attachment; filename="_b_bill.v2.json"')
    assert "sandbox" in answer.headers["content-security-policy"]
    again = {"If-None-Match": answer.headers["etag"]}
    assert browser.get(f"/api/documents/{document}/outputs/json", headers=again).status_code == 304
    parquet = browser.get(f"/api/documents/{document}/outputs/parquet")
    assert parquet.content.startswith(b"PAR1")
    problem(browser.get(f"/api/documents/{document}/outputs/xml"), 422, "value_invalid")


def test_a_missing_result_is_reported(done: Live) -> None:
    """When its file was deleted from the lake by hand."""
    one = done.upload(bill("gone from the lake"))
    where = done.get(f"{one['status_url']}?wait=30").json()["outputs"]["json"]
    (done.folder / "prod" / "lake" / where).unlink()
    problem(done.get(f"/api/documents/{one['id']}/outputs/json"), 404, "file_gone")


def test_a_duplicate_shows_the_review_of_its_original(done: Live, document: str) -> None:
    """It has none of its own."""
    double = done.upload(bill("work"), data={"type": "invoice"})
    assert done.get(f"{double['status_url']}?wait=30").json()["status"] == "duplicate"
    mine, theirs = (done.get(f"/api/documents/{id_}/work").json()["review"] for id_ in (double["id"], document))
    assert mine == theirs
