"""Moving files without losing or overwriting any."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tabellion.pipelines.documents import inbox as moving
from tabellion.pipelines.documents.inbox import Inbox
from tabellion.storage.files import Unwritable


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    """An inbox without working folders."""
    return Inbox(tmp_path, ())


def test_a_rename_has_one_winner(tmp_path: Path, inbox: Inbox) -> None:
    """The second one is told that the file is gone."""
    (tmp_path / "a").write_text("a")
    assert inbox.claim("a", "one/a")
    assert not inbox.claim("a", "two/a")
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable):
        inbox.claim("one/a", "file/a")


def test_an_existing_name_is_not_overwritten(tmp_path: Path, inbox: Inbox) -> None:
    """The next free number is used; an interrupted move is only finished."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.pdf").write_text("old")
    (tmp_path / "a.pdf").write_text("new")
    assert inbox.place("a.pdf", "there/a.pdf") == "there/a-2.pdf"
    os.link(tmp_path / "there" / "a.pdf", tmp_path / "a.pdf")
    assert inbox.place("a.pdf", "there/a.pdf") == "there/a.pdf"
    assert {path.name: path.read_text() for path in (tmp_path / "there").iterdir()} == {
        "a.pdf": "old",
        "a-2.pdf": "new",
    }
    assert inbox.place("a.pdf", "there/a.pdf") is None


def test_a_new_reason_replaces_that_of_a_removed_file(tmp_path: Path, inbox: Inbox) -> None:
    """A file put back that fails again has its new reason beside it; nothing else is left."""
    (tmp_path / "a.pdf.reason.json").write_text("old")
    inbox.write("a.pdf.reason.json", b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.pdf.reason.json", "new")]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EXDEV])
def test_without_hard_links_a_rename_is_used(
    code: int, tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have none; a folder on another disk is rejected, since copying would follow links."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a.pdf").write_text("new")
    (tmp_path / "b.pdf").write_text("old")
    if code == errno.EXDEV:
        with pytest.raises(Unwritable, match="cross-device"):
            inbox.place("a.pdf", "b.pdf")
        assert (tmp_path / "a.pdf").read_text() == "new"
    else:
        assert inbox.place("a.pdf", "b.pdf") == "b-2.pdf"
    assert (tmp_path / "b.pdf").read_text() == "old"


@pytest.mark.parametrize(
    ("target", "failed", "full"),
    [
        ("failed/b.pdf", "a.pdf cannot be moved to failed: read-only", "there is no free name for b.pdf in failed"),
        ("b.pdf", "a.pdf cannot be moved back to the inbox: read-only", "there is no free name for b.pdf in the inbox"),
    ],
)
def test_an_error_names_the_folder(
    target: str, failed: str, full: str, tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox itself has no name to show: the file cannot be moved back to it."""

    def refuse(*_: object) -> bool:
        raise OSError(errno.EROFS, "read-only")

    (tmp_path / "a.pdf").write_text("new")
    monkeypatch.setattr(moving, "_try_move", refuse)
    with pytest.raises(Unwritable, match=f"^{failed}$"):
        inbox.place("a.pdf", target)
    monkeypatch.setattr(moving, "_try_move", lambda *_: False)
    with pytest.raises(Unwritable, match=f"^{full}$"):
        inbox.place("a.pdf", target)


def test_one_process_per_folder(tmp_path: Path, inbox: Inbox) -> None:
    """The second process is told, until the first has ended; a missing folder belongs to nobody."""
    (tmp_path / "f").mkdir()
    with inbox.alone_in("f") as first, inbox.alone_in("f") as second:
        assert (first, second) == (True, False)
    with inbox.alone_in("f") as third, inbox.alone_in("none") as none:
        assert (third, none) == (True, False)


def test_an_open_writer_is_noticed(tmp_path: Path) -> None:
    """Open for writing counts, open for reading does not."""
    if not Path("/proc/self/fdinfo").exists():
        pytest.skip("only /proc tells who writes")
    file = tmp_path / "a"
    with file.open("w"):
        assert moving.find_being_written({str(file)}) == {str(file)}
    with file.open("r"):
        assert moving.find_being_written({str(file)}) == set()
