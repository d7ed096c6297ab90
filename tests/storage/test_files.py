"""Files that are complete or missing: the order of system calls, and what a kill -9 leaves."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tabellion.storage import files
from tests.engine.made_tables import asynchronous

ROOT = Path(__file__).parents[3]
WRITE = """
import sys
from pathlib import Path
from tabellion.storage.files import write_whole
root = Path(sys.argv[1])
write_whole(root / "json" / "2024" / "a.json", sys.argv[2].encode() * int(sys.argv[3]), root)
"""


def write(root: Path, text: str, times: int = 1, *, failpoint: str = "", under: tuple[str, ...] = ()) -> int:
    """Write a file in a separate process; return its exit code."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "TABELLION_FAILPOINTS": failpoint}
    done = subprocess.run([*under, sys.executable, "-c", WRITE, str(root), text, str(times)], env=environment)
    return done.returncode


def calls(root: Path, trace: Path) -> list[str]:
    """Return what was done below a folder, in order, from a trace of system calls."""
    seen: list[str] = []
    opened: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        call = re.sub(r"^\d+ +", "", line)
        name = call.partition("(")[0]
        paths = [Path(found) for found in re.findall(r'"([^"]*)"', call) if found.startswith(str(root))]
        if name == "openat" and (handle := re.search(r"= (\d+)$", call)):
            opened[handle[1]] = _shown(paths[0], root) if paths else ""
            if paths and "O_CREAT" in call:
                seen.append(f"create {opened[handle[1]]}")
        elif name in ("fsync", "write") and (handle := re.match(r"\w+\((\d+)", call)) and opened.get(handle[1]):
            seen.append(f"{name} {opened[handle[1]]}")
        elif name in ("rename", "mkdir") and paths:
            seen.append(f"{name} {' '.join(_shown(path, root) for path in paths)}")
        elif name == "close" and (handle := re.match(r"close\((\d+)", call)):
            opened.pop(handle[1], None)
    return seen


def _shown(path: Path, root: Path) -> str:
    return "TEMP" if path.suffix == ".tmp" else str(path.relative_to(root.parent))


def test_a_file_is_synced_before_it_is_renamed_and_its_folder_after(tmp_path: Path) -> None:
    """The system calls, in order: folders and their names, bytes, fsync, rename, fsync of the folder."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not on this machine")
    trace = tmp_path / "trace"
    strace = ("strace", "-f", "-o", str(trace), "-e", "trace=openat,write,fsync,rename,mkdir,close")
    if write(tmp_path / "lake", "hello", under=strace) != 0:
        pytest.skip("strace may not trace here")
    assert calls(tmp_path / "lake", trace) == [
        "mkdir lake",  # its name is forced to disk in its parent, which is not below the root
        "mkdir lake/json", "fsync lake",
        "mkdir lake/json/2024", "fsync lake/json",
        "create TEMP", "write TEMP", "fsync TEMP",
        "rename TEMP lake/json/2024/a.json", "fsync lake/json/2024",
    ]  # fmt: skip


def test_the_same_order_without_a_tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of this process, with the folders' names synced from the top."""
    seen: list[str] = []
    for name in ("write", "fsync", "rename", "mkdir"):
        real = getattr(os, name)

        def spy(*args: object, _real: object = real, _name: str = name, **kwargs: object) -> object:
            shown = ""
            if isinstance(args[0], int):
                shown = os.readlink(f"/proc/self/fd/{args[0]}")
            seen.append(f"{_name} {Path(shown or str(args[-1])).name}")
            return _real(*args, **kwargs)  # type: ignore[operator]

        monkeypatch.setattr(os, name, spy)
    files.write_whole(tmp_path / "lake" / "json" / "a.json", b"hello", tmp_path / "lake")
    temp = next(item.partition(" ")[2] for item in seen if item.startswith("write"))
    assert [item for item in seen if not item.startswith("mkdir")] == [
        f"fsync {tmp_path.name}", "fsync lake", f"write {temp}", f"fsync {temp}", "rename a.json", "fsync json",
    ]  # fmt: skip
    assert temp.startswith(".")


@pytest.mark.parametrize("place", ["put.mid_write", "put.pre_rename", "put.post_rename"])
@pytest.mark.parametrize("old", [b"", b"old"])
def test_kill_9_leaves_the_old_file_or_the_new_one(tmp_path: Path, place: str, old: bytes) -> None:
    """Under the final name is the old content, or all of the new; never a part."""
    root, final = tmp_path / "lake", tmp_path / "lake" / "json" / "2024" / "a.json"
    if old:
        files.write_whole(final, old, root)
    assert write(root, "x", 3 << 20, failpoint=f"{place}:kill") == -signal.SIGKILL
    new = place == "put.post_rename"
    if new:
        assert final.read_bytes() == b"x" * (3 << 20)
    elif old:
        assert final.read_bytes() == old
    else:
        assert not final.exists()
    left = [path for path in root.rglob("*") if path.is_file() and path != final]
    assert len(left) == (0 if new else 1)
    assert files.sweep_temps(root, older=3600) == []
    assert files.sweep_temps(root, older=0) == left
    assert [path for path in root.rglob("*") if path.is_file()] == ([final] if new or old else [])


