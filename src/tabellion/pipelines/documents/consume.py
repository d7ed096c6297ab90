"""A watched folder: files that no longer change are submitted, and moved away when their document has ended.

    inbox/scan.pdf              added by a person or program
    inbox/.taking/OWNER/        claimed by the process that moved it here; the lock in it shows whether that is alive
    inbox/.waiting/DOCUMENT/    submitted, not yet read
    inbox/consumed/             read, or a duplicate
    inbox/failed/               rejected or unreadable, with `scan.pdf.reason.json` beside it

A file's folder is its whole state, so any process can continue where another one died.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from tabellion.engine.ids import is_id
from tabellion.engine.store import Store
from tabellion.errors import StoreError
from tabellion.pipelines.documents import inbox as moving
from tabellion.pipelines.documents.local_files import FileRejected
from tabellion.pipelines.documents.lookup import ENDED, problem
from tabellion.pipelines.documents.row import DocumentFailure
from tabellion.pipelines.documents.submit import FileGone
from tabellion.storage import files
from tabellion.storage.blobs import BlobsUnavailable

TAKING, WAITING, CONSUMED, FAILED = ".taking", ".waiting", "consumed", "failed"
LOCK = ".lock"
REASON = ".reason.json"
EVERY = 1.0  #: seconds between two looks; a file must be the same at both
EMPTY_FOR = 30.0  #: seconds that a file may be empty before it is rejected for it
AT_ONCE = 4  #: files submitted at the same time
ASKED = 200  #: documents per query
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".download", ".filepart", ".swp", ".lock", "~")

Submit = Callable[[Path, str], Awaitable[str]]  #: a file and its name -> the document's id; may raise FileRejected
Endings = Callable[[list[str]], Awaitable[Mapping[str, DocumentFailure | None]]]  #: of the documents that have ended
Listen = Callable[[str, str, str], None]  #: event (taken, consumed, failed, back or trouble), file, detail


class _Moving(Exception):  # noqa: N818 - what it is
    """The file is still changing after all."""


class Consumer:
    """Watches one folder. Several processes may watch the same one: each file is claimed by one of them."""

    def __init__(
        self,
        folder: Path,
        submit: Submit,
        endings: Endings,
        *,
        deep: bool = False,
        every: float = EVERY,
        listen: Listen | None = None,
    ) -> None:
        self.folder = folder
        self.every = every
        self.quiet = False  #: whether the last look found nothing to do, now or later
        self._submit, self._endings, self._deep = submit, endings, deep
        self._listen = listen or (lambda event, file, detail: None)
        self._stamps: dict[str, moving.FileStamp] = {}
        self._reported: set[str] = set()  #: problems that were reported already
        self._inbox = moving.Inbox(folder, (TAKING, WAITING, CONSUMED, FAILED))
        self._mine = f"{TAKING}/{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: int | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Looks repeatedly until `stop` is set; submissions in progress are finished."""
        try:
            while not stop.is_set():
                await self.look()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self.every)
        finally:
            await asyncio.to_thread(self.close)

    async def look(self) -> int:
        """One look: submits files that no longer change, moves away finished ones; returns how many it moved."""
        try:
            await asyncio.to_thread(self._open)
            await asyncio.to_thread(self._recover)
            ready = await asyncio.to_thread(self._ready)
        except (OSError, files.Unwritable) as error:
            self._trouble(f"{self.folder} cannot be watched: {getattr(error, 'strerror', None) or error}")
            return 0
        turns = asyncio.Semaphore(AT_ONCE)

        async def take(name: str) -> bool:
            async with turns:
                try:
                    return await self._take(name)
                except (OSError, files.Unwritable) as error:
                    self._trouble(_describe(error, f"{name} cannot be moved"))
                    return False

        moved = sum(await asyncio.gather(*(take(name) for name in ready)))
        try:
            moved += await self._set_aside()
            waiting = await asyncio.to_thread(self._inbox.folders, WAITING)
        except (OSError, files.Unwritable) as error:
            self._trouble(_describe(error, "files of documents that have ended cannot be moved"))
            return moved
        self.quiet = not moved and not self._stamps and not waiting
        return moved

    def close(self) -> None:
        """Moves files back that were claimed but not submitted."""
        if self._lock is not None:
            try:
                self._give_back(self._mine)
            except (OSError, files.Unwritable) as error:
                self._trouble(_describe(error, "accepted files cannot be moved back"))
            os.close(self._lock)
            self._lock = None

    # -- finding files -----------------------------------------------------------------------------------------

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._inbox.check()
        if self._lock is not None:
            return
        with self._inbox.open(self._mine, create=True) as mine:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(LOCK, flags, 0o600, dir_fd=mine)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _recover(self) -> None:
        """Moves back what dead processes had claimed: their locks are free."""
        for owner in self._inbox.folders(TAKING):
            if owner == self._mine:
                continue
            try:
                with self._inbox.open(owner) as handle:
                    lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            except OSError:
                status = self._inbox.about(owner)
                if status is not None and time.time() - status.st_mtime > EMPTY_FOR:
                    self._give_back(owner)  # it never got its lock: the process died in between
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._give_back(owner)
            except BlockingIOError:
                pass
            finally:
                os.close(lock)

    def _give_back(self, owner: str) -> None:
        for path in list(self._inbox.files(owner)):
            if path == f"{owner}/{LOCK}":
                continue
            back = self._inbox.place(path, os.path.relpath(path, owner))
            if back is not None:
                self._listen("back", back, "it was accepted but not submitted")
        with contextlib.suppress(OSError), self._inbox.open(owner) as handle:
            os.unlink(LOCK, dir_fd=handle)
        self._inbox.remove_empty(owner)

    def _ready(self) -> list[str]:
        """The files that have not changed since the last look, and that no process has open for writing."""
        stamps = dict(self._candidates())
        unchanged = [name for name, stamp in stamps.items() if self._stamps.get(name) == stamp]
        self._stamps = stamps
        if not unchanged:
            return []
        written = moving.find_being_written({str((self.folder / name).resolve()) for name in unchanged})
        return [name for name in unchanged if str((self.folder / name).resolve()) not in written]

    def _candidates(self, below: str = "") -> Iterator[tuple[str, moving.FileStamp]]:
        try:
            names = self._inbox.names(below)
        except OSError as error:
            if not below:
                raise
            self._trouble(f"{below} cannot be read: {error.strerror}")
            return
        for file in names:
            name = f"{below}{file}"
            if file.startswith(".") or file.lower().endswith((*UNFINISHED, REASON)):
                continue
            status = self._inbox.about(name)
            if status is None:
                continue
            if stat.S_ISDIR(status.st_mode):
                if self._deep and name not in (CONSUMED, FAILED):
                    yield from self._candidates(f"{name}/")
            elif (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)) and (
                status.st_size or time.time() - status.st_mtime > EMPTY_FOR
            ):
                yield name, moving.FileStamp.of(status)

    # -- moving files ------------------------------------------------------------------------------------------

    async def _take(self, name: str) -> bool:
        held, stamp = f"{self._mine}/{name}", self._stamps.pop(name)
        try:
            if not await asyncio.to_thread(self._inbox.claim, name, held):
                return False
            if not await asyncio.to_thread(self._inbox.is_unchanged, held, stamp):
                raise _Moving
            with self._inbox.reach(held) as path:
                document = await self._submit(path, Path(name).name)
            if not await asyncio.to_thread(self._inbox.is_unchanged, held, stamp):
                raise _Moving
        except FileRejected as error:
            await self._fail(held, name, {"code": error.code, "message": str(error)})
            return True
        except _Moving:
            # It was still being written: a partial file was submitted, and the complete one follows.
            await asyncio.to_thread(self._inbox.place, held, name)
            return False
        except (StoreError, FileGone, BlobsUnavailable, files.Unwritable, OSError) as error:
            # Not the file's fault: it goes back where it was, and is tried again two looks later.
            self._trouble(f"nothing can be submitted for now: {error}")
            await asyncio.to_thread(self._inbox.place, held, name)
            return False
        self._reported.clear()
        await asyncio.to_thread(self._inbox.place, held, f"{WAITING}/{document}/{name}")
        self._listen("taken", name, document)
        return True

    async def _set_aside(self) -> int:
        """Moves the files whose documents have ended; returns how many."""
        waiting = {os.path.basename(path): path for path in await asyncio.to_thread(self._inbox.folders, WAITING)}
        moved = 0
        ids = [name for name in waiting if is_id(name)]
        for start in range(0, len(ids), ASKED):
            try:
                ended = await self._endings(ids[start : start + ASKED])
            except StoreError as error:
                self._trouble(f"the database cannot be asked how documents ended: {error}")
                break
            for document, failure in ended.items():
                moved += await self._end(waiting[document], document, failure)
        return moved

    async def _end(self, folder: str, document: str, error: DocumentFailure | None) -> int:
        moved = await asyncio.to_thread(self._finish_folder, folder, document, error)
        for name, outcome in moved:
            self._listen(outcome, name, document if error is None else str(error.get("message", "")))
        return len(moved)

    def _finish_folder(self, folder: str, document: str, error: DocumentFailure | None) -> list[tuple[str, str]]:
        moved = []
        with self._inbox.alone_in(folder) as alone:
            for path in list(self._inbox.files(folder)) if alone else ():
                name = os.path.relpath(path, folder)
                if error is not None:
                    if self._set_failed(path, name, error, document):
                        moved.append((name, "failed"))
                elif self._inbox.place(path, f"{CONSUMED}/{name}"):
                    moved.append((name, "consumed"))
            if alone:
                self._inbox.remove_empty(folder)
        return moved

    async def _fail(self, path: str, name: str, why: DocumentFailure) -> None:
        """Moves a file to `failed`, with the reason beside it."""
        if await asyncio.to_thread(self._set_failed, path, name, why):
            self._listen("failed", name, str(why.get("message", "")))

    def _set_failed(self, path: str, name: str, why: DocumentFailure, document: str | None = None) -> bool:
        target = self._inbox.place(path, f"{FAILED}/{name}")
        if target is None:
            return False
        owner = {} if document is None else {"document": document}
        reason = json.dumps({"file": name, **owner, **why}, ensure_ascii=False, indent=2, default=str) + "\n"
        with contextlib.suppress(OSError):  # the file is safe; a full disk only costs the reason file
            self._inbox.write(target + REASON, reason.encode())
        return True

    def _trouble(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._listen("trouble", str(self.folder), message)


def _describe(error: OSError | files.Unwritable, what: str) -> str:
    """What could not be done, and why; errors of the inbox name the file and the folder themselves."""
    return str(error) if isinstance(error, files.Unwritable) else f"{what}: {error}"


async def endings(store: Store, ids: list[str]) -> dict[str, DocumentFailure | None]:
    """Which of these documents have ended, with the error of failed ones; a deleted one has ended too."""
    marks = ", ".join(f"${number}" for number in range(1, len(ids) + 1))
    rows = await store.database.fetch(
        f"SELECT id, status, error, attempts FROM tabellion_documents WHERE id IN ({marks})", *ids
    )
    ended: dict[str, DocumentFailure | None] = dict.fromkeys(set(ids) - {row["id"] for row in rows})
    for row in rows:
        if row["status"] == "failed":
            ended[row["id"]] = problem(row["error"], row["attempts"]) or {"code": "failed", "message": ""}
        elif row["status"] in ENDED:
            ended[row["id"]] = None
    return ended
