"""Temp folders: one per job inside one per worker."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tabellion.engine.worker.temp_folders import Folders


def test_a_worker_has_a_folder_while_it_runs(tmp_path: Path) -> None:
    """The folder is private, and removed with everything in it."""
    folders = Folders("w1", tmp_path / "base")
    root = folders.open()
    (root / "job").mkdir()
    (root / "job" / "page.png").write_bytes(b"x")
    assert root == tmp_path / "base" / "w1"
    assert root.stat().st_mode & 0o777 == 0o700
    folders.close()
    assert not root.exists()


def test_closing_twice_or_before_opening_is_harmless(tmp_path: Path) -> None:
    """A worker that never started can be closed, and so can one that was closed before."""
    folders = Folders("w1", tmp_path)
    folders.close()
    folders.open()
    folders.close()
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_a_dead_workers_folder_is_removed_by_the_next(tmp_path: Path) -> None:
    """The folder of a killed process is removed when another worker starts; that of a live one is not."""
    code = (
        "import os, signal, pathlib; from tabellion.engine.worker.temp_folders import Folders;"
        f"root = Folders('dead', pathlib.Path({str(tmp_path)!r})).open(); (root / 'left').write_text('x');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / "dead" / "left").exists()
    living = Folders("living", tmp_path)
    living.open()
    newcomer = Folders("newcomer", tmp_path)
    newcomer.open()
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["living", "newcomer"]
    newcomer.close()
    living.close()


def test_a_removal_that_was_interrupted_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies while it removes a folder leaves nothing that others would have to wait for."""
    (tmp_path / "w1").mkdir()
    (tmp_path / "w1" / ".alive").touch()
    (tmp_path / "w1" / "job").mkdir()

    def interrupt(folder: Path, **_: bool) -> None:
        (folder / ".alive").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Folders("w2", tmp_path).open()
    folders = Folders("w3", tmp_path)
    folders.open()
    assert [path.name for path in tmp_path.iterdir()] == ["w3"]
    folders.close()


def test_a_folder_without_a_lock_is_still_being_created(tmp_path: Path) -> None:
    """Between creating its folder and its lock a starting worker is not taken for dead."""
    (tmp_path / "starting").mkdir()
    folders = Folders("w1", tmp_path)
    folders.open()
    assert (tmp_path / "starting").exists()
    folders.close()


def test_many_workers_starting_at_once(tmp_path: Path) -> None:
    """However many start together, each gets its folder and none removes that of a live one."""
    everyone = [Folders(f"w{number}", tmp_path) for number in range(24)]
    failures: list[BaseException] = []
    start = threading.Barrier(len(everyone))

    def begin(folders: Folders) -> None:
        start.wait()
        try:
            folders.open()
        except BaseException as error:
            failures.append(error)

    for _ in range(10):
        threads = [threading.Thread(target=begin, args=(folders,)) for folders in everyone]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        missing = [folders.root.name for folders in everyone if not folders.root.exists()]
        for folders in everyone:
            folders.close()
        assert (failures, missing) == ([], [])


def test_two_live_workers_cannot_share_an_id(tmp_path: Path) -> None:
    """The second worker with the same id is refused with an error that says so."""
    first = Folders("w1", tmp_path)
    first.open()
    with pytest.raises(Exception, match="w1") as caught:
        Folders("w1", tmp_path).open()
    assert not isinstance(caught.value, OSError)
    assert first.root.exists()
    first.close()
