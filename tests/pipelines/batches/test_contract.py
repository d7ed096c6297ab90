"""The contract with orchestrators: requests, answers, the status in every phase, and callbacks as they arrive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tabellion.models.errors import Rejected
from tabellion.pipelines.batches.content import ContentStore
from tabellion.pipelines.batches.staging import RefFile, Staging
from tabellion.storage.lake import Lake
from tests.pipelines.batches.contract import ACCEPTED, CALLBACK, REQUEST, STATUS, check
from tests.pipelines.batches.live import LiveBatches
from tests.pipelines.batches.material import Images, Reader, chunk_of, stage, work
from tests.pipelines.documents.receiver import Receiver


class Watched(Reader):
    """A model that calls back before it answers."""

    def __init__(self, look: Callable[[], None], *errors: Exception) -> None:
        super().__init__(*errors)
        self._look = look

    async def call(self, *args: Any, **options: Any) -> Any:
        """Look, then answer."""
        await asyncio.to_thread(self._look)
        return await super().call(*args, **options)


class WatchedStaging(Staging):
    """A staging store that calls back before it reads."""

    look: Callable[[], None] = staticmethod(lambda: None)

    async def read(self, key: str) -> RefFile:
        """Look, then read."""
        await asyncio.to_thread(type(self).look)
        return await super().read(key)


class WatchedContent:
    """A content store that calls back before it stores."""

    def __init__(self, store: ContentStore, look: Callable[[], None]) -> None:
        self._store, self._look = store, look
        self.get, self.close = store.get, store.close

    async def put(self, data: bytes) -> str:
        """Look, then store."""
        await asyncio.to_thread(self._look)
        return await self._store.put(data)


def callback_of(receiver: Receiver) -> dict[str, Any]:
    """Return the only callback that arrived, after checking it."""
    [(_, headers, body)] = receiver.got
    assert headers["content-type"].partition(";")[0] == "application/json"
    assert {"webhook-id", "webhook-timestamp", "webhook-signature"} <= set(headers)
    callback: dict[str, Any] = json.loads(body)
    check(CALLBACK, callback)
    return callback


def test_the_request_of_the_seed_is_accepted_and_its_fields_are_all_needed(web: LiveBatches, images: Images) -> None:
    """The answer has four fields and no other; without a field of the request there is none."""
    body = chunk_of(images.url, images.url)
    check(REQUEST, body)
    answer = web.process(body)
    assert answer.status_code == 202
    check(ACCEPTED, answer.json())
    assert answer.json() == {"status": "accepted", "chunk_id": "0", "total_pis": 2, "total_refs": 6}
    for path in ("batch_id", "chunk_id", "callback_url", "pis", "pis.0.pi", "pis.0.current_tip", "pis.0.refs",
                 "pis.0.refs.0.filename", "pis.0.refs.0.staging_key", "pis.0.refs.0.cdn_url"):  # fmt: skip
        cut = json.loads(json.dumps(body | {"batch_id": "other"}))
        *above, last = path.split(".")
        place: Any = cut
        for step in above:
            place = place[int(step) if step.isdigit() else step]
        del place[last]
        refused = web.process(cut)
        assert (refused.status_code, refused.json()["field"]) == (422, "/" + path.replace(".", "/")), path
    assert web.count("batch_chunks") == 1


def test_the_status_is_valid_in_every_phase(web: LiveBatches, images: Images, receiver: Receiver) -> None:
    """Waiting, loading, reading, publishing and done; what is completed grows, and nothing says more than the types."""
    request = chunk_of(images.url, receiver.url)
    settings = web.batch_settings()
    stage(settings, request["pis"])
    web.process(request)
    seen: list[dict[str, Any]] = []

    def look() -> None:
        seen.append(web.status().json())

    look()
    settings = web.batch_settings(Watched(look))
    staging = WatchedStaging(settings.staging.lake)
    WatchedStaging.look = staticmethod(look)
    work(web.urls["prod"], replace(settings, staging=staging, content=WatchedContent(settings.content, look)))
    look()
    for status in seen:
        check(STATUS, status)
        assert status["progress"]["total_refs"] == 6
    phases = list(dict.fromkeys(status["phase"] for status in seen))
    assert phases == ["FETCHING", "PROCESSING", "PUBLISHING", "DONE"]
    completed = [status["progress"]["completed"] for status in seen]
    assert (completed[0], completed[-1]) == (0, 6)
    check(CALLBACK, callback_of(receiver))


def test_the_callback_of_a_success(web: LiveBatches, images: Images, receiver: Receiver) -> None:
    """Every entity has a new tip and version, and every ref is named as completed."""
    request = chunk_of(images.url, receiver.url)
    stage(web.batch_settings(), request["pis"])
    web.process(request)
    web.work()
    callback = callback_of(receiver)
    assert (callback["batch_id"], callback["chunk_id"], callback["status"]) == ("b1", "0", "success")
    assert "error" not in callback
    for pi, result in zip(request["pis"], callback["results"], strict=True):
        assert (result["pi"], result["status"], result["new_version"]) == (pi["pi"], "success", 1)
        assert [ref["filename"] for ref in result["completed_refs"]] == [ref["filename"] for ref in pi["refs"]]
        assert "failed_refs" not in result
    summary = callback["summary"]
    assert (summary["total_refs"], summary["completed"], summary["failed"]) == (6, 6, 0)


def test_the_callback_of_a_part(web: LiveBatches, images: Images, receiver: Receiver) -> None:
    """One entity with a failed ref is partial, the other a success; the failed ref is named with its error."""
    request = chunk_of(images.url, receiver.url)
    stage(web.batch_settings(), request["pis"])
    request["pis"][1]["refs"][2]["staging_key"] = "refs/missing.ref.json"
    web.process(request)
    web.work()
    callback = callback_of(receiver)
    assert callback["status"] == "partial"
    assert [result["status"] for result in callback["results"]] == ["success", "partial"]
    [failed] = callback["results"][1]["failed_refs"]
    assert failed["filename"] == request["pis"][1]["refs"][2]["filename"]
    assert failed["error"]
    assert failed["filename"] not in [ref["filename"] for ref in callback["results"][1]["completed_refs"]]
    check(STATUS, status := web.status().json())
    assert (status["status"], status["progress"]) == (
        "done",
        {"total_refs": 6, "completed": 5, "failed": 1, "pending": 0},
    )


def test_the_callback_and_status_of_an_error(web: LiveBatches, images: Images, receiver: Receiver) -> None:
    """Too many failed refs: both say why, no entity has a new tip, and no ref counts as complete."""
    request = chunk_of(images.url, receiver.url, pis=1)
    stage(web.batch_settings(), request["pis"])
    web.process(request)
    web.work(Reader(Rejected("1"), Rejected("2")))
    callback = callback_of(receiver)
    assert callback["status"] == "error"
    assert callback["error"]
    assert not any("new_tip" in result for result in callback["results"])
    check(STATUS, status := web.status().json())
    assert (status["status"], status["error"]) == ("error", callback["error"])


def test_a_chunk_that_cannot_be_loaded_is_an_error(
    web: LiveBatches, images: Images, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A staging store that is down: after the global retries the callback says error, with every ref as failed."""
    request = chunk_of(images.url, receiver.url, pis=1)
    web.process(request)

    async def down(*_: Any) -> bytes:
        raise OSError("the bucket is down")

    monkeypatch.setattr(Lake, "get", down)
    web.work(global_retries=1)
    callback = callback_of(receiver)
    assert (callback["status"], callback["summary"]["failed"]) == ("error", 3)
    check(STATUS, status := web.status().json())
    assert status["status"] == "error"


