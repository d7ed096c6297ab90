"""Outputs are compared with their hashes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabellion.storage.checking import check_output
from tabellion.storage.lake import Lake


def test_an_output_and_its_hash(tmp_path: Path) -> None:
    """Whole, changed, missing."""
    lake = Lake(tmp_path)
    sha256 = asyncio.run(lake.put("a/b.json", b"{}"))
    assert asyncio.run(check_output(lake, "a/b.json", sha256)) == ""
    (tmp_path / "a" / "b.json").write_bytes(b"[]")
    assert "has other bytes" in asyncio.run(check_output(lake, "a/b.json", sha256))
    assert "is missing" in asyncio.run(check_output(lake, "a/c.json", sha256))
