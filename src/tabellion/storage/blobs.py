"""Received files, stored once per content under their SHA-256, in a local folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tabellion.errors import RateLimited, TabellionError
from tabellion.messages import Message
from tabellion.storage import files

ASIDE = ".aside"  #: where a file is moved until it is known whether it is needed
RECOVERY = 600.0  #: seconds after which the process that moved one aside must have died
Needed = Callable[[], Awaitable[bool]]  #: whether a document has this content
BATCH = 1 << 20  #: bytes of one file that are collected in memory before they are written
MOST_HELD = 64 << 20  #: bytes of all files together; beyond them every chunk is written at once
HEAD = 4096  #: bytes from the start that are kept to detect the file's type
SHA256 = re.compile(r"[0-9a-f]{64}")
UNAVAILABLE = 30.0  #: seconds after which a job that needs an unavailable bucket is tried again


class TooLarge(TabellionError):  # noqa: N818 - what the sender did
    """More bytes came than may come."""

    def __init__(self, limit: int, got: int) -> None:
        self.limit, self.got = limit, got
        super().__init__(f"the file has more than {limit:,} bytes, which is the limit")


class BlobsUnavailable(RateLimited):
    """The bucket of the files does not answer, or refuses: the job waits, and its attempt is not spent."""

    def __init__(self, detail: str) -> None:
        super().__init__(UNAVAILABLE, Message("storage.unavailable", detail=detail))


class BlobDamaged(TabellionError):  # noqa: N818 - a state, not a failure
    """A stored file does not have the bytes that were stored."""

    def __init__(self, where: str) -> None:
        super().__init__(Message("storage.damaged", path=where))


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A file that is completely stored."""

    sha256: str
    bytes: int
    path: Path  #: the file itself, or its cached copy, which may be gone: `Blobs.open` fetches it again
    name: str = ""  #: the sender's file name
    media: str = ""  #: the media type that the sender declared


