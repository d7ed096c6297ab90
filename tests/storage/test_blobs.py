"""Blobs: stored whole, hashed while written, kept once, and nothing left of a failed upload."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.storage.blobs import BATCH, Blobs, StoredBlob, TooLarge, memory_usage
from tabellion.storage.files import NoSpace
from tests.engine.made_tables import asynchronous

ROOT = Path(__file__).parents[3]
RECEIVE = """
import asyncio, sys
from tabellion.storage.blobs import Blobs

async def main():
    async with Blobs(sys.argv[1]).receive() as sink:
        for _ in range(5):
            await sink.write(b"x" * (1 << 20))

asyncio.run(main())
"""


def everything(root: Path) -> list[Path]:
    """Every file below a folder."""
    return sorted(path for path in root.rglob("*") if path.is_file())


def received(blobs: Blobs, *chunks: bytes, limit: int | None = None) -> StoredBlob:
    async def run() -> StoredBlob:
        async with blobs.receive(limit, name="a.pdf", media="application/pdf") as sink:
            for chunk in chunks:
                await sink.write(chunk)
        return sink.blob

    return asyncio.run(run())


def test_a_file_is_stored_under_its_hash(tmp_path: Path) -> None:
    """Complete, with its size, readable by its owner only, and nothing beside it."""
    chunks = [b"%PDF-1.7\n", b"x" * 700_000, b"y" * 700_000, b"", b"z" * 10]
    content = b"".join(chunks)
    blob = received(Blobs(tmp_path / "blobs"), *chunks)
    sha256 = hashlib.sha256(content).hexdigest()
    assert blob == StoredBlob(
        sha256, len(content), tmp_path / "blobs" / sha256[:2] / sha256[2:4] / sha256, "a.pdf", "application/pdf"
    )
    assert blob.path.read_bytes() == content
    assert blob.path.stat().st_mode & 0o777 == 0o600
    assert everything(tmp_path) == [blob.path]


def test_the_same_content_twice_is_one_file(tmp_path: Path) -> None:
    """Also with twenty at once."""
    blobs = Blobs(tmp_path / "blobs")

    async def one(cut: int) -> StoredBlob:
        async with blobs.receive() as sink:
            await sink.write(b"same content"[:cut])
            await sink.write(b"same content"[cut:])
        return sink.blob

    async def run() -> list[StoredBlob]:
        return await asyncio.gather(*(one(number % 12) for number in range(20)))

    assert len(set(asyncio.run(run()))) == 1
    assert len(everything(tmp_path)) == 1


@pytest.mark.parametrize("size", [11, BATCH + 1, 3 * BATCH])
def test_a_file_over_the_limit_is_rejected(tmp_path: Path, size: int) -> None:
    """The error names the limit, and nothing is left; exactly the limit is allowed."""
    blobs = Blobs(tmp_path / "blobs")
    assert received(blobs, b"x" * (size - 1), limit=size - 1).bytes == size - 1
    before = everything(tmp_path)
    with pytest.raises(TooLarge, match=f"more than {size - 1:,} bytes") as raised:
        received(blobs, b"x" * (size - 1), b"x", limit=size - 1)
    assert (raised.value.limit, raised.value.got) == (size - 1, size)
    assert everything(tmp_path) == before


def test_nothing_is_left_of_an_interrupted_upload(tmp_path: Path) -> None:
    """The client disconnects, or the task is cancelled during a write."""
    blobs = Blobs(tmp_path / "blobs")

    async def broken() -> None:
        async with blobs.receive() as sink:
            await sink.write(b"x" * BATCH)
            assert len(everything(tmp_path)) == 1
            raise ConnectionResetError

    async def cancelled() -> None:
        async def upload() -> None:
            async with blobs.receive() as sink:
                while True:
                    await sink.write(b"x" * BATCH)

        task = asyncio.create_task(upload())
        while not everything(tmp_path):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with pytest.raises(ConnectionResetError):
        asyncio.run(broken())
    asyncio.run(cancelled())
    assert everything(tmp_path) == []


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A file system of this size, where this machine allows one."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        pytest.skip(f"no file system can be mounted here ({os.strerror(ctypes.get_errno())})")
    try:
        yield
    finally:
        libc.umount2(str(folder).encode(), 2)


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    """On a real file system that is too small; the next file that fits is stored."""
    with small_disk(tmp_path / "disk", 3 << 20):
        blobs = Blobs(tmp_path / "disk" / "blobs")
        with pytest.raises(NoSpace, match=r"no space left for .*blobs.* free some"):
            received(blobs, *[b"x" * BATCH] * 5)
        assert everything(tmp_path / "disk") == []
        assert received(blobs, b"x" * BATCH).bytes == BATCH


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_disk_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A full disk may show at the write, at the fsync or at the rename."""

    def refuse(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    blobs = Blobs(tmp_path / "blobs")
    received(blobs, b"first")
    before = everything(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(NoSpace, match="No space left on device"):
            received(blobs, b"second")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("place", ["put.mid_write@3", "put.pre_rename", "put.post_rename"])
def test_kill_9_leaves_no_partial_file_under_a_hash(tmp_path: Path, place: str) -> None:
    """A file named by a hash has its content; an unnamed one is deleted when it is old."""
    name, _, at = place.partition("@")
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}", "TABELLION_FAILPOINTS": f"{name}:kill@{at or 1}",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", RECEIVE, str(tmp_path / "blobs")], env=environment)
    assert done.returncode == -signal.SIGKILL
    blobs = Blobs(tmp_path / "blobs")
    [found] = everything(tmp_path)
    if name == "put.post_rename":
        assert found.name == hashlib.sha256(found.read_bytes()).hexdigest()
    else:
        assert found.name.endswith(".tmp")
        assert asyncio.run(blobs.sweep_temps()) == []
        assert asyncio.run(blobs.sweep_temps(older=0)) == [found]
    assert received(blobs, *[b"x" * BATCH] * 5).path.stat().st_size == 5 * BATCH


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "ab", "", "A" * 64, "g" * 64, "0" * 63 + "\n", "0" * 65, "./" * 32]
)
def test_only_a_hash_is_a_name(tmp_path: Path, name: str) -> None:
    """No text of a user becomes a path."""
    with pytest.raises(ValueError, match="is not a SHA-256"):
        Blobs(tmp_path).path(name)


