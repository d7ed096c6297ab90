"""Page images take no more disk space than allowed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.web import page_images
from tabellion.web.page_images import WIDTHS, Pictures, Space, _touch, round_width
from tabellion.web.problems import Problem


@pytest.mark.parametrize(
    ("asked", "drawn"), [(16, 100), (100, 100), (101, 200), (900, 900), (2001, 2500), (3000, 3000)]
)
def test_widths_are_rounded_up(asked: int, drawn: int) -> None:
    """To one of a few, so that an image is never too coarse."""
    assert round_width(asked) == drawn
    assert drawn in WIDTHS


def names(folder: Path) -> set[str]:
    """Return the names of the stored images."""
    return {path.name for path in folder.rglob("*.png")}


def test_unused_images_make_room(tmp_path: Path) -> None:
    """The oldest are deleted first, one viewed since stays, and earlier files count."""
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "old.png").write_bytes(bytes(400))
    os.utime(tmp_path / "ab" / "old.png", (1, 1))
    space = Space(tmp_path, 1000)
    for number in range(5):
        path = tmp_path / "cd" / f"{number}.png"
        space.keep(path, bytes(100))
        os.utime(path, (10 + number, 10 + number))
    assert names(tmp_path) == {"old.png", "0.png", "1.png", "2.png", "3.png", "4.png"}
    assert _touch(tmp_path / "cd" / "0.png")
    space.keep(tmp_path / "cd" / "5.png", bytes(200))
    assert names(tmp_path) == {"0.png", "1.png", "2.png", "3.png", "4.png", "5.png"}
    space.keep(tmp_path / "cd" / "6.png", bytes(400))
    assert names(tmp_path) == {"0.png", "4.png", "5.png", "6.png"}
    assert not _touch(tmp_path / "cd" / "1.png")


@pytest.mark.parametrize("early", [False, True], ids=["written afterwards", "written meanwhile"])
def test_an_image_of_a_deleted_document_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """A page still being rendered when its document is deleted leaves nothing; the delete succeeds."""
    source, folder = tmp_path / "blob", tmp_path / "pictures"
    source.touch()
    sha256 = "ab" * 32
    drawing, deleted = threading.Event(), threading.Event()

    def draw(*_: object, **__: object) -> bytes:
        drawing.set()
        assert deleted.wait(30)
        return b"picture"

    def list_and_write(path: Path) -> Iterator[Path]:
        found = list(listed(path))
        if early and not deleted.is_set():
            page_images._write(folder / "ab" / sha256 / "2-100-0.png", b"another")
        return iter(found)

    monkeypatch.setattr(page_images, "draw", draw)
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", list_and_write)

    async def go() -> str:
        pictures = Pictures(folder)
        page_images._write(folder / "ab" / sha256 / "1-100-0.png", b"kept until now")
        request = asyncio.create_task(pictures.picture(source, sha256, 2, 100, 0))
        try:
            await asyncio.to_thread(drawing.wait, 30)
            source.unlink()
            await pictures.forget(sha256)
            deleted.set()
            with pytest.raises(Problem) as problem:
                await request
            return problem.value.code
        finally:
            deleted.set()
            await pictures.close()

    assert asyncio.run(go()) == "file_gone"
    assert names(folder) == set()