class MemoryUsage:
    """The number of bytes that all sinks of this process hold in memory."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()  # sinks are drained by threads

    def add(self, count: int) -> None:
        """Adds to the number; a negative count subtracts."""
        with self._lock:
            self.bytes += count


memory_usage = MemoryUsage()


class Sink:
    """Receives one file: hashes it and writes it to disk in threads, without blocking the event loop."""

    def __init__(self, blobs: Blobs, limit: int | None, name: str, media: str) -> None:
        self._blobs, self.limit, self.name, self.media = blobs, limit, name, media
        self.bytes = 0
        self.head = b""
        self._hash = hashlib.sha256()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._staged: files.StagedFile | None = None
        self._blob: StoredBlob | None = None

    @property
    def blob(self) -> StoredBlob:
        """The stored file, once it is complete."""
        if self._blob is None:
            raise RuntimeError("the file is not complete yet: leave the block, or `await sink.finish()`, first")
        return self._blob

    async def write(self, chunk: bytes) -> None:
        """Takes the next bytes; raises TooLarge as soon as the limit is exceeded."""
        if self._blob is not None:
            raise RuntimeError("the file is complete: nothing more can be written")
        if self._staged is not None and self._staged.closed:
            raise RuntimeError("the file is suspended: nothing more can be written")
        self.bytes += len(chunk)
        if self.limit is not None and self.bytes > self.limit:
            raise TooLarge(self.limit, self.bytes)
        if len(self.head) < HEAD:
            self.head += chunk[: HEAD - len(self.head)]
        self._held.append(bytes(chunk))
        self._held_bytes += len(chunk)
        memory_usage.add(len(chunk))
        if self._held_bytes >= BATCH or memory_usage.bytes > MOST_HELD:
            await files.in_thread(self._drain)

    async def suspend(self) -> None:
        """Writes everything to disk and closes the file until it is finished: a request may contain many files."""
        await files.in_thread(self._suspend)

    async def tail(self, count: int) -> bytes:
        """The last bytes received."""
        in_memory = b"".join(self._held)[-count:]
        if self._staged is None or len(in_memory) == count:
            return in_memory
        return await files.in_thread(_read_last, self._staged.path, count - len(in_memory)) + in_memory

    async def finish(self) -> StoredBlob:
        """Stores the file under its final name; on return it survives a crash."""
        if self._blob is None:
            sha256, staged = await files.in_thread(self._complete)
            # Also if it exists: the new modification time shows that it is in use, and a damaged copy is replaced.
            await self._blobs.store(staged, sha256, self.bytes)
            self._blob = StoredBlob(sha256, self.bytes, self._blobs.path(sha256), self.name, self.media)
        return self._blob

    async def discard(self) -> None:
        """Removes what was written, unless the file is complete."""
        self._let_go()
        if self._staged is not None and self._blob is None:
            await files.in_thread(self._staged.discard)

    async def __aenter__(self) -> Sink:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self.discard()
            return
        try:
            await self.finish()
        except BaseException:
            await self.discard()
            raise

    def _drain(self) -> None:
        if self._staged is None:
            self._staged = files.StagedFile(self._blobs.root, self._blobs.root)
        data = b"".join(self._held)
        self._let_go()
        self._hash.update(data)
        self._staged.write(data)

    def _let_go(self) -> None:
        memory_usage.add(-self._held_bytes)
        self._held.clear()
        self._held_bytes = 0

    def _suspend(self) -> None:
        self._drain()
        assert self._staged is not None  # noqa: S101 - draining made it
        self._staged.close()

    def _complete(self) -> tuple[str, files.StagedFile]:
        """The hash, and the temporary file with all bytes."""
        if self._staged is not None and self._staged.closed:
            self._staged = files.StagedFile.adopt(self._staged.path, self._blobs.root)
        self._drain()
        assert self._staged is not None  # noqa: S101 - draining made it
        return self._hash.hexdigest(), self._staged


def _read_last(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()


def _compare_file(path: Path, sha256: str) -> str:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return "" if digest.hexdigest() == sha256 else f"{path} has other bytes than its hash"


class Blobs:
    """A folder of files by content: `ab/cd/abcd…`, readable only by its owner.

    >>> async with blobs.receive(limit=50_000_000, name="invoice.pdf") as sink:
    ...     async for chunk in request.stream():
    ...         await sink.write(chunk)
    >>> sink.blob.sha256
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()

    def receive(self, limit: int | None = None, *, name: str = "", media: str = "") -> Sink:
        """A sink for one file of at most `limit` bytes; if its block raises, nothing is stored."""
        return Sink(self, limit, name, media)

    async def take(self, file: str | os.PathLike[str], limit: int | None = None, *, media: str = "") -> StoredBlob:
        """Stores a copy of a local file."""
        source = Path(file)
        handle = await files.in_thread(source.open, "rb")
        try:
            async with self.receive(limit, name=source.name, media=media) as sink:
                while chunk := await files.in_thread(handle.read, BATCH):
                    await sink.write(chunk)
        finally:
            await files.in_thread(handle.close)
        return sink.blob

    @staticmethod
    def relative(sha256: str) -> str:
        """The path of a content, relative to the folder."""
        if not SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256[:80]!r} is not a SHA-256: must be 64 hexadecimal digits")
        return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"

    def path(self, sha256: str) -> Path:
        """The path of this content on this machine, whether it exists or not; use `open` to read it."""
        return self.root / self.relative(sha256)

    @contextlib.asynccontextmanager
    async def open(self, sha256: str) -> AsyncIterator[Path]:
        """The path of this content on this machine, for the block; it does not exist if the content is not stored."""
        yield self.path(sha256)

    async def load(self, sha256: str) -> bytes:
        """This content; raises FileNotFoundError."""
        async with self.open(sha256) as path:
            return await files.in_thread(path.read_bytes)

    async def has(self, sha256: str) -> bool:
        """Whether this content is stored."""
        return await files.in_thread(self.path(sha256).is_file)

    async def compare(self, sha256: str) -> str:
        """Reads what is stored under this hash, not a cached copy; returns what is wrong with it, empty if nothing."""
        return await files.in_thread(_compare_file, self.path(sha256), sha256)

    async def store(self, staged: files.StagedFile, sha256: str, size: int) -> None:
        """Stores a temporary file of this folder as the content that it is."""
        await files.in_thread(staged.name, self.path(sha256))

    async def list_cached(self) -> list[str]:
        """The hashes of contents whose copies are cached here; none, as these are the files themselves."""
        return []

    async def forget(self, sha256: str) -> None:
        """Removes the cached copy of a content."""

    def check(self) -> None:
        """Raises if nothing can be stored now. It blocks: run it in a thread that nothing waits for."""
        files.check_folder(self.root)

    async def remove(self, sha256: str, *, older: float = 0.0, needed: Needed | None = None) -> bool:
        """Removes a content and the files beside it, if it last arrived `older` seconds ago; returns whether it did.

        The same content may arrive again at any moment. So it is first moved aside, and only then `needed` is asked
        whether a document has it. A document written before gets it back; a document written later checks whether the
        content exists, and finds that it must be sent again.
        """
        path = self.path(sha256)
        aside = await files.in_thread(self._set_aside, path, older)
        if aside is None:
            return False
        is_needed = True
        try:
            is_needed = needed is not None and await needed()
        finally:
            await files.in_thread(self._put_back if is_needed else self._drop, aside, path)
        return not is_needed

    async def recover(self, older: float = RECOVERY) -> int:
        """Puts back files whose remover died before it knew whether they were needed; returns how many."""
        return await files.in_thread(self._recover, older)

    async def list_arrivals(self, since: float, until: float) -> list[str]:
        """The hashes of contents that last arrived between two times, in seconds since 1970."""
        return await files.in_thread(self._find_arrivals, since, until)

    async def clear_arrivals(self, hashes: Sequence[str], until: float) -> None:
        """Notes that these contents of `list_arrivals` were examined; nothing to note in a folder."""

    async def sweep_temps(self, older: float = files.STALE) -> list[Path]:
        """Removes temporary files of uploads that a crash interrupted."""
        return await files.in_thread(files.sweep_temps, self.root, older, deep=False)

    def _set_aside(self, path: Path, older: float) -> Path | None:
        """Moves a file aside under a unique name; None if it does not exist or is too new."""
        aside = self.root / ASIDE / f"{path.name}.{secrets.token_hex(4)}"
        with files.translate_errors(path):
            try:
                if older and time.time() - path.stat().st_mtime < older:
                    return None
                files.make_folder(aside.parent, self.root)
                path.rename(aside)
            except FileNotFoundError:
                return None
            if older and time.time() - aside.stat().st_mtime < older:  # it arrived again a moment ago
                self._put_back(aside, path)
                return None
        return aside

    def _put_back(self, aside: Path, path: Path) -> None:
        with files.translate_errors(path):
            files.make_folder(path.parent, self.root)
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
            files.sync_folder(path.parent)
            aside.unlink(missing_ok=True)

    def _drop(self, aside: Path, path: Path) -> None:
        files.remove(aside)
        files.sync_folder(path.parent)
        if not path.exists():
            with contextlib.suppress(OSError):
                for beside in path.parent.glob(f"{path.name}.*"):
                    beside.unlink(missing_ok=True)

    def _recover(self, older: float) -> int:
        count = 0
        with contextlib.suppress(FileNotFoundError):
            for aside in (self.root / ASIDE).iterdir():
                sha256 = aside.name.partition(".")[0]
                # st_ctime, because a rename does not change st_mtime.
                if SHA256.fullmatch(sha256) and aside.stat().st_ctime <= time.time() - older:
                    self._put_back(aside, self.path(sha256))
                    count += 1
        return count

    def _find_arrivals(self, since: float, until: float) -> list[str]:
        hashes = []
        for folder, subfolders, names in os.walk(self.root):
            # A folder whose names have not changed has nothing new; this does not hold for the folders above it.
            subfolders[:] = [name for name in subfolders if not name.startswith(".")]
            if names and os.stat(folder).st_mtime < since:
                continue
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    if SHA256.fullmatch(name) and since <= os.stat(os.path.join(folder, name)).st_mtime <= until:
                        hashes.append(name)
        return hashes
