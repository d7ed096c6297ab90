"""Compares outputs with the hashes that rows have of them."""

from __future__ import annotations

import hashlib

from tabellion.storage.lake import Lake, NoSuchLakeFile


async def check_output(lake: Lake, path: str, sha256: str | None) -> str:
    """What is wrong with a file of the lake; empty if nothing is."""
    try:
        content = await lake.get(path)
    except NoSuchLakeFile:
        return f"{path} is missing in the lake"
    return "" if hashlib.sha256(content).hexdigest() == sha256 else f"{path} has other bytes than its hash"
