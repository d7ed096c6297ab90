"""Compares stored files with the hashes that rows have of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tabellion.storage import files
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Absent, Lake

CHUNK = 1 << 20  #: bytes read at once


async def check_blob(blobs: Blobs, sha256: str) -> str:
    """What is wrong with a file of this content; empty if nothing is."""
    async with blobs.open(sha256) as path:
        return await files.in_thread(_check_blob, path, sha256)


def _check_blob(path: Path, sha256: str) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return "" if digest.hexdigest() == sha256 else f"{path} has other bytes than its hash"


async def check_output(lake: Lake, path: str, sha256: str | None) -> str:
    """What is wrong with a file of the lake; empty if nothing is."""
    try:
        content = await lake.get(path)
    except Absent:
        return f"{path} is missing in the lake"
    return "" if hashlib.sha256(content).hexdigest() == sha256 else f"{path} has other bytes than its hash"
