"""Where the files of extractions are stored, and how the address in a row is opened.

| address                          | is                                                                     |
|----------------------------------|------------------------------------------------------------------------|
| `extractions/ab/abcd….pdf`       | a file of the lake (a folder or a bucket): what `save` returns         |
| `https://…`                      | fetched through the address guard                                      |
| `s3://bucket/path`               | an object of a bucket that `extractions.open` names, or of the lake's  |
| `file:///path`, `/path`          | a file below a folder that `extractions.open` names                    |
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tabellion.errors import ConfigurationError, Permanent
from tabellion.extractions.keys import OPEN
from tabellion.messages import Message, quote_value
from tabellion.net.fetching import FetchFailed, fetch
from tabellion.net.guard import Blocked, Rules
from tabellion.storage import files
from tabellion.storage.lake import Absent, Lake, check_path

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment

FOLDER = "extractions"  #: of the lake
SECONDS = 120.0  #: for one download
_ENDING = re.compile(r"\.[a-z0-9]{1,8}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class AddressRefused(Permanent):
    """The address in the row cannot be opened as things are configured."""


class FileMissing(Permanent):
    """The address in the row is right, and nothing is stored there."""


@dataclass(frozen=True)
class ExtractionFiles:
    """The files of one environment.

    >>> address = await stored.save(path)         # the worker that fetched it
    >>> path = await stored.download(address, job.folder)
    """

    lake: Lake
    rules: Rules = field(default_factory=Rules)
    opened: Sequence[str] = ()  #: folders and buckets that addresses may point into
    limit: int = 100_000_000  #: bytes of one file

    async def save(self, file: Path, name: str = "") -> str:
        """Stores a copy of a file by its content; its address for `storage_path`. The same file is stored once."""
        data = await files.in_thread(file.read_bytes)
        ending = Path(name or file.name).suffix.lower()
        sha256 = hashlib.sha256(data).hexdigest()
        address = f"{FOLDER}/{sha256[:2]}/{sha256}{ending if _ENDING.fullmatch(ending) else ''}"
        await self.lake.put(address, data)
        return address

    async def download(self, address: str, folder: Path) -> Path:
        """Copies the file at an address into a folder; where it is now.

        Raises AddressRefused or FileMissing where another try cannot help; what the network says otherwise.
        """
        address = address.strip()
        final = folder / f"original{_ending(address)}"
        scheme = _SCHEME.match(address)
        kind = scheme[1].lower() if scheme else ""
        if kind in ("http", "https"):
            await self._fetch(address, final)
        elif kind == "s3":
            bucket, path = self._object(address)
            await self._copy(bucket, path, final, address)
        elif kind == "file" or address.startswith("/"):
            await self._copy_local(Path(unquote(address.partition("://")[2]) if kind else address), final, address)
        elif kind:
            raise AddressRefused(Message("extraction.address_scheme", address=quote_value(_shown(address))))
        else:
            await self._copy(self.lake, address, final, address)
        return final

    async def _fetch(self, url: str, final: Path) -> None:
        try:
            async with fetch(url, self.rules, limit=self.limit, deadline=SECONDS) as found:
                with final.open("wb") as file:
                    async for chunk in found.chunks:
                        await files.in_thread(file.write, chunk)
        except Blocked as error:
            raise AddressRefused(Message("extraction.address_blocked", detail=error.reason)) from None
        except FetchFailed as error:
            if error.code == "too_large":
                raise AddressRefused(Message("extraction.too_large", limit=self.limit)) from None
            raise

    def _object(self, address: str) -> tuple[Lake, str]:
        """The bucket of an s3:// address and the path in it."""
        for root in (*self.opened, *(() if self.lake.is_local else (self.lake.url,))):
            start = f"{root.rstrip('/')}/"
            if root.startswith("s3://") and address.startswith(start):
                return (self.lake if root == self.lake.url else Lake(root)), address[len(start) :]
        raise AddressRefused(Message("extraction.bucket_closed", address=quote_value(_shown(address)), key=OPEN))

    async def _copy(self, lake: Lake, path: str, final: Path, address: str) -> None:
        try:
            check_path(path)
        except ValueError:
            raise AddressRefused(Message("extraction.address_invalid", address=quote_value(_shown(address)))) from None
        try:
            if (await lake.stat(path)).bytes > self.limit:
                raise AddressRefused(Message("extraction.too_large", limit=self.limit))
            data = await lake.get(path)
        except Absent:
            raise FileMissing(Message("extraction.file_missing", address=quote_value(_shown(address)))) from None
        await files.in_thread(final.write_bytes, data)

    async def _copy_local(self, path: Path, final: Path, address: str) -> None:
        # Resolved first: a link within an opened folder must not lead out of it.
        real = await files.in_thread(path.resolve)
        folders = [Path(one.removeprefix("file://")).resolve() for one in self.opened if not one.startswith("s3://")]
        if not any(real.is_relative_to(folder) for folder in folders):
            raise AddressRefused(Message("extraction.folder_closed", address=quote_value(_shown(address)), key=OPEN))
        if not real.is_file():
            raise FileMissing(Message("extraction.file_missing", address=quote_value(_shown(address))))
        if real.stat().st_size > self.limit:
            raise AddressRefused(Message("extraction.too_large", limit=self.limit))
        await files.in_thread(shutil.copyfile, real, final)


def files_of(config: Config, environment: Environment | None = None) -> ExtractionFiles:
    """The files of an environment (the first) as they are configured; each has a folder of its own in the lake."""
    below = environment.name if environment is not None and environment != config.environments[0] else None
    opened = config.section("extractions").get("open", [])
    for one in opened:
        if not isinstance(one, str) or not (one.startswith(("/", "file:///", "s3://", "."))):
            raise ConfigurationError(
                f'{OPEN}: {one!r} is neither a folder nor a bucket; write {OPEN} = ["/srv/scans", "s3://bucket"]'
            )
    return ExtractionFiles(
        Lake(f"{config.lake.rstrip('/')}/{below}" if below else config.lake), Rules.of(config.allow), tuple(opened),
        config.upload_bytes,
    )  # fmt: skip


def _ending(address: str) -> str:
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    ending = Path(path).suffix.lower()
    return ending if _ENDING.fullmatch(ending) else ""


def _shown(address: str) -> str:
    """An address without what may be a secret in it: signed URLs carry their key in the query."""
    return re.split(r"[?#]", address, maxsplit=1)[0][:300]
