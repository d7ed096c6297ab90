"""Publishing: a file that cannot be read fails its ref alone, and texts that were there before are published."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tabellion.engine.store import Store
from tabellion.pipelines.batches import changes, lookup
from tabellion.pipelines.batches.settings import BatchSettings
from tests.pipelines.batches.material import (
    Images,
    Reader,
    chunk_of,
    rows,
    settings_in,
    stage,
    staged,
    submit,
    submit_new,
    work,
)
from tests.pipelines.documents.receiver import Receiver
from tests.workers import ask

KEY = "refs/0-0.png.ref.json"


def components_of(url: str, settings: BatchSettings) -> dict[str, Any]:
    """Return the components of the newest version of the first entity."""
    [entity] = rows(url, "SELECT tip FROM batch_entities WHERE pi = 'pi0'")
    return dict(json.loads(asyncio.run(settings.content.get(entity["tip"])))["components"])


@pytest.mark.parametrize(
    "file",
    [None, b"{", b"{}", b'{"ocr": "x", "n": NaN}', b'{"ocr": "caf\\ud83d"}', b'{"ocr": "x", "n": 1e400}'],
    ids=["gone", "cut", "no-text", "nan", "half-pair", "huge-number"],
)
def test_a_file_that_cannot_be_published_fails_its_ref_alone(
    url: str, tmp_path: Path, images: Images, receiver: Receiver, file: bytes | None
) -> None:
    """The others are published, the callback names it, and a retry reads it again when its file is there."""
    model = Reader()
    settings = settings_in(tmp_path, model)
    request = chunk_of(images.url, receiver.url, pis=1)
    stage(settings, request["pis"])
    lake = settings.staging.lake

    async def spoil() -> None:
        await (lake.delete(KEY) if file is None else lake.put(KEY, file))

    submit(url, settings, request)
    rows(url, "UPDATE batch_refs SET status = 'done', ocr_text_length = 1, loaded = TRUE WHERE staging_key = $1", KEY)
    asyncio.run(spoil())
    work(url, settings)
    [chunk] = rows(url, "SELECT phase, done_refs, failed_refs FROM batch_chunks")
    assert (chunk["phase"], chunk["done_refs"], chunk["failed_refs"]) == ("DONE", 2, 1)
    assert json.loads(receiver.got[0][2])["results"][0]["failed_refs"][0]["filename"] == "0-0.png.ref.json"
    assert len(components_of(url, settings)) == 2
    stage(settings, [{"refs": request["pis"][0]["refs"][:1]}])
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    assert len(components_of(url, settings)) == 3
    assert json.loads(receiver.got[1][2])["status"] == "success"
    assert sum(model.calls.values()) == 3


def test_a_text_that_was_there_before_is_published_once(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """It is skipped, with its CID; what the newest version has is not appended again. A blank page has a text too."""
    model = Reader()
    settings = settings_in(tmp_path, model)
    for chunk in "01":
        request = chunk_of(images.url, receiver.url, chunk=chunk, pis=1, refs=2)
        stage(settings, request["pis"], ocr="known")
        stage(settings, [{"refs": request["pis"][0]["refs"][:1]}], ocr="")
        submit(url, settings, request)
        work(url, settings)
    refs = rows(url, "SELECT chunk, filename, status, reason, result_cid FROM batch_refs ORDER BY id")
    assert {(ref["status"], ref["reason"]) for ref in refs} == {("skipped", "has_text")}
    for chunk in "01":
        ours = {ref["filename"]: ref["result_cid"] for ref in refs if ref["chunk"] == f"ocr:b1:{chunk}"}
        assert components_of(url, settings) == ours
    assert len(rows(url, "SELECT * FROM batch_versions")) == 1
    first, second = (json.loads(body)["results"][0] for _, _, body in receiver.got)
    assert (first["status"], first["new_version"]) == ("success", 1)
    assert (second["status"], "new_tip" in second) == ("success", False)
    assert [ref["result_cid"] for ref in second["completed_refs"]] == [ref["result_cid"] for ref in refs[2:]]
    assert not model.calls
    assert staged(settings, KEY)["ocr"] == ""


def test_a_retry_publishes_only_what_it_has_read(url: str, tmp_path: Path, images: Images, receiver: Receiver) -> None:
    """Another batch has replaced a file of the same entity since: its version of that file stays."""
    from tabellion.models.errors import Rejected

    settings = settings_in(tmp_path, Reader(Rejected("blurred")))
    request = submit_new(url, settings, images.url, receiver.url, pis=1)
    work(url, settings)
    before = components_of(url, settings)
    assert len(before) == 2
    [read, *_] = sorted(before)
    [ref] = [ref for ref in request["pis"][0]["refs"] if ref["filename"] == read]
    stage(settings, [{"refs": [ref]}], ocr="corrected by a person")
    submit(url, settings, {**request, "batch_id": "b2", "pis": [{**request["pis"][0], "refs": [ref]}]})
    work(url, settings)
    corrected = components_of(url, settings)[read]
    assert corrected != before[read]
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    after = components_of(url, settings)
    assert len(after) == 3
    assert after[read] == corrected


def test_a_ref_that_is_retried_alone_waits_for_its_chunk(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """`tabellion retry batch-refs --all` does not read refs that nobody would publish; retrying the batch does."""
    from tabellion.engine import controls
    from tabellion.models.errors import Rejected
    from tabellion.pipelines.batches.queues import refs_queue

    model = Reader(Rejected("blurred"))
    settings = settings_in(tmp_path, model)
    submit_new(url, settings, images.url, receiver.url, pis=1)
    work(url, settings)
    calls = sum(model.calls.values())
    assert ask(url, lambda store: controls.restart(store, refs_queue(settings))) == 1
    work(url, settings)
    assert sum(model.calls.values()) == calls

    async def failed(store: Store) -> int:
        batch = await lookup.get_batch(store, "b1")
        assert batch is not None
        return batch["progress"]["failed"]

    assert ask(url, failed) == 1
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    assert ask(url, failed) == 0
    assert sum(model.calls.values()) == calls + 1
    assert len(components_of(url, settings)) == 3


def test_refs_that_were_read_after_their_chunk_had_ended_are_published_by_a_retry(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """As in rows of earlier releases: done, without a CID. The status counts them as failed, and so does a retry."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, receiver.url, pis=1)
    work(url, settings)
    rows(url, "UPDATE batch_refs SET result_cid = NULL WHERE staging_key = $1", KEY)
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    work(url, settings)
    assert rows(url, "SELECT * FROM batch_refs WHERE result_cid IS NULL") == []
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 0
    assert not ask(url, lambda store: changes.retry_chunk(store, "ocr:b1:0"))  # it has succeeded meanwhile
