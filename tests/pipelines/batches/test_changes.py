"""Retries, closing, and callbacks that are sent again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabellion.delivery import endpoints
from tabellion.delivery.endpoints import make_secret
from tabellion.delivery.outbox import webhooks_queue
from tabellion.models.errors import Rejected
from tabellion.pipelines.batches import changes
from tabellion.pipelines.batches.callbacks import endpoint_id, message_id
from tabellion.pipelines.batches.lookup import chunk_status
from tabellion.pipelines.batches.receiving import receive_callback
from tests.pipelines.batches.material import (
    LOOPBACK,
    SECRET,
    Images,
    Reader,
    chunk_of,
    rows,
    settings_in,
    stage,
    submit,
    submit_new,
    work,
)
from tests.pipelines.documents.receiver import Receiver
from tests.waiting import eventually
from tests.workers import ask, make_worker, working

NAME = "ocr:b1:0"


def id_of(url: str) -> str:
    """Return the id of the callback of the last run of a chunk."""
    return message_id(rows(url, "SELECT id, identity, run FROM batch_chunks WHERE id = $1", NAME)[0])


def test_a_callback_that_was_given_up_is_sent_again_on_request(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """The orchestrator asks by sending the chunk again; it gets the same id and body, and no ref is read twice."""
    model = Reader()
    settings = settings_in(tmp_path, model)
    request = chunk_of(images.url, receiver.url, pis=1)
    stage(settings, request["pis"])
    receiver.answers((500, {}, b""), (500, {}, b""), (500, {}, b""), (204, {}, b""))
    submit(url, settings, request)
    work(url, settings)
    [delivery] = rows(url, "SELECT id, status FROM tabellion_webhook_deliveries")
    assert (delivery["id"], delivery["status"]) == (id_of(url), "failed")
    assert not submit(url, settings, request)
    work(url, settings)
    [delivery] = rows(url, "SELECT status FROM tabellion_webhook_deliveries")
    assert delivery["status"] == "delivered"
    assert {headers["webhook-id"] for _, headers, _ in receiver.got} == {id_of(url)}
    assert len({body for _, _, body in receiver.got}) == 1
    assert set(model.calls.values()) == {1}


@pytest.mark.parametrize("state", ["delivered", "pending"])
def test_a_callback_is_sent_again_now_whatever_became_of_it(
    url: str, tmp_path: Path, images: Images, receiver: Receiver, state: str
) -> None:
    """One that was acknowledged and then lost, and one whose next attempt is due in an hour: the same id and body."""
    settings = settings_in(tmp_path)
    request = submit_new(url, settings, images.url, receiver.url, pis=1)
    if state == "pending":
        receiver.answers((503, {"retry-after": "3600"}, b""), (204, {}, b""))
        work(url, settings, deliver=False)
        with working(make_worker(url, webhooks_queue(LOOPBACK))):
            eventually(lambda: rows(url, "SELECT 1 FROM tabellion_attempts WHERE outcome = 'limited'"))
    else:
        work(url, settings)
    assert not submit(url, settings, request)
    work(url, settings)
    assert len(receiver.got) == 2
    assert len({(headers["webhook-id"], body) for _, headers, body in receiver.got}) == 1
    assert [one["status"] for one in rows(url, "SELECT status FROM tabellion_webhook_deliveries")] == ["delivered"]


def test_a_callback_that_is_gone_from_the_database_is_written_again(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Under the same id, from the rows of the chunk."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, receiver.url, pis=1)
    work(url, settings)
    rows(url, "DELETE FROM tabellion_webhook_deliveries")
    assert ask(url, lambda store: changes.resend_callback(store, settings, NAME))
    work(url, settings)
    first, second = receiver.got
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    assert json.loads(first[2])["results"] == json.loads(second[2])["results"]


def test_a_chunk_sent_again_after_its_endpoint_was_removed_is_reported(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Its endpoint is created again, with the secret that is configured."""
    settings = settings_in(tmp_path)
    request = submit_new(url, settings, images.url, receiver.url, pis=1)
    ask(url, lambda store: endpoints.remove(store, endpoint_id(receiver.url)))
    work(url, settings)
    assert len(receiver.got) == 1
    ask(url, lambda store: endpoints.remove(store, endpoint_id(receiver.url)))
    submit(url, settings, request)
    work(url, settings)
    assert [receive_callback(headers, body, SECRET)[0] for _, headers, body in receiver.got] == [id_of(url)] * 2


