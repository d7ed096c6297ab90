"""Stores the files of extractions, and opens the address in a row.

| address                          | is                                                                     |
|----------------------------------|------------------------------------------------------------------------|
| `extractions/ab/abcd….pdf`       | a file in the data lake (a folder or a bucket); `save` returns these   |
| `https://…`                      | fetched through the address guard                                      |
| `s3://bucket/path`               | an object in a bucket listed in `extractions.open`, or in the lake's   |
| `file:///path`, `/path`          | a file below a folder listed in `extractions.open`                     |
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

from tabellion.errors import ConfigurationError, Permanent, TabellionError
from tabellion.extractions.keys import OPEN
from tabellion.messages import Message, quote_value
from tabellion.net.fetching import FetchFailed, fetch
from tabellion.net.guard import Blocked, Rules
from tabellion.storage import files
from tabellion.storage.lake import Lake, NoSuchLakeFile, check_path

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment

FOLDER = "extractions"  #: of the lake
SECONDS = 120.0  #: for one download
_STORED = re.compile(FOLDER + r"/[0-9a-f]{2}/[0-9a-f]{64}(\.[a-z0-9]{1,8})?")  #: the addresses that `save` returns
_ENDING = re.compile(r"\.[a-z0-9]{1,8}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class AddressRefused(Permanent):
    """The configuration does not allow the address in the row to be opened."""


class DownloadFailed(TabellionError):  # noqa: N818 - what happened
    """The file could not be downloaded now; a later try may succeed."""


class FileMissing(Permanent):
    """The address in the row is valid, but nothing is stored there."""


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
    #: Where files are stored under their hash; one place for all environments, so that an address in a row stays valid
    #: when the order of the environments changes. None: the lake.
    shared: Lake | None = None

    async def save(self, file: Path, name: str = "") -> str:
        """Stores a copy of a file under its hash, so that equal files are stored once; returns its `storage_path`."""
        return (await self.save_new(file, name))[0]

    async def save_new(self, file: Path, name: str = "") -> tuple[str, bool]:
        """The same, and whether no such file was stored before."""
        data = await files.in_thread(file.read_bytes)
        ending = Path(name or file.name).suffix.lower()
        sha256 = hashlib.sha256(data).hexdigest()
        address = f"{FOLDER}/{sha256[:2]}/{sha256}{ending if _ENDING.fullmatch(ending) else ''}"
        lake = self.shared or self.lake
        is_new = not await lake.has(address)
        await lake.put(address, data)
        return address, is_new

    async def remove(self, address: str) -> None:
        """Removes a file that `save` stored; other rows must not have its address."""
        await (self.shared or self.lake).delete(address)

    async def download(self, address: str, folder: Path) -> Path:
        """Copies the file at an address into a folder, and returns its path there.

        Raises AddressRefused or FileMissing if a retry cannot help, and DownloadFailed if it may.
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
            raise AddressRefused(Message("extraction.address_scheme", address=quote_value(_strip_query(address))))
        else:
            lake = self.shared if self.shared is not None and _STORED.fullmatch(address) else self.lake
            await self._copy(lake, address, final, address)
        return final

    async def _fetch(self, url: str, final: Path) -> None:
        try:
            async with fetch(url, self.rules, limit=self.limit, deadline=SECONDS) as response:
                with final.open("wb") as file:
                    async for chunk in response.chunks:
                        await files.in_thread(file.write, chunk)
        except Blocked as error:
            raise AddressRefused(Message("extraction.address_blocked", detail=error.reason)) from None
        except FetchFailed as error:
            if error.code == "too_large":
                raise AddressRefused(Message("extraction.too_large", limit=self.limit)) from None
            message = Message("extraction.download_failed", address=quote_value(_strip_query(url)), detail=str(error))
            raise DownloadFailed(message) from None

    def _object(self, address: str) -> tuple[Lake, str]:
        """The bucket of an s3:// address and the path in it."""
        for root in (*self.opened, *(() if self.lake.is_local else (self.lake.url,))):
            start = f"{root.rstrip('/')}/"
            if root.startswith("s3://") and address.startswith(start):
                return (self.lake if root == self.lake.url else Lake(root)), address[len(start) :]
        raise AddressRefused(Message("extraction.bucket_closed", address=quote_value(_strip_query(address)), key=OPEN))

    async def _copy(self, lake: Lake, path: str, final: Path, address: str) -> None:
        try:
            check_path(path)
        except ValueError:
            raise AddressRefused(
                Message("extraction.address_invalid", address=quote_value(_strip_query(address)))
            ) from None
        try:
            if (await lake.stat(path)).bytes > self.limit:
                raise AddressRefused(Message("extraction.too_large", limit=self.limit))
            data = await lake.get(path)
        except NoSuchLakeFile:
            raise FileMissing(Message("extraction.file_missing", address=quote_value(_strip_query(address)))) from None
        await files.in_thread(final.write_bytes, data)

    async def _copy_local(self, path: Path, final: Path, address: str) -> None:
        # Resolve first: a link within an allowed folder must not lead out of it.
        real = await files.in_thread(path.resolve)
        folders = [Path(root.removeprefix("file://")).resolve() for root in self.opened if not root.startswith("s3://")]
        if not any(real.is_relative_to(folder) for folder in folders):
            raise AddressRefused(
                Message("extraction.folder_closed", address=quote_value(_strip_query(address)), key=OPEN)
            )
        if not real.is_file():
            raise FileMissing(Message("extraction.file_missing", address=quote_value(_strip_query(address))))
        if real.stat().st_size > self.limit:
            raise AddressRefused(Message("extraction.too_large", limit=self.limit))
        await files.in_thread(shutil.copyfile, real, final)


def files_of(config: Config, environment: Environment | None = None) -> ExtractionFiles:
    """The configured files of an environment (default: the first); the others have a folder each in the lake,
    but files that we store are all in one."""
    below = environment.name if environment is not None and environment != config.environments[0] else None
    opened = config.section("extractions").get("open", [])
    for root in opened:
        if not isinstance(root, str) or not (root.startswith(("/", "file:///", "s3://", "."))):
            raise ConfigurationError(
                f'{OPEN}: {root!r} is neither a folder nor a bucket; write {OPEN} = ["/srv/scans", "s3://bucket"]'
            )
    return ExtractionFiles(
        Lake(f"{config.lake.rstrip('/')}/{below}" if below else config.lake), Rules.of(config.allow), tuple(opened),
        config.upload_bytes, Lake(config.lake),
    )  # fmt: skip


def _ending(address: str) -> str:
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    ending = Path(path).suffix.lower()
    return ending if _ENDING.fullmatch(ending) else ""


def _strip_query(address: str) -> str:
    """The address without its query, which contains the key in signed URLs."""
    return re.split(r"[?#]", address, maxsplit=1)[0][:300]
