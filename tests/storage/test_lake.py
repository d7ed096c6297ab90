"""The lake: the same promises in a folder and in a bucket."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tabellion.engine import failpoints
from tabellion.errors import ConfigurationError, Unreachable
from tabellion.storage import bucket, files, folder
from tabellion.storage.lake import Lake, LakeError, LakeFileExists, NoSuchLakeFile, check_path
from tests.bucket import BUCKET, VARIABLES
from tests.servers import free_port

ROOT = Path(__file__).parents[3]
PUT = """
import asyncio, sys
from tabellion.storage import folder
from tabellion.storage.lake import Lake
asyncio.run(Lake(sys.argv[1]).put("json/2024/a.json", b"new" * 1000000))
"""


def run(do: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await do()

    asyncio.run(go())


def test_a_file_is_stored_with_its_hash(lake: Lake) -> None:
    """Overwriting, listed by path, and gone when deleted."""

    async def do() -> None:
        for path, data in (("json/b.json", b"old"), ("json/b.json", b"new"), ("json/a/c.json", b""), ("other", b"x")):
            assert await lake.put(path, data) == hashlib.sha256(data).hexdigest()
        assert await lake.get("json/b.json") == b"new"
        assert await lake.get("json/a/c.json") == b""
        assert [(entry.path, entry.bytes) for entry in await lake.list()] == [
            ("json/a/c.json", 0), ("json/b.json", 3), ("other", 1),
        ]  # fmt: skip
        assert [entry.path for entry in await lake.list("json/")] == ["json/a/c.json", "json/b.json"]
        assert await lake.list("nowhere") == []
        assert (await lake.stat("json/b.json")).bytes == 3
        await lake.delete("json/b.json", "json/never.json")
        assert not await lake.has("json/b.json")
        assert await lake.has("other")
        for missing in (lake.get("json/b.json"), lake.stat("json/b.json"), lake.get("json")):
            with pytest.raises(NoSuchLakeFile):
                await missing

    run(do)


def test_one_of_many_concurrent_writers_creates_a_new_file(lake: Lake) -> None:
    """The others are told that it exists; it stays as it is."""

    async def do() -> None:
        answers = await asyncio.gather(
            *(lake.put("a", str(number).encode(), create=True) for number in range(8)), return_exceptions=True
        )
        assert sum(isinstance(answer, LakeFileExists) for answer in answers) == 7
        [hashes] = [answer for answer in answers if isinstance(answer, str)]
        assert hashlib.sha256(await lake.get("a")).hexdigest() == hashes

    run(do)


def test_a_staged_file_is_moved_in(lake: Lake) -> None:
    """Over an existing one, or as a new one; the staged file is gone either way."""

    def staged(data: bytes) -> Path:
        path = lake.staging_folder() / f".test-{os.getpid()}.tmp"
        path.write_bytes(data)
        return path

    async def do() -> None:
        await lake.put_file("a", staged(b"1"), create=True)
        with pytest.raises(LakeFileExists):
            await lake.put_file("a", staged(b"2"), create=True)
        assert not (lake.staging_folder() / f".test-{os.getpid()}.tmp").exists()
        assert await lake.get("a") == b"1"
        first = await lake.stat("a")
        await lake.put_file("a", staged(b"3"))
        assert await lake.get("a") == b"3"
        assert (await lake.stat("a")).tag != first.tag

    run(do)


def test_a_file_is_removed_only_with_the_expected_content(lake: Lake) -> None:
    """A newer one stays."""

    async def do() -> None:
        old = await lake.put("a/b", b"old")
        await lake.put("a/b", b"new")
        async with lake.lock():
            assert not await lake.delete_exact("a/b", old)
            assert await lake.get("a/b") == b"new"
            assert await lake.delete_exact("a/b", hashlib.sha256(b"new").hexdigest())
            assert not await lake.delete_exact("a/b", old)
        assert await lake.list() == []

    run(do)


def test_an_interrupted_removal_is_undone_by_the_next_holder(tmp_path: Path) -> None:
    """The file that was moved away is restored, unless a newer one has its name."""
    lake = Lake(tmp_path)

    async def do() -> None:
        for path in ("a", "b"):
            failpoints.arm("compact.mid_remove:raise")
            sha256 = await lake.put(path, b"content")
            async with lake.lock():
                with pytest.raises(Unreachable):
                    await lake.delete_exact(path, sha256)
            assert not await lake.has(path)
        await lake.put("b", b"newer")
        async with lake.lock():
            assert await lake.get("a") == b"content"
            assert await lake.get("b") == b"newer"
        assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".lock", "a", "b"]

    try:
        run(do)
    finally:
        failpoints.arm("")


def test_the_lock_has_one_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second retries until the first has released it."""
    looks: list[bool] = []
    real = files.try_lock

    def look(handle: int) -> bool:
        looks.append(real(handle))
        return looks[-1]

    monkeypatch.setattr(files, "try_lock", look)
    monkeypatch.setattr(folder, "PATIENCE", 0)

    async def do() -> None:
        order = []

        async def second() -> None:
            async with Lake(tmp_path).lock():
                order.append("second")

        async with Lake(tmp_path).lock():
            task = asyncio.create_task(second())
            while looks.count(False) < 2:
                await asyncio.sleep(0)
            order.append("first")
        await task
        assert order == ["first", "second"]

    run(do)