def test_a_new_secret_signs_callbacks_of_chunks_that_are_under_way(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Those that end later, and those that ended before and were not delivered: the worker that starts has it."""
    settings = settings_in(tmp_path)
    for chunk in "01":
        submit_new(url, settings, images.url, receiver.url, chunk=chunk, pis=1, first=int(chunk))
        if chunk == "0":
            work(url, settings, deliver=False)
    fresh = make_secret()
    origin = receiver.url.removesuffix("/hook")
    work(url, settings_in(tmp_path, orchestrators={origin: fresh}))
    assert len({receive_callback(headers, body, fresh)[0] for _, headers, body in receiver.got}) == 2


def test_the_callback_of_an_earlier_run_is_withdrawn(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """An orchestrator that takes the last callback for the truth must not get the error after the success."""
    settings = settings_in(tmp_path, Reader(*[Rejected("no")] * 3))
    request = submit_new(url, settings, images.url, receiver.url, pis=1)
    work(url, settings, deliver=False)
    first = id_of(url)
    for status in ("pending", "failed"):
        rows(url, "UPDATE tabellion_webhook_deliveries SET status = $1", status)
        rows(url, "UPDATE batch_chunks SET phase = 'ERROR'")
        submit(url, settings, request)
        assert rows(url, "SELECT * FROM tabellion_webhook_deliveries") == []
        work(url, settings, deliver=False)
    work(url, settings)
    assert [json.loads(body)["status"] for _, _, body in receiver.got] == ["success"]
    assert first not in {headers["webhook-id"] for _, headers, _ in receiver.got}


def test_the_ids_of_callbacks_are_new_after_everything_was_pruned(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Also if no version and no delivery is left that would count the runs: a receiver drops an id that it knows."""
    settings = settings_in(tmp_path)
    request = chunk_of(images.url, receiver.url, pis=1)
    found = []
    for _ in range(2):
        submit(url, settings, request)
        found.append(id_of(url))
        for table in ("batch_refs", "batch_pis", "batch_chunks", "batches", "tabellion_webhook_deliveries"):
            rows(url, f"DELETE FROM {table}")
    assert len(set(found)) == 2


def test_a_chunk_that_fails_without_its_handler_is_reported(
    url: str, tmp_path: Path, images: Images, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A staging store that is down is tried once and five times more; then an error callback is sent."""
    settings = settings_in(tmp_path)
    request = chunk_of(images.url, receiver.url, pis=1)
    tries = []

    async def down(_: str, limit: int) -> bytes:
        tries.append(1)
        raise ConnectionError("the bucket does not answer")

    monkeypatch.setattr(settings.staging.lake, "get", down)
    submit(url, settings, request)
    work(url, settings)
    [chunk] = rows(url, "SELECT phase, report, fetching_attempts, fetching_error FROM batch_chunks")
    assert (chunk["phase"], chunk["report"], chunk["fetching_attempts"]) == ("ERROR", "written", 6)
    assert "the bucket does not answer" in chunk["fetching_error"]
    [(_, _, body)] = receiver.got
    assert b'"status":"error"' in body.replace(b": ", b":")


def test_only_failed_refs_are_read_again(url: str, tmp_path: Path, images: Images, receiver: Receiver) -> None:
    """The new version has the components of both runs."""
    model = Reader(Rejected("blurred"))
    settings = settings_in(tmp_path, model)
    submit_new(url, settings, images.url, receiver.url, pis=1, refs=3)
    work(url, settings)
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 0
    assert sum(model.calls.values()) == 4
    versions = rows(url, "SELECT version, previous, tip, run FROM batch_versions ORDER BY version")
    assert [(one["version"], one["run"]) for one in versions] == [(1, 1), (2, 2)]
    assert versions[1]["previous"] == versions[0]["tip"]


def test_a_batch_is_closed_only_when_its_chunks_have_ended(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Closing twice is the same as once; an unknown one is not closed."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, receiver.url, pis=1)
    with pytest.raises(changes.StillOpen):
        ask(url, lambda store: changes.close(store, "b1"))
    work(url, settings)
    assert ask(url, lambda store: changes.close(store, "b1"))
    assert ask(url, lambda store: changes.close(store, "b1"))
    assert not ask(url, lambda store: changes.close(store, "none"))


def test_a_text_that_a_failed_attempt_has_written_is_published_after_a_retry(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """It is the text of this batch, not one that was there before: it is not skipped, and not read again."""
    model = Reader(Rejected("blurred"))
    settings = settings_in(tmp_path, model)
    request = submit_new(url, settings, images.url, receiver.url, pis=1, refs=2)
    work(url, settings)
    [failed] = rows(url, "SELECT id, staging_key FROM batch_refs WHERE status = 'error'")
    [key] = [ref["staging_key"] for ref in request["pis"][0]["refs"] if ref["staging_key"] == failed["staging_key"]]
    stage(settings, [{"refs": [{"staging_key": key, "cdn_url": images.url}]}], ocr="written before the crash")
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    refs = rows(url, "SELECT status, result_cid FROM batch_refs")
    assert all(ref["status"] == "done" and ref["result_cid"] for ref in refs)
    assert sum(model.calls.values()) == 2


def test_a_retried_ref_has_all_of_its_retries_again(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Four attempts in each run."""
    images.answers["/asset/0-0/medium"] = [(503, b"")]
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, receiver.url, pis=1, refs=1)
    work(url, settings)
    assert images.requests["/asset/0-0/medium"] == 4
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    assert images.requests["/asset/0-0/medium"] == 8


def test_a_chunk_that_could_not_be_published_is_an_error_that_is_retried(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Its status says what its callback says, and sending it again starts it again, without reading."""
    model = Reader()
    settings = settings_in(tmp_path, model)
    for chunk, tip in (("0", "tip0"), ("1", "strange")):
        request = chunk_of(images.url, receiver.url, chunk=chunk, pis=1, refs=2)
        request["pis"][0]["current_tip"] = tip
        stage(settings, request["pis"])
        submit(url, settings, request)
        work(url, settings)
    status = ask(url, lambda store: chunk_status(store, "b1", "1"))
    assert status is not None
    assert (status["status"], status["progress"]["completed"], status["progress"]["failed"]) == ("error", 0, 2)
    assert "strange" in status["error"]
    rows(url, "UPDATE batch_versions SET previous = 'strange' WHERE previous = 'tip0'")  # it is known now
    assert not submit(url, settings, request)
    work(url, settings)
    status = ask(url, lambda store: chunk_status(store, "b1", "1"))
    assert status is not None
    assert (status["status"], status["progress"]["completed"]) == ("done", 2)
    assert set(model.calls.values()) <= {1}
