"""Ref files: what has a text, and what is not a ref file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion.errors import Permanent
from tabellion.pipelines.batches.staging import RefFile, Staging
from tabellion.storage.lake import Lake


@pytest.mark.parametrize(
    ("content", "text"), [({"ocr": "x"}, "x"), ({"ocr": ""}, ""), ({"ocr": None}, None), ({}, None)]
)
def test_a_blank_page_has_a_text(content: dict[str, object], text: str | None) -> None:
    """An empty one: it was read. Another type is not a text."""
    assert RefFile(content).text == text


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"1", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e400}', b'{"a": "caf\\ud83d"}',
        b'{"\\udc00": 1}', b"[" * 100_000, b'{"a": "' + b"x" * 90 + b'"}', b'{"ocr": {"text": "x"}}', b'{"ocr": 5}',
    ],
    ids=[
        "empty", "cut", "list", "number", "nan", "infinity", "huge-number", "half-pair", "half-pair-key", "deep",
        "large", "text-in-object", "text-is-number",
    ],
)  # fmt: skip
def test_what_is_not_a_ref_file_is_a_permanent_error(lake: Lake, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder and in a bucket."""
    monkeypatch.setattr("tabellion.pipelines.batches.staging.LARGEST", 200_000 if data[:2] == b"[[" else 90)

    async def read() -> None:
        await lake.put("refs/1.json", data)
        await Staging(lake).read("refs/1.json")

    with pytest.raises(Permanent, match=r"refs/1\.json"):
        asyncio.run(read())


def test_a_file_that_is_not_there_is_a_permanent_error(tmp_path: Path) -> None:
    """It names the key."""
    with pytest.raises(Permanent, match=r"refs/1\.json"):
        asyncio.run(Staging(Lake(str(tmp_path))).read("refs/1.json"))