def test_only_old_temporary_files_are_deleted(tmp_path: Path) -> None:
    """A running write stays, and so do files that are not ours."""
    old, young, other = tmp_path / "a" / ".1.tmp", tmp_path / ".2.tmp", tmp_path / "b.tmp"
    old.parent.mkdir()
    for path in (old, young, other):
        path.write_text("x")
        os.utime(path, (time.time() - 7200,) * 2)
    os.utime(young)
    assert files.sweep_temps(tmp_path) == [old]
    assert young.exists()
    assert other.exists()


def test_a_new_file_overwrites_nothing(tmp_path: Path) -> None:
    """It is written, or the name exists; nothing else is left."""
    final = tmp_path / "a"
    for data, taken in ((b"first", False), (b"second", True)):
        staged = files.StagedFile(tmp_path, tmp_path)
        staged.write(data)
        if taken:
            with pytest.raises(files.FileNameTaken, match="already exists"):
                staged.name(final, new=True)
        else:
            staged.name(final, new=True)
        staged.discard()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"first"}


def test_a_vanished_folder_is_created_again(tmp_path: Path) -> None:
    """Someone may delete empty folders while we write."""
    final = tmp_path / "lake" / "day" / "a"
    files.write_whole(final, b"1", tmp_path / "lake")
    shutil.rmtree(tmp_path / "lake")
    files.write_whole(final, b"2", tmp_path / "lake")
    assert final.read_bytes() == b"2"


@pytest.mark.parametrize("removed", ["lake/day", "lake"])
@pytest.mark.parametrize("new", [False, True])
def test_a_folder_that_vanishes_before_its_file_is_named_is_created_again(
    tmp_path: Path, removed: str, new: bool
) -> None:
    """The temporary file is in another folder, so nothing is lost."""
    lake = tmp_path / "lake"
    files.write_whole(lake / "day" / "a", b"1", lake)
    staged = files.StagedFile(tmp_path, tmp_path)
    staged.write(b"2")
    shutil.rmtree(tmp_path / removed)
    staged.name(lake / "day" / "a", new=new)
    assert (lake / "day" / "a").read_bytes() == b"2"


def test_a_temporary_file_that_vanishes_is_reported(tmp_path: Path) -> None:
    """Nothing is left to be named; the error names the file."""
    staged = files.StagedFile(tmp_path, tmp_path)
    staged.path.unlink()
    with pytest.raises(files.Unwritable, match="lake/a"):
        staged.name(tmp_path / "lake" / "a")


def test_one_fsync_of_the_parent_is_enough_for_all_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of a thousand folders that others have made does not need a thousand; a new folder needs one."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    forced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", forced.append)
    for name in ("a", "b", "c", "new"):
        files.make_folder(tmp_path / name, tmp_path)
    assert forced == [tmp_path.parent, tmp_path, tmp_path]


def test_a_parent_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that others make later are forced one by one; listing thousands for each would take longer."""
    forced: list[Path] = []
    listed: list[Path] = []
    scan = os.scandir

    def list_folder(path: Path) -> object:
        listed.append(path)
        return scan(path)

    monkeypatch.setattr(files, "MOST_LISTED", 1)
    (tmp_path / "file").touch()
    monkeypatch.setattr(files, "sync_folder", forced.append)
    monkeypatch.setattr(os, "scandir", list_folder)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        files.make_folder(tmp_path / name, tmp_path)
        files.make_folder(tmp_path / name, tmp_path)
    assert listed == [tmp_path]
    assert forced == [tmp_path.parent, tmp_path, tmp_path, tmp_path]


def test_only_so_many_folders_are_listed_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not listed, or not remembered any more, is forced again: a limit costs calls, never a name."""
    forced: list[Path] = []
    names = [f"{number}" for number in range(9)]
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(files, "sync_folder", forced.append)
    monkeypatch.setattr(files, "MOST_LISTED", 3)
    monkeypatch.setattr(files, "MOST_KNOWN", 8)
    files.forget_folders()
    for name in names:
        files.make_folder(tmp_path / name, tmp_path)
        assert str(tmp_path / name) in files._known
        assert len(files._known) <= 8
    assert forced.count(tmp_path) > 5


def test_files_and_folders_are_private(tmp_path: Path) -> None:
    """0600 and 0700, whatever the umask."""
    before = os.umask(0)
    try:
        files.write_whole(tmp_path / "lake" / "day" / "a", b"1", tmp_path / "lake")
    finally:
        os.umask(before)
    modes = [oct((tmp_path / "lake" / name).stat().st_mode & 0o777) for name in ("", "day", "day/a")]
    assert modes == ["0o700", "0o700", "0o600"]


@asynchronous
async def test_a_cancelled_write_waits_for_the_disk(tmp_path: Path) -> None:
    """It has ended when the cancellation is reported: nothing is written during the cleanup."""
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(30)
        ended.set()

    task = asyncio.create_task(files.in_thread(work))
    await asyncio.to_thread(started.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@asynchronous
async def test_what_a_cancelled_caller_does_not_get_is_released() -> None:
    """A descriptor that a thread opened meanwhile is not lost; the caller that gets one keeps it."""
    started, go_on, released = threading.Event(), threading.Event(), list[int]()

    def work() -> int:
        started.set()
        go_on.wait(30)
        return 7

    task = asyncio.create_task(files.in_thread.acquire(released.append, work))
    await asyncio.to_thread(started.wait, 30)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert released == [7]
    assert await files.in_thread.acquire(released.append, work) == 7
    assert released == [7]
