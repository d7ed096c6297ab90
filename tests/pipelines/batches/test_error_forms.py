"""The codes of stored errors: of refs, chunks and callbacks, for pages in another language."""

from __future__ import annotations

from pathlib import Path

from tabellion.pipelines.batches import failures, lookup
from tests.pipelines.batches.material import chunk_of, serving_images, settings_in, stage, submit, work
from tests.workers import ask


def test_errors_of_refs_chunks_and_callbacks_have_codes(tmp_path: Path, url: str) -> None:
    """A missing image, too many of them, and a receiver that is not there; texts stay as they are."""
    settings = settings_in(tmp_path)
    with serving_images() as images:
        images.answers |= {f"/asset/0-0{variant}": [(404, b"")] for variant in ("", "/medium")}
        request = chunk_of(images.url, "http://127.0.0.1:9/callback", pis=1, refs=1)
        stage(settings, request["pis"])
        submit(url, settings, request)
        work(url, settings)
    [error] = ask(url, lambda store: failures.failed_refs(store, "b1"))
    assert error["error"] == "there is no image at its URL"
    assert error["translatable"]["error"]["code"] == "batch.image_gone"
    [chunk], _ = ask(url, lambda store: lookup.list_chunks(store, "b1"))
    assert chunk["error"] == "too many refs failed: 1 of 1"
    assert chunk["callback"] is not None
    assert chunk["callback"]["status"] == "failed"
    assert "could not be reached" in (chunk["callback"]["error"] or "")
    assert chunk["callback"]["translatable"]["error"]["code"] == "delivery.unreachable"
