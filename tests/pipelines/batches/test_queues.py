"""Chunks at work: from the request to published versions and the callback, on each database."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tabellion.engine.store import Store
from tabellion.models.errors import Rejected, Throttled, Unavailable
from tabellion.pipelines.batches import lookup
from tabellion.pipelines.batches.receiving import receive_callback
from tests.pipelines.batches.material import (
    SECRET,
    Images,
    Reader,
    chunk_of,
    picture,
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


def callbacks_of(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the verified callbacks that arrived."""
    return [dict(receive_callback(headers, body, SECRET)[1]) for _, headers, body in receiver.got]


def read_progress(url: str) -> list[tuple[int, int, int]]:
    """Return completed, failed and pending refs: by the status of the chunk, the list of chunks, and the batch."""

    async def read(store: Store) -> list[lookup.BatchProgress]:
        status = await lookup.chunk_status(store, "b1", "0")
        chunk, batch = await lookup.get_chunk(store, "b1", "0"), await lookup.get_batch(store, "b1")
        assert status is not None
        assert chunk is not None
        assert batch is not None
        return [status["progress"], chunk["progress"], batch["progress"]]

    return [(one["completed"], one["failed"], one["pending"]) for one in ask(url, read)]


def test_a_chunk_is_read_published_and_reported(url: str, tmp_path: Path, images: Images, receiver: Receiver) -> None:
    """Each ref has its text in staging and its file under its CID, each entity a new version; one callback says so."""
    model = Reader()
    settings = settings_in(tmp_path, model)
    request = chunk_of(images.url, receiver.url)
    stage(settings, request["pis"], kept="value")
    assert submit(url, settings, request)
    work(url, settings)
    [chunk] = rows(url, "SELECT * FROM batch_chunks")
    assert (chunk["id"], chunk["phase"], chunk["report"]) == ("ocr:b1:0", "DONE", "written")
    assert chunk["completed_at"] is not None
    refs = rows(url, "SELECT * FROM batch_refs ORDER BY id")
    assert {ref["status"] for ref in refs} == {"done"}
    assert set(model.calls.values()) == {1}
    file = staged(settings, refs[0]["staging_key"])
    assert file["ocr"].startswith("text of")
    assert file["kept"] == "value"
    for ref in refs:
        assert json.loads(asyncio.run(settings.content.get(ref["result_cid"])))["ocr"].startswith("text of")
    versions = rows(url, "SELECT * FROM batch_versions ORDER BY pi")
    assert [(one["pi"], one["version"], one["previous"]) for one in versions] == [
        ("pi0", 1, "tip0"),
        ("pi1", 1, "tip1"),
    ]
    manifest = json.loads(asyncio.run(settings.content.get(versions[0]["tip"])))
    assert manifest["components"] == {ref["filename"]: ref["result_cid"] for ref in refs[:3]}
    [callback] = callbacks_of(receiver)
    assert (callback["batch_id"], callback["chunk_id"], callback["status"]) == ("b1", "0", "success")
    assert [result["new_tip"] for result in callback["results"]] == [one["tip"] for one in versions]
    assert callback["summary"]["completed"] == callback["summary"]["total_refs"] == 6
    assert [one["filename"] for one in callback["results"][0]["completed_refs"]] == [
        ref["filename"] for ref in refs[:3]
    ]


