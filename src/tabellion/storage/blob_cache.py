"""Local copies of blobs in a bucket: bounded, the least recently used go first, safe with several processes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tabellion.storage import files

KEPT_SHARE = 0.8  #: of the limit is kept when copies are removed, so that not every new copy looks at all others
UNUSED = 86_400.0  #: seconds after which an unused copy is removed: its document may have been deleted elsewhere
BETWEEN = 3600.0  #: seconds between two looks for such copies
LOCKS = ".locks"  #: a folder with a lock for each group of contents that is being fetched
SIZE = ".size"  #: the bytes of all copies, as all processes count them; its lock serializes the counting
PATIENCE = 0.05  #: seconds between two attempts to take a lock
_Copy = tuple[float, int, Path]  # when it was last used, its bytes with those of the files beside it, and its path


class BlobCache:
    """A folder of copies, each named like the content that it is.

    A copy in use has a shared lock, which ends with the process that holds it. Only a copy without one is removed.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root, self.limit = root, limit
        self._looked_at = float("-inf")

    def hold(self, path: Path) -> int | None:
        """A handle that keeps this copy until it is closed; None if there is no copy."""
        while True:
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                return None
            fcntl.flock(handle, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    os.utime(path)
                    return handle
            os.close(handle)  # it was removed or replaced before the lock was taken

    @contextlib.asynccontextmanager
    async def fetching(self, sha256: str) -> AsyncIterator[None]:
        """One process at a time fetches a content: the others wait and then find its copy."""
        lock = self.root / LOCKS / sha256[:3]
        with files.translate_errors(lock):
            handle = await files.in_thread.acquire(os.close, files.open_file, lock, self.root, os.O_RDWR | os.O_CREAT)
        try:
            while not files.try_lock(handle):
                await asyncio.sleep(PATIENCE)
            yield
        finally:
            os.close(handle)

    def add(self, staged: files.StagedFile, path: Path, size: int) -> int:
        """Makes a complete temporary file the copy of a content; others make room for it. Returns a handle that keeps
        it until it is closed: else one that is larger than the limit would be gone before it is read."""
        handle = os.open(staged.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            staged.name(path)
            with files.translate_errors(path), self._counting() as number:
                taken = _read_number(number) + size
                if taken > self.limit or time.monotonic() - self._looked_at > BETWEEN:
                    self._looked_at, taken = time.monotonic(), self._make_room()
                os.pwrite(number, b"%20d" % taken, 0)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def remove(self, path: Path) -> bool:
        """Removes a copy and the files beside it, unless it is in use."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            if not files.try_lock(handle):
                return False
            path.unlink(missing_ok=True)
        finally:
            os.close(handle)
        for beside in path.parent.glob(f"{path.name}.*"):
            beside.unlink(missing_ok=True)
        return True

    def paths(self) -> Iterator[Path]:
        """Every copy."""
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = [name for name in subfolders if not name.startswith(".")]
            yield from (Path(folder, name) for name in names if "." not in name)

    @contextlib.contextmanager
    def _counting(self) -> Iterator[int]:
        handle = files.open_file(self.root / SIZE, self.root, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _make_room(self) -> int:
        """Removes copies that were not used for long and, beyond the limit, the least recently used; returns the bytes
        that are left."""
        copies = sorted(self._measure())
        taken = sum(size for _, size, _ in copies)
        enough = self.limit * KEPT_SHARE if taken > self.limit else taken
        for used_at, size, path in copies:
            if taken <= enough and used_at > time.time() - UNUSED:
                break
            if self.remove(path):
                taken -= size
        return taken

    def _measure(self) -> Iterator[_Copy]:
        for path in self.paths():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                size = status.st_size
                for beside in path.parent.glob(f"{path.name}.*"):
                    size += beside.stat().st_size
                yield status.st_mtime, size, path


def release(handle: int | None) -> None:
    """Closes a handle of a copy."""
    if handle is not None:
        os.close(handle)


def _read_number(handle: int) -> int:
    """The number in a file; 0 if there is none. A crash may lose an addition: the next removal measures again."""
    text = os.pread(handle, 32, 0).strip()
    return int(text) if text.isdigit() else 0
