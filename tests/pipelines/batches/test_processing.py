"""Refs at work: what others write meanwhile, stores that do not answer, and hosts that limit requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tabellion.storage.lake import LakeError
from tests.pipelines.batches.material import Images, Reader, rows, settings_in, staged, submit_new, work

KEY = "refs/0-0.png.ref.json"


def test_what_others_write_into_the_file_meanwhile_stays(url: str, tmp_path: Path, images: Images) -> None:
    """The text is added to the file as it is then, not as it was before the image was read."""

    class Late(Reader):
        async def call(self, *args: Any, **options: Any) -> Any:
            """Write a key, then answer."""
            lake = settings.staging.lake
            await lake.put(KEY, json.dumps({**json.loads(await lake.get(KEY)), "title": "Baptisms"}).encode())
            return await super().call(*args, **options)

    settings = settings_in(tmp_path, Late())
    submit_new(url, settings, images.url, images.url, pis=1, refs=1)
    work(url, settings, deliver=False)
    file = staged(settings, KEY)
    assert (file["title"], file["ocr"][:7]) == ("Baptisms", "text of")


def test_a_staging_store_that_is_down_costs_no_attempt(
    url: str, tmp_path: Path, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long: the refs wait, and none fails."""
    monkeypatch.setattr("tabellion.pipelines.batches.processing.AWAY", 0.01)
    model = Reader()
    settings = settings_in(tmp_path, model)
    submit_new(url, settings, images.url, images.url, pis=1, refs=1)
    lake, calls = settings.staging.lake, []
    get, put = lake.get, lake.put

    async def flaky_get(path: str, limit: int | None = None) -> bytes:
        calls.append(path)
        if 2 <= len(calls) < 7:  # the first is that of loading
            raise LakeError("the bucket does not answer")
        return await get(path, limit)

    async def flaky_put(path: str, data: bytes, **options: Any) -> str:
        calls.append(path)
        if len(calls) < 12:
            raise LakeError("the bucket does not answer")
        return await put(path, data, **options)

    monkeypatch.setattr(lake, "get", flaky_get)
    monkeypatch.setattr(lake, "put", flaky_put)
    work(url, settings, deliver=False)
    [ref] = rows(url, "SELECT status, attempts FROM batch_refs")
    assert (ref["status"], ref["attempts"]) == ("done", 1)


def test_a_host_that_limits_requests_is_left_alone_until_its_time(
    url: str, tmp_path: Path, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One 429 is enough for all refs of its host in a process; none of them uses up an attempt."""
    monkeypatch.setattr("tabellion.pipelines.batches.host_pauses.SHORTEST", 0.5)
    images.answers["/asset/0-0/medium"] = [(429, b""), (200, images.answer("/asset/x")[1])]
    settings = settings_in(tmp_path, slots=1)
    submit_new(url, settings, images.url, images.url, pis=1, refs=6)
    work(url, settings, deliver=False)
    assert {(ref["status"], ref["attempts"]) for ref in rows(url, "SELECT status, attempts FROM batch_refs")} == {
        ("done", 1)
    }
    [paused] = rows(url, "SELECT count(*) AS n FROM tabellion_attempts WHERE error LIKE '%limits requests%'")
    assert paused["n"] == 5
    assert sum(images.requests.values()) == 7


def test_a_url_that_is_not_valid_is_a_permanent_error(url: str, tmp_path: Path, images: Images) -> None:
    """Rows may be older than the check of requests."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, images.url, pis=1, refs=1)
    rows(url, "UPDATE batch_refs SET cdn_url = 'nowhere'")
    work(url, settings, deliver=False)
    [ref] = rows(url, "SELECT status, attempts FROM batch_refs")
    assert (ref["status"], ref["attempts"]) == ("error", 1)
    assert asyncio.run(settings.staging.read(KEY)).text is None
