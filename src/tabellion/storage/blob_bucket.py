"""Received files in a bucket, so that several machines share them; each has a cache of copies."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from tabellion.storage import files
from tabellion.storage.blob_cache import BlobCache, release
from tabellion.storage.blobs import RECOVERY, SHA256, BlobDamaged, Blobs, BlobsUnavailable, Needed
from tabellion.storage.bucket import Bucket
from tabellion.storage.lake_backend import LakeError, NoSuchLakeFile

ASIDE = "aside"  #: where an object is copied until it is known whether it is needed
ARRIVED = ".arrived"  #: an empty file for each content that came here, so that clean-ups need not list the bucket


class BucketBlobs(Blobs):
    """Files by content in a bucket: `ab/cd/abcd…`, as in a folder of blobs; `root` has the copies of this machine.

    A file is in the bucket before it counts as stored. What is fetched is checked against its hash.
    """

    def __init__(self, url: str, cache: str | os.PathLike[str], limit: int) -> None:
        super().__init__(cache)
        self.url = url
        self._bucket = Bucket(url)
        self._cache = BlobCache(self.root, limit)

    @contextlib.asynccontextmanager
    async def open(self, sha256: str) -> AsyncIterator[Path]:
        """The path of a copy, which stays during the block; it does not exist if the content is not stored."""
        path = self.path(sha256)
        handle = await self._hold(sha256, path)
        try:
            yield path
        finally:
            release(handle)

    async def has(self, sha256: str) -> bool:
        """Whether the bucket has this content; a copy of a deleted one does not count."""
        with _translate_errors():
            try:
                await self._bucket.stat(self.relative(sha256))
            except NoSuchLakeFile:
                return False
        return True

    async def compare(self, sha256: str) -> str:
        """Reads the object in the bucket, or the one that a removal has put aside; the cache is neither read nor
        filled."""
        path = self.relative(sha256)
        with _translate_errors():
            try:
                return await self._compare_object(path, sha256)
            except NoSuchLakeFile:
                for entry in await self._bucket.list(f"{ASIDE}/{sha256}"):
                    with contextlib.suppress(NoSuchLakeFile):
                        return await self._compare_object(entry.path, sha256)
        return f"{self.url}/{path} is missing"

    async def store(self, staged: files.StagedFile, sha256: str, size: int) -> None:
        """Uploads a temporary file, then keeps it as the copy."""
        await files.in_thread(self._note_arrival, sha256)
        with _translate_errors():
            await self._bucket.upload(self.relative(sha256), staged.path)
        release(await files.in_thread.acquire(release, self._cache.add, staged, self.path(sha256), size))

    async def list_cached(self) -> list[str]:
        """The hashes of contents whose copies are cached here."""
        return await files.in_thread(lambda: [path.name for path in self._cache.paths()])

    async def forget(self, sha256: str) -> None:
        """Removes the copy of a content, unless it is being read."""
        await files.in_thread(self._cache.remove, self.path(sha256))

    async def remove(self, sha256: str, *, older: float = 0.0, needed: Needed | None = None) -> bool:
        """Removes a content, as in a folder: it is first put aside, and only then `needed` is asked."""
        try:
            return await self._remove(sha256, older, needed)
        except BlobsUnavailable:
            await files.in_thread(self._note_arrival, sha256)  # the next clean-up removes it
            raise

    async def _remove(self, sha256: str, older: float, needed: Needed | None) -> bool:
        path, aside = self.relative(sha256), f"{ASIDE}/{sha256}/{secrets.token_hex(4)}"
        with _translate_errors():
            try:
                if older and time.time() - (await self._bucket.stat(path)).modified_at < older:
                    return False
                await self._bucket.copy(path, aside)
            except NoSuchLakeFile:
                return False
            await self._bucket.delete([path])
        is_needed = True
        try:
            is_needed = needed is not None and await needed()
        finally:
            await (self._copy_back(aside, path) if is_needed else self._delete_aside(aside, sha256))
        return not is_needed

    async def recover(self, older: float = RECOVERY) -> int:
        """Puts back contents whose remover died before it knew whether they were needed; returns how many."""
        return await self._restore(ASIDE, older)

    async def _restore(self, below: str, older: float) -> int:
        count = 0
        with _translate_errors():
            for entry in await self._bucket.list(below):
                sha256 = entry.path.split("/")[1]
                if SHA256.fullmatch(sha256) and entry.modified_at <= time.time() - older:
                    await self._copy_back(entry.path, self.relative(sha256))
                    count += 1
        return count

    async def list_arrivals(self, since: float, until: float) -> list[str]:
        """The hashes of contents that last arrived on this machine between two times, in seconds since 1970."""
        return await files.in_thread(self._arrivals, since, until)

    async def clear_arrivals(self, hashes: Sequence[str], until: float) -> None:
        """Removes the marks of these arrivals, unless the content came again after `until`."""
        await files.in_thread(self._remove_marks, hashes, until)

    def check(self) -> None:
        """Raises if nothing can be stored now, in the bucket or in the folder of uploads under way."""
        super().check()
        self._bucket.check()

    async def _compare_object(self, path: str, sha256: str) -> str:
        digest = hashlib.sha256()
        await self._bucket.download(path, digest.update)
        return "" if digest.hexdigest() == sha256 else f"{self.url}/{path} has other bytes than its hash"

    async def _hold(self, sha256: str, path: Path) -> int | None:
        handle = await files.in_thread.acquire(release, self._cache.hold, path)
        while handle is None:
            try:
                handle = await self._fetch(sha256, path)
            except NoSuchLakeFile:
                # Its remover may have died, or have lost the bucket, before it could put it back.
                if not await self._restore(f"{ASIDE}/{sha256}", 0.0):
                    return None
        return handle

    async def _fetch(self, sha256: str, path: Path) -> int:
        """Makes a copy of this content, unless another process has just done so; returns a handle that keeps it."""
        async with self._cache.fetching(sha256):
            if (handle := await files.in_thread.acquire(release, self._cache.hold, path)) is not None:
                return handle
            staged = await files.in_thread.acquire(files.StagedFile.discard, files.StagedFile, self.root, self.root)
            try:
                digest = hashlib.sha256()
                size = 0

                def write(piece: bytes) -> None:
                    nonlocal size
                    digest.update(piece)
                    staged.write(piece)
                    size += len(piece)

                with _translate_errors():
                    await self._bucket.download(self.relative(sha256), write)
                if digest.hexdigest() != sha256:
                    raise BlobDamaged(f"{self.url}/{self.relative(sha256)}")
                return await files.in_thread.acquire(release, self._cache.add, staged, path, size)
            except BaseException:  # not `finally`: a cancellation there would lose the handle
                await files.in_thread(staged.discard)
                raise

    async def _copy_back(self, aside: str, path: str) -> None:
        """Restores a content; one that arrived again meanwhile has the same bytes."""
        with _translate_errors(), contextlib.suppress(NoSuchLakeFile):  # another process has put it back
            await self._bucket.copy(aside, path)
            await self._bucket.delete([aside])

    async def _delete_aside(self, aside: str, sha256: str) -> None:
        with _translate_errors():
            await self._bucket.delete([aside])
        if not await self.has(sha256):
            await self.forget(sha256)

    def _note_arrival(self, sha256: str) -> None:
        marker = self.root / ARRIVED / sha256
        with files.translate_errors(marker):
            handle = files.open_file(marker, self.root, os.O_WRONLY | os.O_CREAT)
            try:
                os.utime(handle)
            finally:
                os.close(handle)

    def _arrivals(self, since: float, until: float) -> list[str]:
        hashes = []
        with contextlib.suppress(FileNotFoundError):
            for marker in (self.root / ARRIVED).iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if since <= marker.stat().st_mtime <= until:
                        hashes.append(marker.name)
        return hashes

    def _remove_marks(self, hashes: Sequence[str], until: float) -> None:
        for sha256 in hashes:
            marker = self.root / ARRIVED / sha256
            with contextlib.suppress(FileNotFoundError):
                if marker.stat().st_mtime <= until:
                    marker.unlink()


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Turns errors of the bucket into BlobsUnavailable, except that an object does not exist."""
    try:
        yield
    except NoSuchLakeFile:
        raise
    except LakeError as error:
        raise BlobsUnavailable(str(error)) from error
