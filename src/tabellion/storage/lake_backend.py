"""The interface between the lake and where its files are: a local folder or a bucket."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tabellion.errors import TabellionError


class LakeError(TabellionError):
    """The lake refused, or did not answer."""


class NoSuchBucket(LakeError):  # noqa: N818 - a state, not a failure
    """There is no such bucket."""


class NoSuchLakeFile(LakeError):  # noqa: N818 - a state, not a failure
    """There is no such file."""


class LakeFileExists(LakeError):  # noqa: N818 - a state, not a failure
    """There is such a file already, and only a new one was to be made."""


class LakeFileTooLarge(LakeError):  # noqa: N818 - what it is
    """The file has more bytes than its reader accepts."""


@dataclass(frozen=True, slots=True)
class LakeEntry:
    """One file of the lake."""

    path: str
    bytes: int
    modified_at: float  #: seconds since 1970, by the clock of the storage
    tag: str  #: changes whenever the file is written


LakeEntries = list[LakeEntry]  #: for classes with a method named `list`


class LakeBackend(Protocol):
    """A storage of files: a local folder or a bucket."""

    async def put(self, path: str, data: bytes, create: bool) -> None:
        """Writes a file atomically; `create` does not replace an existing one."""

    async def put_file(self, path: str, file: Path, create: bool) -> None:
        """Moves a staged file in."""

    async def get(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file; raises LakeFileTooLarge, before it is read, if it has more bytes than this."""

    async def stat(self, path: str) -> LakeEntry:
        """A file's entry."""

    async def list(self, prefix: str) -> list[LakeEntry]:
        """The entries below a folder."""

    async def delete(self, paths: Sequence[str]) -> int:
        """Removes files; returns how many existed, as far as the storage says."""

    async def delete_exact(self, path: str, sha256: str) -> bool:
        """Removes a file if it has this content; returns whether it did."""

    def staging_folder(self) -> Path:
        """A folder for staged files."""

    def lock(self) -> contextlib.AbstractAsyncContextManager[None]:
        """A lock for merging files and removing the originals."""

    async def sweep_temps(self, older: float) -> int:
        """Removes temporary files that a crash left."""

    def check(self) -> None:
        """Raises if files cannot be written now; blocks."""
