"""Files in a bucket of S3, or of a server with the same protocol."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore import exceptions
from obstore.store import S3Store

from tabellion.engine.failpoints import failpoint
from tabellion.errors import ConfigurationError
from tabellion.messages import Message
from tabellion.storage import files
from tabellion.storage.lake_backend import (
    LakeEntries,
    LakeEntry,
    LakeError,
    LakeFileExists,
    LakeFileTooLarge,
    NoSuchBucket,
    NoSuchLakeFile,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode

TIMEOUT = timedelta(seconds=60)  #: of one request
QUICK = timedelta(seconds=10)  #: of one that moves little: somebody often waits for its answer, and it is tried again
LITTLE, FEW = 4 << 20, 10  #: bytes that are written, and files that are removed, by such a request
#: Few: the engine retries the job; these only cover a lost connection.
RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}
PROBE = "tabellion-probe"  #: the file that is requested to see whether the bucket answers
PART = 8 << 20  #: bytes of one request of a large file
DELETES = 1000  #: per request, the limit of S3
#: Not obstore's own async calls: their threads use Python while it shuts down, which sometimes aborts the process.
in_thread = files.Threads(32, "tabellion-bucket")


class Bucket:
    """A bucket, or a prefix of it; S3 itself writes objects atomically."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        allow_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
        client = {"timeout": TIMEOUT, "allow_http": allow_http, **options.pop("client_options", {})}
        quick = client | {"timeout": min(QUICK, client["timeout"])}
        try:
            self._store = S3Store.from_url(url, client_options=client, retry_config=RETRIES, **options)  # type: ignore[arg-type]
            self._quick = S3Store.from_url(url, client_options=quick, retry_config=RETRIES, **options)  # type: ignore[arg-type]
        except exceptions.BaseError as error:
            raise ConfigurationError(f"{url} is not a valid address of a bucket: {error}") from error

    async def put(self, path: str, data: bytes, create: bool) -> None:
        """Writes a file in one request."""
        await in_thread(self._put, path, data, create)

    async def put_file(self, path: str, file: Path, create: bool) -> None:
        """Uploads a staged file and removes it."""
        try:
            await in_thread(self._put, path, file, create)
        finally:
            file.unlink(missing_ok=True)

    async def upload(self, path: str, file: Path) -> None:
        """Writes a copy of a local file, in several requests if it is large."""
        await in_thread(self._upload, path, file)

    async def download(self, path: str, write: Callable[[bytes], None]) -> None:
        """Passes the content of a file to `write`, piece by piece."""
        await in_thread(self._download, path, write)

    async def copy(self, path: str, target: str) -> None:
        """Copies a file within the bucket."""
        await in_thread(self._copy, path, target)

    async def get(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file."""
        return await in_thread(self._get, path, limit)

    async def stat(self, path: str) -> LakeEntry:
        """A file's entry."""
        return await in_thread(self._stat, path)

    async def list(self, prefix: str) -> list[LakeEntry]:
        """The entries below a prefix."""
        return await in_thread(self._list, prefix)

    async def delete(self, paths: Sequence[str]) -> int:
        """Removes files, a thousand per request."""
        await in_thread(self._delete, paths)
        return len(paths)

    async def delete_exact(self, path: str, sha256: str) -> bool:
        """Compares the content, then removes the file: not every server can do both in one request."""
        return await in_thread(self._delete_exact, path, sha256)

    def staging_folder(self) -> Path:
        """The machine's folder for temporary files."""
        return Path(tempfile.gettempdir())

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Does nothing: a bucket has no lock."""
        yield

    async def sweep_temps(self, older: float) -> int:
        """Does nothing: an interrupted upload leaves no file."""
        return 0

    def check(self) -> None:
        """Requests a file that does not exist, and writes one only if the request fails: frequent writes would fill a
        bucket that keeps versions."""
        try:
            with self._translate_errors(PROBE):
                obstore.get(self._quick, PROBE)  # unlike HEAD, its answer says whether the file or the bucket is absent
        except NoSuchLakeFile:
            return
        except NoSuchBucket:
            raise
        except LakeError:
            self._put(PROBE, b"?", False)

    def _put(self, path: str, data: bytes | Path, create: bool) -> None:
        mode: PutMode = "create" if create else "overwrite"
        with self._translate_errors(path):
            failpoint("put.pre_rename")
            obstore.put(self._store_for(data), path, data, mode=mode, use_multipart=False)
            failpoint("put.post_rename")

    def _store_for(self, data: bytes | Path) -> S3Store:
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        return self._quick if size <= LITTLE else self._store

    def _upload(self, path: str, file: Path) -> None:
        with self._translate_errors(path):
            failpoint("put.pre_rename")
            obstore.put(self._store_for(file), path, file, mode="overwrite", chunk_size=PART)
            failpoint("put.post_rename")

    def _download(self, path: str, write: Callable[[bytes], None]) -> None:
        with self._translate_errors(path):
            for piece in obstore.get(self._store, path).stream(min_chunk_size=PART):
                write(bytes(piece))

    def _copy(self, path: str, target: str) -> None:
        with self._translate_errors(path):
            obstore.copy(self._store, path, target)

    def _get(self, path: str, limit: int | None = None) -> bytes:
        with self._translate_errors(path):
            found = obstore.get(self._store, path)
            if limit is not None and found.meta["size"] > limit:
                raise LakeFileTooLarge(Message("storage.too_large", path=f"{self.url.rstrip('/')}/{path}", n=limit))
            return bytes(found.bytes())

    def _stat(self, path: str) -> LakeEntry:
        with self._translate_errors(path):
            return _entry(obstore.head(self._quick, path))

    def _list(self, prefix: str) -> LakeEntries:
        with self._translate_errors(prefix):
            return [_entry(meta) for batch in obstore.list(self._quick, prefix or None) for meta in batch]

    def _delete(self, paths: Sequence[str]) -> None:
        store = self._quick if len(paths) <= FEW else self._store
        for start in range(0, len(paths), DELETES):
            with self._translate_errors(paths[start]):
                obstore.delete(store, paths[start : start + DELETES])

    def _delete_exact(self, path: str, sha256: str) -> bool:
        try:
            data = self._get(path)
        except NoSuchLakeFile:
            return False
        if hashlib.sha256(data).hexdigest() != sha256:
            return False
        failpoint("compact.mid_remove")
        self._delete([path])
        return True

    @contextlib.contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        where = f"{self.url.rstrip('/')}/{path}"
        try:
            yield
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            if "<Code>NoSuchBucket</Code>" in str(error):
                raise NoSuchBucket(Message("storage.no_bucket", path=where)) from error
            raise NoSuchLakeFile(Message("storage.absent", path=where)) from error
        except exceptions.AlreadyExistsError as error:
            raise LakeFileExists(Message("storage.exists", path=where)) from error
        except (exceptions.BaseError, OSError) as error:
            first_line = str(error).strip().partition("\n")[0][:300] or type(error).__name__
            raise LakeError(f"{where}: {first_line}") from error


def _entry(meta: ObjectMeta) -> LakeEntry:
    return LakeEntry(meta["path"], meta["size"], meta["last_modified"].timestamp(), meta["e_tag"] or "")