def test_refs_that_need_no_reading_are_skipped_with_a_reason(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """A ref with text and one that is not an image cost no call, and the callback counts them as complete."""
    model = Reader()
    settings = settings_in(tmp_path, model)
    request = chunk_of(images.url, receiver.url, pis=1, refs=3)
    stage(settings, request["pis"])
    refs = request["pis"][0]["refs"]
    asyncio.run(settings.staging.lake.put(refs[0]["staging_key"], b'{"ocr": "known"}'))
    refs[1] |= {"filename": "notes.txt.ref.json", "staging_key": "refs/none.ref.json"}
    submit(url, settings, request)
    work(url, settings)
    found = rows(url, "SELECT status, reason FROM batch_refs ORDER BY id")
    assert [one["status"] for one in found] == ["skipped", "skipped", "done"]
    assert [one["reason"] for one in found[:2]] == ["has_text", "not_image"]
    assert sum(model.calls.values()) == 1
    [callback] = callbacks_of(receiver)
    assert callback["status"] == "success"
    assert callback["results"][0]["refs_completed"] == 3


def test_a_permanent_error_fails_its_ref_alone(url: str, tmp_path: Path, images: Images, receiver: Receiver) -> None:
    """No file, no image, another format, a refusal: each fails at the first attempt, the others are published."""
    settings = settings_in(tmp_path, Reader(Rejected("no")))
    request = chunk_of(images.url, receiver.url, pis=1, refs=9)
    stage(settings, request["pis"])
    refs = request["pis"][0]["refs"]
    refs[0]["staging_key"] = "refs/missing.ref.json"
    images.answers |= {
        "/asset/0-1/medium": [(404, b"")],
        "/asset/0-1": [(404, b"")],
        "/asset/0-2/medium": [(200, b"%PDF-1.7 x")],
    }
    submit(url, settings, request)
    work(url, settings, concurrency=1)
    found = rows(url, "SELECT status, error, attempts FROM batch_refs ORDER BY id")
    assert [one["status"] for one in found] == ["error", "error", "error", "error", *["done"] * 5]
    assert [one["attempts"] for one in found[:4]] == [1, 1, 1, 1]
    assert "the staging store has no file" in found[0]["error"]
    [callback] = callbacks_of(receiver)
    assert (callback["status"], callback["results"][0]["status"]) == ("partial", "partial")
    failed = callback["results"][0]["failed_refs"]
    assert [one["filename"] for one in failed] == [ref["filename"] for ref in refs[:4]]
    assert failed[1]["error"] == "there is no image at its URL"


def test_transient_errors_are_bounded_and_rate_limits_are_not(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """A ref is tried once and three times more; being throttled is not counted."""
    errors = [
        Throttled("slow", 0.01),
        Unavailable("503"),
        Throttled("slow", 0.01),
        Unavailable("503"),
        Unavailable("x"),
    ]
    model = Reader(*errors)
    settings = settings_in(tmp_path, model)
    submit_new(url, settings, images.url, receiver.url, pis=1, refs=1)
    work(url, settings)
    [ref] = rows(url, "SELECT status, attempts FROM batch_refs")
    assert (ref["status"], ref["attempts"], sum(model.calls.values())) == ("done", 4, 6)


def test_too_many_failed_refs_are_an_error_of_the_chunk_which_can_be_retried(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Nothing is published, the callback says error; sent again, only the failed refs are read."""
    model = Reader(Rejected("1"), Rejected("2"))
    settings = settings_in(tmp_path, model)
    request = submit_new(url, settings, images.url, receiver.url, pis=1, refs=3)
    work(url, settings)
    [chunk] = rows(url, "SELECT phase, report, publishing_error FROM batch_chunks")
    assert (chunk["phase"], chunk["report"]) == ("ERROR", "written")
    assert chunk["publishing_error"] == "too many refs failed: 2 of 3"
    assert not rows(url, "SELECT * FROM batch_versions")
    assert read_progress(url) == [(0, 3, 0)] * 3  # what was read is not published, so it is not complete
    assert not submit(url, settings, request)
    work(url, settings)
    [chunk] = rows(url, "SELECT phase, run FROM batch_chunks")
    assert (chunk["phase"], chunk["run"]) == ("DONE", 2)
    first, second = callbacks_of(receiver)
    assert (first["status"], first["error"]) == ("error", "too many refs failed: 2 of 3")
    assert (second["status"], second["summary"]["completed"]) == ("success", 3)
    assert [(one["summary"]["completed"], one["summary"]["failed"]) for one in (first, second)] == [(0, 3), (3, 0)]
    assert read_progress(url) == [(3, 0, 0)] * 3
    assert sum(model.calls.values()) == 5
    ids = {headers["webhook-id"] for _, headers, _ in receiver.got}
    assert len(ids) == 2


def test_a_chunk_without_one_published_entity_is_an_error(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """Its entity has a tip that nobody here knows; sent again after that was mended, it is published."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, receiver.url, pis=1)
    work(url, settings)
    second = chunk_of(images.url, receiver.url, chunk="1", pis=1)
    second["pis"][0]["current_tip"] = "strange"
    stage(settings, second["pis"])
    submit(url, settings, second)
    work(url, settings)
    [chunk] = rows(url, "SELECT phase, publishing_error FROM batch_chunks WHERE chunk_id = '1'")
    assert chunk["phase"] == "ERROR"
    assert "strange" in chunk["publishing_error"]
    assert [one["status"] for one in callbacks_of(receiver)] == ["success", "error"]
    rows(url, "UPDATE batch_pis SET current_tip = 'tip0' WHERE chunk = 'ocr:b1:1'")
    submit(url, settings, second)
    work(url, settings)
    assert [one["status"] for one in callbacks_of(receiver)] == ["success", "error", "success"]


@pytest.mark.parametrize("model", ["local", "reader"])
def test_an_image_that_was_cut_off_is_an_error(
    url: str, tmp_path: Path, images: Images, receiver: Receiver, model: str
) -> None:
    """What can still be read of it is not all of its text; nothing is written into its file, and no model is asked."""
    reader = Reader()
    file = io.BytesIO()
    Image.open(io.BytesIO(picture())).convert("RGB").resize((1280, 320)).save(file, "JPEG")
    whole = file.getvalue()
    images.answers["/asset/0-0/medium"] = [(200, whole[: len(whole) // 3])]
    settings = settings_in(tmp_path, reader)
    if model == "local":
        settings = replace(settings, model="local", gate=None)
    request = submit_new(url, settings, images.url, receiver.url, pis=1, refs=1)
    work(url, settings)
    [ref] = rows(url, "SELECT status, error, attempts FROM batch_refs")
    assert (ref["status"], ref["attempts"]) == ("error", 1)
    assert ref["error"] == "the image cannot be read: the image is cut off or damaged"
    assert not reader.calls
    assert "ocr" not in staged(settings, request["pis"][0]["refs"][0]["staging_key"])


def test_every_page_of_a_tiff_is_read_by_the_model(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """One call for each page, in their order."""
    pages = [Image.open(io.BytesIO(picture(text))) for text in ("Baptisms", "Burials")]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
    images.answers["/asset/0-0/medium"] = [(200, file.getvalue())]
    model = Reader()
    settings = settings_in(tmp_path, model)
    request = submit_new(url, settings, images.url, receiver.url, pis=1, refs=1)
    work(url, settings)
    text = staged(settings, request["pis"][0]["refs"][0]["staging_key"])["ocr"]
    assert text.split("\n\n") == [f"text of {digest}" for digest in model.calls]
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<!doctype html><title>Sign in</title>", "this is an HTML page; supported formats: PNG, JPEG,"),
        (b"%PDF-1.4", "unsupported image format: the file is a PDF"),
        (b"", "the image is empty"),
    ],
    ids=["html", "pdf", "empty"],
)
def test_another_format_is_named_with_those_that_can_be_read(
    url: str, tmp_path: Path, images: Images, receiver: Receiver, body: bytes, error: str
) -> None:
    """After one attempt."""
    images.answers["/asset/0-0/medium"] = [(200, body)]
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, receiver.url, pis=1, refs=1)
    work(url, settings)
    [ref] = rows(url, "SELECT error, attempts FROM batch_refs")
    assert error in ref["error"]
    assert ref["attempts"] == 1
