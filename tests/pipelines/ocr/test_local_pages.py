"""Pages read locally, as they arrive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion.pipelines.ocr.local_pages import reading
from tabellion.reading.errors import Unreadable
from tests.pipelines.ocr.deeds import deed, settings_in


def test_pages_come_one_by_one_from_the_first_requested(tmp_path: Path) -> None:
    """The header has the number of all pages."""
    (tmp_path / "deed.pdf").write_bytes(deed(4))

    async def go() -> tuple[int, list[int]]:
        async with reading(settings_in(tmp_path), tmp_path / "deed.pdf", "auto", first=3) as (header, pages):
            return header.count, [page.number async for _, page in pages]

    assert asyncio.run(go()) == (4, [3, 4])


def test_leaving_early_ends_the_reading(tmp_path: Path) -> None:
    """The next file can be read at once, even with a single reader."""
    (tmp_path / "long.pdf").write_bytes(deed(300))
    (tmp_path / "deed.pdf").write_bytes(deed(1))

    async def go() -> int:
        settings = settings_in(tmp_path)
        for _ in range(5):
            async with reading(settings, tmp_path / "long.pdf", "auto") as (_, pages):
                await anext(pages)
        async with reading(settings, tmp_path / "deed.pdf", "auto") as (header, pages):
            assert [page.number async for _, page in pages] == [1]
            return header.count

    assert asyncio.run(go()) == 1


def test_a_file_that_cannot_be_opened_fails_at_once(tmp_path: Path) -> None:
    """Before any page."""
    (tmp_path / "deed.pdf").write_bytes(b"%PDF-1.7 broken")

    async def go() -> None:
        async with reading(settings_in(tmp_path), tmp_path / "deed.pdf", "auto"):
            pass

    with pytest.raises(Unreadable):
        asyncio.run(go())
