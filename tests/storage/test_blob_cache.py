"""The cache of blobs: bounded, the least recently used go first, and nothing that is being read goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tabellion.storage import blob_cache, files
from tabellion.storage.blob_cache import BlobCache


def add(cache: BlobCache, name: str, size: int, age: float = 0.0) -> Path:
    """Add a copy, last used so many seconds ago; nobody reads it."""
    staged = files.StagedFile(cache.root, cache.root)
    staged.write(b"x" * size)
    path = cache.root / name[:2] / name
    handle = cache.add(staged, path, size)
    assert path.stat().st_size == size
    os.utime(path, (time.time() - age, time.time() - age))
    os.close(handle)
    return path


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    """As many as make room to spare, with the files beside them."""
    cache = BlobCache(tmp_path, 100)
    one, two, three = (add(cache, name, 30, age) for name, age in (("aa1", 90), ("aa2", 70), ("aa3", 80)))
    beside = one.with_name("aa1.auto-1.words")
    beside.write_bytes(b"w" * 5)
    handle = cache.hold(two)
    assert handle is not None
    os.close(handle)
    four = add(cache, "bb4", 30)  # two was used just now
    assert [path.exists() for path in (one, beside, two, three, four)] == [False, False, True, False, True]


def test_what_is_being_read_stays(tmp_path: Path) -> None:
    """Even beyond the limit, also one that alone exceeds it; it may go when its reader has ended."""
    cache = BlobCache(tmp_path, 50)
    path = add(cache, "aa1", 60, 90)
    handle = cache.hold(path)
    assert handle is not None
    os.utime(path, (time.time() - 90, time.time() - 90))
    second = add(cache, "aa2", 40, 80)
    assert (path.exists(), second.exists()) == (True, True)
    assert not cache.remove(path)
    os.close(handle)
    third = add(cache, "aa3", 40)
    assert (path.exists(), second.exists(), third.exists()) == (False, False, True)


def test_bytes_are_counted_by_all_processes_together(tmp_path: Path) -> None:
    """Another cache object of the same folder continues the count; a lost count is measured again."""
    add(BlobCache(tmp_path, 100), "aa1", 60, 90)
    other = BlobCache(tmp_path, 100)
    path = add(other, "aa2", 60, 80)
    assert [one.name for one in other.paths()] == [path.name]
    (tmp_path / ".size").write_bytes(b"nonsense")
    add(other, "aa3", 30, 70)
    add(other, "aa4", 90)
    assert [one.name for one in other.paths()] == ["aa4"]


def test_a_copy_that_does_not_exist_is_not_held(tmp_path: Path) -> None:
    """Its absence is an answer, not an error."""
    cache = BlobCache(tmp_path, 100)
    assert cache.hold(tmp_path / "aa" / "aa1") is None
    assert not cache.remove(tmp_path / "aa" / "aa1")


def test_unused_copies_do_not_stay_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their documents may have been deleted on another machine; a process looks for them once an hour."""
    cache = BlobCache(tmp_path, 1000)
    old = add(cache, "aa1", 10, blob_cache.UNUSED + 60)
    recent = add(cache, "aa2", 10, blob_cache.UNUSED - 60)
    assert (old.exists(), recent.exists()) == (True, True)
    monkeypatch.setattr(blob_cache, "BETWEEN", 0.0)
    add(cache, "aa3", 10)
    assert (old.exists(), recent.exists()) == (False, True)
