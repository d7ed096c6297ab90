"""Moves that lose nothing and take nobody's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tabellion.pipelines.documents import moving
from tabellion.pipelines.documents.files import Unwritable


def test_a_rename_has_one_winner(tmp_path: Path) -> None:
    """The second one to try hears that it is gone."""
    (tmp_path / "a").write_text("a")
    assert moving.claimed(tmp_path / "a", tmp_path / "one" / "a")
    assert not moving.claimed(tmp_path / "a", tmp_path / "two" / "a")
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable):
        moving.claimed(tmp_path / "one" / "a", tmp_path / "file" / "a")


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    """The next free number is used; a move that was begun before is only finished."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.pdf").write_text("old")
    (tmp_path / "a.pdf").write_text("new")
    assert moving.placed(tmp_path / "a.pdf", tmp_path / "there" / "a.pdf") == tmp_path / "there" / "a-2.pdf"
    os.link(tmp_path / "there" / "a.pdf", tmp_path / "a.pdf")
    assert moving.placed(tmp_path / "a.pdf", tmp_path / "there" / "a.pdf") == tmp_path / "there" / "a.pdf"
    assert {path.name: path.read_text() for path in (tmp_path / "there").iterdir()} == {
        "a.pdf": "old",
        "a-2.pdf": "new",
    }
    assert moving.placed(tmp_path / "a.pdf", tmp_path / "there" / "a.pdf") is None


def test_without_hard_links_a_rename_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have none."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a.pdf").write_text("new")
    (tmp_path / "b.pdf").write_text("old")
    assert moving.placed(tmp_path / "a.pdf", tmp_path / "b.pdf") == tmp_path / "b-2.pdf"
    assert (tmp_path / "b.pdf").read_text() == "old"


def test_one_at_a_time_in_a_folder(tmp_path: Path) -> None:
    """Whoever comes second is told, until the first has left; a folder that is gone is nobody's."""
    with moving.alone_in(tmp_path) as first, moving.alone_in(tmp_path) as second:
        assert (first, second) == (True, False)
    with moving.alone_in(tmp_path) as third, moving.alone_in(tmp_path / "none") as none:
        assert (third, none) == (True, False)


def test_who_writes_to_a_file_is_seen(tmp_path: Path) -> None:
    """Open to write counts, open to read does not."""
    if not Path("/proc/self/fdinfo").exists():
        pytest.skip("only /proc tells who writes")
    file = tmp_path / "a"
    with file.open("w"):
        assert moving.being_written({str(file)}) == {str(file)}
    with file.open("r"):
        assert moving.being_written({str(file)}) == set()