def test_the_clients_file_name_is_stored_and_never_used(tmp_path: Path) -> None:
    """A name such as ../../x is only a text."""

    async def run() -> StoredBlob:
        async with Blobs(tmp_path / "blobs").receive(name="../../x") as sink:
            await sink.write(b"1")
        return sink.blob

    assert asyncio.run(run()).name == "../../x"
    assert [path.name for path in tmp_path.iterdir()] == ["blobs"]


@asynchronous
async def test_the_start_of_a_file_is_available(tmp_path: Path) -> None:
    """To detect its type it need not be read again; an unfinished file is not a blob."""
    async with Blobs(tmp_path).receive() as sink:
        await sink.write(b"%PDF")
        with pytest.raises(RuntimeError, match="not complete yet"):
            _ = sink.blob
        await sink.write(b"-1.7" + b"x" * 10_000)
        assert sink.head == b"%PDF-1.7" + b"x" * 4088
        blob = await sink.finish()
        with pytest.raises(RuntimeError, match="nothing more"):
            await sink.write(b"more")
    assert sink.blob is blob


def test_a_waiting_file_is_neither_in_memory_nor_open(tmp_path: Path) -> None:
    """It waits on disk for the others of its request, and is finished or discarded like any other."""
    blobs = Blobs(tmp_path / "blobs")

    async def run() -> None:
        before = len(os.listdir("/proc/self/fd"))
        sinks = [blobs.receive() for _ in range(3)]
        for number, sink in enumerate(sinks):
            await sink.write(b"%d" % number * 1000)
            await sink.suspend()
        assert (memory_usage.bytes, len(os.listdir("/proc/self/fd"))) == (0, before)
        with pytest.raises(RuntimeError, match="suspended"):
            await sinks[0].write(b"more")
        assert [(await sink.finish()).path.read_bytes() for sink in sinks[:2]] == [b"0" * 1000, b"1" * 1000]
        await sinks[2].discard()

    asyncio.run(run())
    assert len(everything(tmp_path)) == 2


