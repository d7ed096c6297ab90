"""Pictures of pages take no more room than they may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tabellion.web.page_images import WIDTHS, Space, _touch, round_width


@pytest.mark.parametrize(
    ("asked", "drawn"), [(16, 100), (100, 100), (101, 200), (900, 900), (2001, 2500), (3000, 3000)]
)
def test_widths_are_rounded_up(asked: int, drawn: int) -> None:
    """To one of a few, so that what is shown is never too coarse."""
    assert round_width(asked) == drawn
    assert drawn in WIDTHS


def names(folder: Path) -> set[str]:
    """The pictures there are."""
    return {path.name for path in folder.rglob("*.png")}


def test_the_pictures_that_nobody_looks_at_make_room(tmp_path: Path) -> None:
    """The oldest go first, one that was looked at since stays, and what was there before counts."""
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
