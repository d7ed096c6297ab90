"""Blobs in a bucket: stored there before they count, shared by machines, cached, checked, removed safely."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tabellion.storage import files
from tabellion.storage.blob_bucket import ARRIVED, BucketBlobs
from tabellion.storage.blob_cache import BlobCache
from tabellion.storage.blobs import BATCH, BlobDamaged, Blobs, BlobsUnavailable, StoredBlob
from tabellion.storage.bucket import PART, Bucket
from tabellion.storage.configured_blobs import open_blobs
from tests.engine.made_tables import asynchronous
from tests.faults.proxy import Proxy
from tests.storage.test_blobs import received

LIMIT = 10 << 20
ONE = hashlib.sha256(b"1").hexdigest()
FETCH = """
import asyncio, sys
from tabellion.storage.blob_bucket import BucketBlobs

async def main():
    blobs = BucketBlobs(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    for sha256 in sys.argv[4:]:
        async with blobs.open(sha256) as path:
            assert __import__("hashlib").sha256(path.read_bytes()).hexdigest() == sha256

asyncio.run(main())
"""


@pytest.fixture
def here(s3_url: str, tmp_path: Path) -> BucketBlobs:
    """The blobs on one machine."""
    return BucketBlobs(f"{s3_url}/blobs", tmp_path / "here", LIMIT)


@pytest.fixture
def there(s3_url: str, tmp_path: Path) -> BucketBlobs:
    """The same blobs on another machine."""
    return BucketBlobs(f"{s3_url}/blobs", tmp_path / "there", LIMIT)


def copies(blobs: BucketBlobs) -> list[str]:
    """Return the hashes of the cached copies."""
    return sorted(asyncio.run(blobs.list_cached()))


def load(blobs: Blobs, sha256: str) -> bytes:
    """Return a content."""
    return asyncio.run(blobs.load(sha256))


def objects(blobs: BucketBlobs) -> list[str]:
    """Return the paths of every object."""
    return sorted(entry.path for entry in asyncio.run(Bucket(blobs.url).list("")))


@pytest.mark.parametrize("size", [0, 1, BATCH + 1, 2 * PART + 7])
def test_a_file_is_read_on_another_machine(here: BucketBlobs, there: BucketBlobs, size: int) -> None:
    """Of any size, also one that is sent in several parts; under the path that a folder would give it."""
    content = os.urandom(size)
    blob = received(here, content)
    assert (blob.sha256, blob.bytes) == (hashlib.sha256(content).hexdigest(), size)
    assert objects(here) == [f"{blob.sha256[:2]}/{blob.sha256[2:4]}/{blob.sha256}"]
    assert load(there, blob.sha256) == content
    assert copies(there) == copies(here) == [blob.sha256]
    assert there.path(blob.sha256).stat().st_mode & 0o777 == 0o600


def test_a_folder_of_blobs_can_be_copied_into_the_bucket(here: BucketBlobs, tmp_path: Path) -> None:
    """An installation moves to a bucket with any tool that copies files."""
    folder = Blobs(tmp_path / "folder")
    blob = received(folder, b"older")

    async def copy() -> None:
        for path in folder.root.rglob("*"):
            if path.is_file():
                await Bucket(here.url).upload(path.relative_to(folder.root).as_posix(), path)

    asyncio.run(copy())
    assert load(here, blob.sha256) == b"older"


def test_a_file_that_the_bucket_does_not_take_is_not_stored(
    here: BucketBlobs, s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The sender learns it, nothing is left, and it succeeds once the bucket answers again."""
    proxy = Proxy(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    blobs = BucketBlobs(here.url, tmp_path / "cut", LIMIT)
    proxy.refuse()
    with pytest.raises(BlobsUnavailable):
        received(blobs, b"1")
    with pytest.raises(BlobsUnavailable):
        asyncio.run(blobs.has("0" * 64))
    with pytest.raises(BlobsUnavailable):
        load(blobs, "0" * 64)
    assert (copies(blobs), list(blobs.root.glob(".*.tmp")), asyncio.run(here.has(ONE))) == ([], [], False)
    with pytest.raises(Exception, match="s3://"):
        blobs.check()
    proxy.refuse(False)
    blobs.check()
    assert load(here, received(blobs, b"1").sha256) == b"1"


def test_a_cached_file_is_read_while_the_bucket_is_down(
    here: BucketBlobs, s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its copy has been checked."""
    proxy = Proxy(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    blobs = BucketBlobs(here.url, tmp_path / "cut", LIMIT)
    blob = received(blobs, b"1")
    proxy.refuse()
    assert load(blobs, blob.sha256) == b"1"


def test_a_missing_file_is_missing(here: BucketBlobs) -> None:
    """As in a folder: the path does not exist."""
    assert not asyncio.run(here.has("0" * 64))
    with pytest.raises(FileNotFoundError):
        load(here, "0" * 64)


def test_damaged_bytes_are_not_used(here: BucketBlobs, there: BucketBlobs) -> None:
    """What comes from the bucket is checked against its hash, and not cached if it differs."""
    blob = received(here, b"right")
    asyncio.run(Bucket(here.url).put(here.relative(blob.sha256), b"wrong", False))
    with pytest.raises(BlobDamaged):
        load(there, blob.sha256)
    assert copies(there) == []
    assert load(here, received(here, b"right").sha256) == b"right"  # sent again, it is repaired
    assert load(there, blob.sha256) == b"right"


def test_the_bucket_is_compared_not_the_copy(here: BucketBlobs, there: BucketBlobs) -> None:
    """Whole, set aside by a removal, changed, missing; nothing is cached or put back for it."""
    sha256 = received(here, b"right").sha256
    bucket = Bucket(here.url)
    path, aside = here.relative(sha256), f"aside/{sha256}/1"

    async def run() -> None:
        assert await here.compare(sha256) == await there.compare(sha256) == ""
        await bucket.copy(path, aside)
        await bucket.delete([path])
        assert await there.compare(sha256) == ""
        await bucket.put(path, b"wrong", False)
        assert "has other bytes" in await here.compare(sha256)
        await bucket.delete([path, aside])
        assert "is missing" in await here.compare(sha256)

    asyncio.run(run())
    assert (objects(here), copies(here), copies(there)) == ([], [sha256], [])


def test_a_file_that_is_still_needed_is_restored(here: BucketBlobs, there: BucketBlobs) -> None:
    """It is out of reach while that is checked; if the check fails it stays."""
    sha256 = received(here, b"1").sha256

    async def gone(answer: bool) -> bool:
        assert not await here.has(sha256)
        return answer

    async def broken() -> bool:
        raise OSError("no answer")

    async def came_again() -> bool:
        async with there.receive() as sink:
            await sink.write(b"1")
        return False

    async def run() -> None:
        assert not await here.remove(sha256, needed=lambda: gone(True))
        assert await here.has(sha256)
        with pytest.raises(OSError, match="no answer"):
            await here.remove(sha256, needed=broken)
        assert await here.has(sha256)
        assert await here.remove(sha256, needed=came_again)
        assert await here.has(sha256)
        assert not await here.remove(sha256, older=60)
        assert await here.remove(sha256, needed=lambda: gone(False))
        assert not await here.has(sha256)
        assert not await here.remove(sha256)

    asyncio.run(run())
    assert (objects(here), copies(here), copies(there)) == ([], [], [sha256])
    asyncio.run(there.forget(sha256))
    assert copies(there) == []


def test_a_file_set_aside_by_a_process_that_died_is_restored(here: BucketBlobs, there: BucketBlobs) -> None:
    """By the clean-up, or by who reads it first."""
    sha256 = received(here, b"1").sha256
    bucket = Bucket(here.url)

    async def die() -> None:
        await bucket.copy(here.relative(sha256), f"aside/{sha256}/1")
        await bucket.delete([here.relative(sha256)])

    async def run() -> None:
        await die()
        assert (await here.recover(), await here.has(sha256)) == (0, False)
        assert (await here.recover(older=0), await here.has(sha256)) == (1, True)
        await die()
        assert await there.load(sha256) == b"1"

    asyncio.run(run())
    assert objects(here) == [here.relative(sha256)]


@asynchronous
async def test_arrivals_are_known_until_they_were_examined(here: BucketBlobs) -> None:
    """The bucket is not listed for it; one that came again is examined again."""
    start = time.time() - 1
    async with here.receive() as sink:
        await sink.write(b"1")
    sha256 = sink.blob.sha256
    assert await here.list_arrivals(start, time.time() + 1) == [sha256]
    assert await here.list_arrivals(time.time() + 5, time.time() + 9) == []
    await here.clear_arrivals([sha256], start)  # it arrived later
    assert await here.list_arrivals(start, time.time() + 1) == [sha256]
    await here.clear_arrivals([sha256, "0" * 64], time.time() + 1)
    assert await here.list_arrivals(start, time.time() + 1) == []


def test_a_removal_that_the_bucket_refused_is_examined_again(
    here: BucketBlobs, s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its document is gone: nothing else would remove it."""
    proxy = Proxy(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    blobs = BucketBlobs(here.url, tmp_path / "cut", LIMIT)
    blob = received(here, b"1")
    proxy.refuse()
    with pytest.raises(BlobsUnavailable):
        asyncio.run(blobs.remove(blob.sha256))
    assert [path.name for path in (blobs.root / ARRIVED).iterdir()] == [blob.sha256]


def test_processes_share_one_cache(here: BucketBlobs, tmp_path: Path) -> None:
    """Four of them read the same files with room for two: each reads the right bytes, and the limit holds."""
    size = 100_000
    blobs = [received(here, os.urandom(size)) for _ in range(6)]
    cache = tmp_path / "shared"
    arguments = [here.url, str(cache), str(int(2.5 * size)), *(blob.sha256 for blob in blobs * 3)]
    processes = [subprocess.Popen([sys.executable, "-c", FETCH, *arguments]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    shared = BucketBlobs(here.url, cache, LIMIT)
    assert 1 <= len(copies(shared)) <= 2
    assert list(cache.glob(".*.tmp")) == []


def test_many_readers_fetch_a_file_once(here: BucketBlobs, there: BucketBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thumbnails of a document all need it at the same moment."""
    blob: StoredBlob = received(here, b"1")
    fetched = []
    download = Bucket._download

    def count(bucket: Bucket, path: str, write: object) -> None:
        fetched.append(path)
        download(bucket, path, write)  # type: ignore[arg-type]

    monkeypatch.setattr(Bucket, "_download", count)

    async def run() -> list[bytes]:
        return await asyncio.gather(*(there.load(blob.sha256) for _ in range(20)))

    assert asyncio.run(run()) == [b"1"] * 20
    assert len(fetched) == 1


@pytest.mark.parametrize("place", ["hold", "add", "discard"])
def test_a_reader_that_is_cancelled_leaves_no_handle(
    here: BucketBlobs, there: BucketBlobs, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Wherever it was: its copy can be removed afterwards."""
    sha256 = received(here, b"content").sha256
    if place == "hold":
        load(there, sha256)
    owner: type = files.StagedFile if place == "discard" else BlobCache
    original, reached, go_on = getattr(owner, place), threading.Event(), threading.Event()

    def slow(self: Any, *values: Any) -> Any:
        result = original(self, *values)
        if place != "hold" or result is not None:
            reached.set()
            go_on.wait(30)
        return result

    monkeypatch.setattr(owner, place, slow)

    async def read() -> None:
        async with there.open(sha256):
            pass

    async def run() -> None:
        task = asyncio.create_task(read())
        while not reached.is_set() and not task.done():
            await asyncio.sleep(0.001)
        task.cancel()
        go_on.set()
        await asyncio.wait([task])

    asyncio.run(run())
    asyncio.run(there.forget(sha256))
    assert copies(there) == []


def test_a_cache_may_be_emptied(here: BucketBlobs, there: BucketBlobs) -> None:
    """Running processes fetch and store into it as before."""
    blob = received(here, b"content")
    assert load(there, blob.sha256) == b"content"
    for blobs in (here, there):
        shutil.rmtree(blobs.root)
    assert load(there, blob.sha256) == b"content"
    assert received(here, b"more").path.read_bytes() == b"more"
    assert copies(there) == [blob.sha256]


def test_the_configuration_chooses(s3_url: str, tmp_path: Path) -> None:
    """A folder below the data folder by default, another folder, or a bucket with a cache in the data folder."""
    assert open_blobs("", tmp_path, "blobs", 1).root == tmp_path / "blobs"
    assert open_blobs(str(tmp_path / "files"), tmp_path, "dev/blobs", 1).root == tmp_path / "files" / "dev" / "blobs"
    shared = open_blobs(f"{s3_url}/", tmp_path, "blobs", 1)
    assert isinstance(shared, BucketBlobs)
    assert (shared.url, shared.root) == (f"{s3_url}/blobs", tmp_path / "cache" / "blobs")