@asynchronous
async def test_many_files_together_share_one_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it bytes are written to disk at once; an aborted file returns its share."""
    monkeypatch.setattr("tabellion.storage.blobs.MOST_HELD", 10_000)
    blobs = Blobs(tmp_path / "blobs")
    sinks = [blobs.receive() for _ in range(30)]
    for _ in range(3):
        for number, sink in enumerate(sinks):
            await sink.write(b"%02d" % number * 500)
            assert memory_usage.bytes <= 10_000
    for sink in sinks[10:]:
        await sink.discard()
    kept = [await sink.finish() for sink in sinks[:10]]
    assert [blob.bytes for blob in kept] == [3000] * 10
    assert memory_usage.bytes == 0


@asynchronous
async def test_a_blob_is_removed_unless_it_was_stored_again(tmp_path: Path) -> None:
    """The caller says how old it must be."""
    blobs = Blobs(tmp_path / "blobs")
    async with blobs.receive() as sink:
        await sink.write(b"1")
    sha256 = sink.blob.sha256
    assert not await blobs.remove(sha256, older=60)
    os.utime(sink.blob.path, (0, 0))
    async with blobs.receive() as again:
        await again.write(b"1")
    assert not await blobs.remove(sha256, older=60)
    assert await blobs.has(sha256)
    assert await blobs.remove(sha256)
    assert not await blobs.has(sha256)
    assert not await blobs.remove(sha256)


@asynchronous
async def test_a_blob_that_is_still_needed_is_restored(tmp_path: Path) -> None:
    """It is out of reach while that is checked; if the check fails it stays where it was."""
    blobs = Blobs(tmp_path / "blobs")

    async def come() -> StoredBlob:
        async with blobs.receive() as sink:
            await sink.write(b"1")
        return sink.blob

    async def gone(answer: bool) -> bool:
        assert not await blobs.has(sha256)
        return answer

    async def broken() -> bool:
        raise OSError(errno.EIO, "no answer")

    sha256 = (await come()).sha256
    assert not await blobs.remove(sha256, needed=lambda: gone(True))
    assert blobs.path(sha256).read_bytes() == b"1"
    with pytest.raises(OSError, match="no answer"):
        await blobs.remove(sha256, needed=broken)
    assert await blobs.has(sha256)

    async def came_again() -> bool:
        await come()
        return False

    assert await blobs.remove(sha256, needed=came_again)
    assert await blobs.has(sha256)
    assert await blobs.remove(sha256, needed=lambda: gone(False))
    assert everything(tmp_path / "blobs") == []


@asynchronous
async def test_a_blob_moved_away_by_a_killed_process_is_restored(tmp_path: Path) -> None:
    """That process never knew whether it was needed."""
    blobs = Blobs(tmp_path / "blobs")
    async with blobs.receive() as sink:
        await sink.write(b"1")
    blobs._set_aside(sink.blob.path, 0.0)
    assert await blobs.recover() == 0
    assert (await blobs.recover(older=0), await blobs.has(sink.blob.sha256)) == (1, True)
    assert everything(tmp_path / "blobs") == [sink.blob.path]


@asynchronous
async def test_blobs_of_a_period_are_found(tmp_path: Path) -> None:
    """By when their content was last stored."""
    blobs = Blobs(tmp_path / "blobs")
    created = {}
    for number in range(3):
        async with blobs.receive() as sink:
            await sink.write(f"{number}".encode())
        os.utime(sink.blob.path, (number, number))
        created[number] = sink.blob.sha256
    assert sorted(await blobs.list_arrivals(0, 9)) == sorted(created.values())
    assert await blobs.list_arrivals(1, 1.5) == [created[1]]
    assert await blobs.list_arrivals(time.time() + 60, time.time() + 90) == []


def test_a_local_file_is_copied(tmp_path: Path) -> None:
    """With its own name; the same limit applies."""
    source = tmp_path / "scan.pdf"
    source.write_bytes(b"x" * (BATCH + 5))
    blobs = Blobs(tmp_path / "blobs")
    blob = asyncio.run(blobs.take(source))
    assert (blob.name, blob.bytes) == ("scan.pdf", BATCH + 5)
    assert source.exists()
    with pytest.raises(TooLarge):
        asyncio.run(blobs.take(source, limit=BATCH))
    assert everything(tmp_path / "blobs") == [blob.path]


def test_a_file_and_its_hash(tmp_path: Path) -> None:
    """Whole, changed, missing, unreadable."""
    blobs, sha256 = Blobs(tmp_path), hashlib.sha256(b"content").hexdigest()
    file = blobs.path(sha256)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"content")
    assert asyncio.run(blobs.compare(sha256)) == ""
    file.write_bytes(b"contents")
    assert "has other bytes" in asyncio.run(blobs.compare(sha256))
    file.unlink()
    assert "is missing" in asyncio.run(blobs.compare(sha256))
    file.mkdir()
    assert "cannot be read" in asyncio.run(blobs.compare(sha256))
