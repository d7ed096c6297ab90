"""The lake: result files in a local folder or a bucket, each written atomically."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tabellion import extras
from tabellion.errors import ConfigurationError
from tabellion.storage import files
from tabellion.storage.folder import Folder
from tabellion.storage.lake_backend import (
    LakeBackend,
    LakeEntry,
    LakeError,
    LakeFileExists,
    LakeFileTooLarge,
    NoSuchLakeFile,
)

__all__ = ["Lake", "LakeEntry", "LakeError", "LakeFileExists", "LakeFileTooLarge", "NoSuchLakeFile", "check_path"]

LONGEST_PART, LONGEST_PATH = 200, 900  #: bytes; file systems allow 255, S3 1,024 with the prefix
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Lake:
    """A folder or `s3://bucket/prefix`, with the same promises for both: writes are atomic and durable.

    >>> lake = Lake("tabellion-data")
    >>> await lake.put("json/2024/02/29/01.json", b"{}")
    '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'

    S3 takes its key, region and endpoint from the usual variables (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …); options
    are those of obstore's `S3Store`.
    """

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        self.url = os.fspath(url)
        self._backend: LakeBackend
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", self.url) and not self.url.startswith("file://"):
            if not self.url.startswith("s3://"):
                raise ConfigurationError(f"a lake must be a folder or s3://bucket/prefix; {self.url} is neither")
            with extras.explain_missing():
                from tabellion.storage.bucket import Bucket
            self._backend = Bucket(self.url, **options)
        else:
            self._backend = Folder(Path(self.url.removeprefix("file://")))

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine."""
        return not self.url.startswith("s3://")

    async def put(self, path: str, data: bytes, *, create: bool = False) -> str:
        """Writes a file atomically, returns its SHA-256; `create` raises LakeFileExists instead of replacing one."""
        await self._backend.put(check_path(path), data, create)
        return hashlib.sha256(data).hexdigest()

    async def put_file(self, path: str, file: Path, *, create: bool = False) -> None:
        """Moves a staged file in; with `create` it raises LakeFileExists instead of replacing one."""
        await self._backend.put_file(check_path(path), file, create)

    async def get(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file; raises NoSuchLakeFile, and LakeFileTooLarge if it has more than `limit` bytes."""
        return await self._backend.get(check_path(path), limit)

    async def stat(self, path: str) -> LakeEntry:
        """A file's entry; raises NoSuchLakeFile."""
        return await self._backend.stat(check_path(path))

    async def has(self, path: str) -> bool:
        """Whether the file exists."""
        try:
            await self._backend.stat(check_path(path))
        except NoSuchLakeFile:
            return False
        return True

    async def list(self, prefix: str = "") -> list[LakeEntry]:
        """Every file below a folder, by path."""
        found = await self._backend.list(check_path(prefix.rstrip("/")) if prefix.strip("/") else "")
        return sorted(found, key=lambda entry: entry.path)

    async def delete(self, *paths: str) -> int:
        """Removes files, ignoring missing ones; returns how many existed (S3 does not say: all of them)."""
        return await self._backend.delete([check_path(path) for path in paths]) if paths else 0

    async def delete_exact(self, path: str, sha256: str) -> bool:
        """Removes a file if it still has this content; returns whether it did. Only within `lock`."""
        return await self._backend.delete_exact(check_path(path), sha256)

    def staging_folder(self) -> Path:
        """A folder for files that `put_file` moves in; name them .*.tmp."""
        return self._backend.staging_folder()

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Serializes merging files and removing the originals; a bucket has no lock, its callers must cope."""
        async with self._backend.lock():
            yield

    async def sweep_temps(self, older: float = files.STALE) -> int:
        """Removes temporary files of writers that died; returns how many."""
        return await self._backend.sweep_temps(older)

    def check(self) -> None:
        """Raises if files cannot be written now. It blocks, for long if a bucket does not answer: run it in a thread
        that nothing waits for."""
        self._backend.check()


def check_path(path: str) -> str:
    """The path if it stays in the lake on any file system; else ValueError."""
    parts = path.split("/")
    if (
        not path
        or len(path.encode("utf-8", "replace")) > LONGEST_PATH
        or "\\" in path
        or _CONTROL.search(path)
        or any(part in ("", ".", "..") or part.startswith(".") for part in parts)
        or any(len(part.encode("utf-8", "replace")) > LONGEST_PART for part in parts)
        or any("\ud800" <= sign <= "\udfff" for sign in path)
    ):
        raise ValueError(
            f"{path[:100]!r} is not a valid lake path: parts separated by /, none empty or starting with a dot"
        )
    return path
