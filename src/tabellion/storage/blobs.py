"""Files as they came, kept once per content under their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tabellion.errors import TabellionError
from tabellion.storage import files

ASIDE = ".aside"  #: where a content is until it is known whether it is needed
RECOVERY = 600.0  #: seconds after which whoever set one aside must be dead
Needed = Callable[[], Awaitable[bool]]  #: whether a document has this content
BATCH = 1 << 20  #: bytes of one file that are kept in memory before the disk is bothered
MOST_HELD = 64 << 20  #: bytes of all files together: beyond them every write goes to the disk at once
HEAD = 4096  #: bytes from the start that are kept for whoever must say what the file is
_SHA256 = re.compile(r"[0-9a-f]{64}")


class TooLarge(TabellionError):  # noqa: N818 - what the sender did
    """More bytes came than may come."""

    def __init__(self, limit: int, got: int) -> None:
        self.limit, self.got = limit, got
        super().__init__(f"the file has more than {limit:,} bytes, which is the limit")


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A file that is on disk, whole."""

    sha256: str
    bytes: int
    path: Path
    name: str = ""  #: as its sender called it
    media: str = ""  #: as its sender declared it


class MemoryUsage:
    """How many bytes all sinks of this process keep in memory."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()  # sinks are drained by threads

    def add(self, count: int) -> None:
        """More of them, or fewer."""
        with self._lock:
            self.bytes += count


held = MemoryUsage()


class Sink:
    """Takes one file in: hashes it while it comes, and writes it without keeping the event loop waiting."""

    def __init__(self, blobs: Blobs, limit: int | None, name: str, media: str) -> None:
        self._blobs, self.limit, self.name, self.media = blobs, limit, name, media
        self.bytes = 0
        self.head = b""
        self._hash = hashlib.sha256()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._unnamed: files.Unnamed | None = None
        self._blob: StoredBlob | None = None

    @property
    def blob(self) -> StoredBlob:
        """The file, once it is whole."""
        if self._blob is None:
            raise RuntimeError("the file is not complete yet: leave the block, or `await sink.finish()`, first")
        return self._blob

    async def write(self, chunk: bytes) -> None:
        """Takes the next bytes; raises TooLarge at the first one too many."""
        if self._blob is not None:
            raise RuntimeError("the file is finished: it takes no more bytes")
        if self._unnamed is not None and self._unnamed.closed:
            raise RuntimeError("the file rests: it takes no more bytes")
        self.bytes += len(chunk)
        if self.limit is not None and self.bytes > self.limit:
            raise TooLarge(self.limit, self.bytes)
        if len(self.head) < HEAD:
            self.head += chunk[: HEAD - len(self.head)]
        self._held.append(bytes(chunk))
        self._held_bytes += len(chunk)
        held.add(len(chunk))
        if self._held_bytes >= BATCH or held.bytes > MOST_HELD:
            await files.in_thread(self._drain)

    async def rest(self) -> None:
        """Keeps nothing of it in memory and nothing open until it is finished: a request may bring many files."""
        await files.in_thread(self._rest)

    async def tail(self, count: int) -> bytes:
        """The last bytes that came."""
        kept = b"".join(self._held)[-count:]
        if self._unnamed is None or len(kept) == count:
            return kept
        return await files.in_thread(_last, self._unnamed.path, count - len(kept)) + kept

    async def finish(self) -> StoredBlob:
        """Makes the file durable and gives it its name."""
        if self._blob is None:
            self._blob = await files.in_thread(self._settle)
        return self._blob

    async def discard(self) -> None:
        """Leaves nothing behind, unless the file is whole."""
        self._let_go()
        if self._unnamed is not None and self._blob is None:
            await files.in_thread(self._unnamed.discard)

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
        if self._unnamed is None:
            self._unnamed = files.Unnamed(self._blobs.root, self._blobs.root)
        data = b"".join(self._held)
        self._let_go()
        self._hash.update(data)
        self._unnamed.write(data)

    def _let_go(self) -> None:
        held.add(-self._held_bytes)
        self._held.clear()
        self._held_bytes = 0

    def _rest(self) -> None:
        self._drain()
        assert self._unnamed is not None  # noqa: S101 - draining made it
        self._unnamed.close()

    def _settle(self) -> StoredBlob:
        if self._unnamed is not None and self._unnamed.closed:
            self._unnamed = files.Unnamed.adopt(self._unnamed.path, self._blobs.root)
        self._drain()
        assert self._unnamed is not None  # noqa: S101 - draining made it
        sha256 = self._hash.hexdigest()
        final = self._blobs.path(sha256)
        # Also when it is there: its age tells that somebody wants it, and a damaged copy is healed.
        self._unnamed.name(final)
        return StoredBlob(sha256, self.bytes, final, self.name, self.media)


def _last(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()


class Blobs:
    """A folder of files by content: `ab/cd/abcd…`, readable by nobody else.

    >>> async with blobs.receive(limit=50_000_000, name="invoice.pdf") as sink:
    ...     async for chunk in request.stream():
    ...         await sink.write(chunk)
    >>> sink.blob.sha256
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()

    def receive(self, limit: int | None = None, *, name: str = "", media: str = "") -> Sink:
        """A sink for one file of at most so many bytes; nothing is kept where its block is left by an error."""
        return Sink(self, limit, name, media)

    async def take(self, file: str | os.PathLike[str], limit: int | None = None, *, media: str = "") -> StoredBlob:
        """A copy of a file that is on this machine."""
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
        """Where a content lies below the folder."""
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256[:80]!r} is not a SHA-256: must be 64 hexadecimal digits")
        return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"

    def path(self, sha256: str) -> Path:
        """The file of this content, whether it is there or not."""
        return self.root / self.relative(sha256)

    def has(self, sha256: str) -> bool:
        """Whether this content is there."""
        return self.path(sha256).is_file()

    async def remove(self, sha256: str, *, older: float = 0.0, needed: Needed | None = None) -> bool:
        """Removes a content and what is kept beside it, if it came last so many seconds ago; whether it did.

        The same content may come again at any moment. So it is first taken out of everybody's reach, and only then
        `needed` is asked whether a document has it: whoever wrote one before gets it back, and whoever writes one later
        looks whether it is there, and finds that it must be sent again.
        """
        path = self.path(sha256)
        aside = await files.in_thread(self._set_aside, path, older)
        if aside is None:
            return False
        wanted = True
        try:
            wanted = needed is not None and await needed()
        finally:
            await files.in_thread(self._put_back if wanted else self._drop, aside, path)
        return not wanted

    async def recover(self, older: float = RECOVERY) -> int:
        """Puts back what somebody set aside who died before he knew whether it was needed; how many."""
        return await files.in_thread(self._recover, older)

    async def came(self, since: float, until: float) -> list[str]:
        """The contents that came last between two times, in seconds since 1970."""
        return await files.in_thread(self._came, since, until)

    async def sweep_temps(self, older: float = files.STALE) -> list[Path]:
        """Removes what uploads left that were cut off by a crash."""
        return await files.in_thread(files.sweep_temps, self.root, older, deep=False)

    def _set_aside(self, path: Path, older: float) -> Path | None:
        """Takes a file out of reach, under a name that is nobody else's; None where it is not there or too new."""
        aside = self.root / ASIDE / f"{path.name}.{secrets.token_hex(4)}"
        with files.translate_errors(path):
            try:
                if older and time.time() - path.stat().st_mtime < older:
                    return None
                files.make_folder(aside.parent, self.root)
                path.rename(aside)
            except FileNotFoundError:
                return None
            if older and time.time() - aside.stat().st_mtime < older:  # it came again a moment ago
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
        found = 0
        with contextlib.suppress(FileNotFoundError):
            for aside in (self.root / ASIDE).iterdir():
                sha256 = aside.name.partition(".")[0]
                # Its content's age says nothing here: a rename is a change of the file, not of what is in it.
                if _SHA256.fullmatch(sha256) and aside.stat().st_ctime <= time.time() - older:
                    self._put_back(aside, self.path(sha256))
                    found += 1
        return found

    def _came(self, since: float, until: float) -> list[str]:
        found = []
        for folder, below, names in os.walk(self.root):
            # A folder that nothing was named in since has nothing new; those above are not touched by that.
            below[:] = [name for name in below if not name.startswith(".")]
            if names and os.stat(folder).st_mtime < since:
                continue
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    if _SHA256.fullmatch(name) and since <= os.stat(os.path.join(folder, name)).st_mtime <= until:
                        found.append(name)
        return found