@pytest.mark.parametrize("place", ["put.mid_write", "put.pre_rename", "put.post_rename"])
def test_kill_9_during_a_put_leaves_the_old_or_the_new(tmp_path: Path, place: str) -> None:
    """In a folder."""
    lake = Lake(tmp_path)
    asyncio.run(lake.put("json/2024/a.json", b"old"))
    _killed(str(tmp_path), place)
    [entry] = asyncio.run(lake.list())
    assert asyncio.run(lake.get(entry.path)) == (b"new" * 1000000 if place == "put.post_rename" else b"old")
    assert asyncio.run(lake.sweep_temps(older=0)) == (0 if place == "put.post_rename" else 1)


@pytest.mark.parametrize("place", ["put.pre_rename", "put.post_rename"])
def test_kill_9_during_a_put_to_s3_leaves_the_old_or_the_new(s3_url: str, place: str) -> None:
    """In a bucket."""
    lake = Lake(s3_url)
    asyncio.run(lake.put("json/2024/a.json", b"old"))
    _killed(s3_url, place)
    [entry] = asyncio.run(lake.list())
    assert asyncio.run(lake.get(entry.path)) == (b"new" * 1000000 if place == "put.post_rename" else b"old")


def _killed(url: str, place: str) -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "TABELLION_FAILPOINTS": f"{place}:kill"}
    done = subprocess.run([sys.executable, "-c", PUT, url], env=environment)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", ".hidden", "a/.tmp", "a\\b", "a\0b", "a\nb",
     "x" * 201, "/".join(["x" * 100] * 10), "a/\ud800"],
)  # fmt: skip
def test_no_path_leads_out_of_the_lake(tmp_path: Path, path: str) -> None:
    """Nor to a name reserved for temporary files."""
    with pytest.raises(ValueError, match="is not a valid lake path"):
        check_path(path)
    with pytest.raises(ValueError, match="is not a valid lake path"):
        asyncio.run(Lake(tmp_path / "lake").put(path, b""))
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_lake_is_reported(tmp_path: Path) -> None:
    """Another scheme is a configuration error; a bucket that does not answer is reported with its address."""
    with pytest.raises(ConfigurationError, match="ftp://x is neither"):
        Lake("ftp://x")
    asyncio.run(Lake(f"file://{tmp_path}").put("a", b"1"))
    assert (tmp_path / "a").exists()
    nowhere = Lake(
        "s3://bkt/prefix", config={"endpoint": "http://127.0.0.1:1", "access_key_id": "a", "secret_access_key": "b"},
        client_options={"allow_http": True},
    )  # fmt: skip
    with pytest.raises(LakeError, match="s3://bkt/prefix/a: "):
        asyncio.run(nowhere.put("a", b"1"))


def test_a_lake_reports_whether_it_is_writable(lake: Lake) -> None:
    """And leaves nothing when it is."""
    lake.check()
    assert asyncio.run(lake.list()) == []


def test_an_unreachable_lake_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that nobody serves, and a missing folder."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LakeError):
        Lake(f"s3://{BUCKET}/x").check()
    (tmp_path / "lake").touch()
    with pytest.raises(files.Unwritable):
        Lake(tmp_path / "lake").check()


def test_small_requests_end_soon_while_the_bucket_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody waits for their answer: only those that move much may take longer."""
    monkeypatch.setattr(bucket, "QUICK", timedelta(seconds=0.1))
    (tmp_path / "small").write_bytes(b"1")

    async def run() -> None:
        for request in (
            hanging.put("a", b"1", False), hanging.upload("a", tmp_path / "small"), hanging.stat("a"), hanging.list(""),
            hanging.delete(["a", "b"]),
        ):  # fmt: skip
            with pytest.raises(LakeError):
                await asyncio.wait_for(request, 30)

    with socket.create_server(("127.0.0.1", 0)) as server:
        config = {
            "endpoint": f"http://127.0.0.1:{server.getsockname()[1]}",
            "access_key_id": "a",
            "secret_access_key": "b",
        }
        hanging = bucket.Bucket("s3://bkt/x", config=config, client_options={"allow_http": True})
        asyncio.run(run())
