"""Callbacks as an orchestrator receives them: verified, and stored once."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tabellion.delivery.endpoints import make_secret
from tabellion.delivery.signature import BadSignature, headers
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.receiving import CallbackInvalid, receive_callback, store_callback
from tests.pipelines.batches.material import SECRET, rows
from tests.workers import ask

CALLBACK: dict[str, Any] = {
    "batch_id": "b1", "chunk_id": "0", "status": "success", "results": [],
    "summary": {"total_refs": 0, "completed": 0, "failed": 0, "processing_time_ms": 1},
}  # fmt: skip


def signed(content: Any, secret: str = SECRET, id_: str = "msg_1") -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a callback."""
    body = json.dumps(content)
    return headers(id_, body, [secret], time.time()), body.encode()


def test_one_of_the_secrets_must_have_signed_it() -> None:
    """An orchestrator may know several secrets, while one replaces another."""
    sent, body = signed(CALLBACK)
    assert receive_callback(sent, body, make_secret(), SECRET) == ("msg_1", CALLBACK)
    with pytest.raises(BadSignature):
        receive_callback(sent, body, make_secret())
    with pytest.raises(BadSignature):
        receive_callback(sent, body + b" ", SECRET)
    with pytest.raises(BadSignature):
        receive_callback(sent, body)


@pytest.mark.parametrize("name", ["batch_id", "chunk_id", "status", "results", "summary"])
def test_a_body_that_is_not_a_callback_is_refused(name: str) -> None:
    """The error names the field that is missing or wrong."""
    for content in ({key: value for key, value in CALLBACK.items() if key != name}, CALLBACK | {name: 7}):
        with pytest.raises(CallbackInvalid, match=name):
            receive_callback(*signed(content), SECRET)


@pytest.mark.parametrize("body", [b"[1]", b'"x"', b"5", b"null", b"[[1, 2]]"])
def test_a_signed_body_that_is_not_an_object_is_refused(body: bytes) -> None:
    """As if it were not signed: nobody sends such callbacks."""
    sent = headers("msg_1", body.decode(), [SECRET], time.time())
    with pytest.raises(BadSignature, match="not a JSON object"):
        receive_callback(sent, body, SECRET)


def test_a_callback_that_cannot_be_stored_is_refused() -> None:
    """Half of a surrogate pair is valid JSON, and no text of a database."""
    with pytest.raises(CallbackInvalid, match="surrogate"):
        receive_callback(*signed(CALLBACK | {"chunk_id": "\ud800"}), SECRET)


def test_a_repeated_callback_is_stored_once(url: str) -> None:
    """By its webhook-id; one about a chunk that is not known yet is kept too."""
    ask(url, PIPELINE.prepare)
    id_, callback = receive_callback(*signed(CALLBACK), SECRET)
    assert ask(url, lambda store: store_callback(store, "b1", id_, callback))
    assert not ask(url, lambda store: store_callback(store, "b1", id_, callback))
    [row] = rows(url, "SELECT id, batch_id, chunk_id, status, body FROM batch_callbacks")
    assert (row["id"], row["batch_id"], row["chunk_id"], row["status"]) == ("msg_1", "b1", "0", "success")
    assert json.loads(row["body"]) == CALLBACK
    with pytest.raises(CallbackInvalid, match="b1"):
        ask(url, lambda store: store_callback(store, "other", id_, callback))
