"""Files are compared with their hashes."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from tabellion.storage.blobs import Blobs
from tabellion.storage.checking import check_blob, check_output
from tabellion.storage.lake import Lake


def test_a_file_and_its_hash(tmp_path: Path) -> None:
    """Whole, changed, missing, unreadable."""
    blobs, sha256 = Blobs(tmp_path), hashlib.sha256(b"content").hexdigest()
    file = blobs.path(sha256)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"content")
    assert asyncio.run(check_blob(blobs, sha256)) == ""
    file.write_bytes(b"contents")
    assert "has other bytes" in asyncio.run(check_blob(blobs, sha256))
    file.unlink()
    assert "is missing" in asyncio.run(check_blob(blobs, sha256))
    file.mkdir()
    assert "cannot be read" in asyncio.run(check_blob(blobs, sha256))


def test_an_output_and_its_hash(tmp_path: Path) -> None:
    """Whole, changed, missing."""
    lake = Lake(tmp_path)
    sha256 = asyncio.run(lake.put("a/b.json", b"{}"))
    assert asyncio.run(check_output(lake, "a/b.json", sha256)) == ""
    (tmp_path / "a" / "b.json").write_bytes(b"[]")
    assert "has other bytes" in asyncio.run(check_output(lake, "a/b.json", sha256))
    assert "is missing" in asyncio.run(check_output(lake, "a/c.json", sha256))