def test_a_chunk_none_of_whose_entities_could_be_published_says_why(
    web: LiveBatches, images: Images, receiver: Receiver
) -> None:
    """A tip that nobody knows: the status of the callback is error, so it has a global error too."""
    first = chunk_of(images.url, receiver.url, pis=1)
    second = chunk_of(images.url, receiver.url, pis=1, chunk="1")
    second["pis"][0]["current_tip"] = "unknown"
    for ref in second["pis"][0]["refs"]:
        ref["filename"] = f"more-{ref['filename']}"
    stage(web.batch_settings(), first["pis"])
    web.process(first)
    web.work()
    receiver.got.clear()
    stage(web.batch_settings(), second["pis"])
    web.process(second)
    web.work()
    callback = callback_of(receiver)
    assert callback["status"] == "error"
    assert callback["results"][0]["error"]
    assert "new_tip" not in callback["results"][0]


def test_the_schemas_refuse_what_is_not_in_the_types() -> None:
    """An unknown field, a missing one, a wrong type and a contradiction are found: the checks can fail."""
    status = {
        "status": "done", "phase": "DONE", "rate_limiter": {"tokens": 1, "max_tokens": 2, "rps": 3},
        "progress": {"total_refs": 1, "completed": 1, "failed": 0, "pending": 0},
    }  # fmt: skip
    check(STATUS, status)
    for wrong in (
        status | {"more": 1}, status | {"phase": "PENDING"}, status | {"status": "processing"},
        status | {"error": "no"}, {key: value for key, value in status.items() if key != "progress"},
        status | {"rate_limiter": {"tokens": 1, "max_tokens": 2, "rps": 3, "backoff_until": "soon"}},
        status | {"progress": {"total_refs": 2, "completed": 1, "failed": 0, "pending": 0}},
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            check(STATUS, wrong)
