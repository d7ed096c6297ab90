"""A watched folder: files that have come to rest are submitted, and set aside when their document has ended.

    inbox/scan.pdf              somebody puts it there
    inbox/.taking/OWNER/        whoever renamed it here has it; the lock in it tells whether that process lives
    inbox/.waiting/DOCUMENT/    submitted, and not yet read
    inbox/consumed/             read, or known already
    inbox/failed/               not taken in, or not to be read, with `scan.pdf.reason.json` beside it

All that is known is in where a file lies, so that any process can go on where another one died.
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

from tabellion.engine.store import Store
from tabellion.errors import StoreError
from tabellion.pipelines.documents import inbox as moving
from tabellion.pipelines.documents.intake import NotTaken
from tabellion.pipelines.documents.lookup import ENDED, problem
from tabellion.pipelines.documents.row import Failure
from tabellion.pipelines.documents.submit import FileGone, is_id
from tabellion.storage import files

TAKING, WAITING, CONSUMED, FAILED = ".taking", ".waiting", "consumed", "failed"
LOCK = ".lock"
REASON = ".reason.json"
EVERY = 1.0  #: seconds between two looks; a file must be the same at both
EMPTY_FOR = 30.0  #: seconds that a file may have no bytes before that is its fault
AT_ONCE = 4  #: files submitted at the same time
ASKED = 200  #: documents asked about at once
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".download", ".filepart", ".swp", ".lock", "~")

Submit = Callable[[Path, str], Awaitable[str]]  #: a file and its name -> the document's id; NotTaken for its own fault
Endings = Callable[[list[str]], Awaitable[Mapping[str, Failure | None]]]  #: of those that have ended
Listen = Callable[[str, str, str], None]  #: taken, consumed, failed, back or trouble; the file; what there is to say


class _Moving(Exception):  # noqa: N818 - what it is
    """The file is not at rest after all."""


class Consumer:
    """Watches one folder. Several processes may watch the same one: each file has one taker."""

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
        self.quiet = False  #: whether the last look found nothing that is to be done, now or later
        self._submit, self._endings, self._deep = submit, endings, deep
        self._listen = listen or (lambda what, file, said: None)
        self._seen: dict[str, moving.Sight] = {}
        self._told: set[str] = set()  #: troubles that were told already
        self._inbox = moving.Inbox(folder, (TAKING, WAITING, CONSUMED, FAILED))
        self._mine = f"{TAKING}/{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: int | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Looks again and again until it is told to stop; what is being submitted then is finished."""
        try:
            while not stop.is_set():
                await self.look()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self.every)
        finally:
            await asyncio.to_thread(self.close)

    async def look(self) -> int:
        """One look: takes what has come to rest, sets aside what has ended; how many files it moved."""
        try:
            await asyncio.to_thread(self._open)
            await asyncio.to_thread(self._recover)
            ready = await asyncio.to_thread(self._ready)
        except (OSError, files.Unwritable) as error:
            self._trouble(f"{self.folder} cannot be watched: {getattr(error, 'strerror', None) or error}")
            return 0
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> bool:
            async with turns:
                try:
                    return await self._take(name)
                except (OSError, files.Unwritable) as error:
                    self._trouble(f"{name} cannot be moved: {error}")
                    return False

        moved = sum(await asyncio.gather(*(one(name) for name in ready)))
        try:
            moved += await self._set_aside()
            waiting = await asyncio.to_thread(self._inbox.folders, WAITING)
        except (OSError, files.Unwritable) as error:
            self._trouble(f"files cannot be set aside: {error}")
            return moved
        self.quiet = not moved and not self._seen and not waiting
        return moved

    def close(self) -> None:
        """Gives back what was not submitted."""
        if self._lock is not None:
            try:
                self._give_back(self._mine)
            except (OSError, files.Unwritable) as error:
                self._trouble(f"accepted files cannot be moved back: {error}")
            os.close(self._lock)
            self._lock = None

    # -- what lies there ---------------------------------------------------------------------------------------

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
        """Gives back what processes had that are dead: their locks are nobody's."""
        for owner in self._inbox.folders(TAKING):
            if owner == self._mine:
                continue
            try:
                with self._inbox.open(owner) as handle:
                    lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            except OSError:
                about = self._inbox.about(owner)
                if about is not None and time.time() - about.st_mtime > EMPTY_FOR:
                    self._give_back(owner)  # it has had no lock for so long: its maker died in between
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
        """The files that are as they were at the last look, and that nobody writes to."""
        sights = dict(self._candidates())
        still = [name for name, sight in sights.items() if self._seen.get(name) == sight]
        self._seen = sights
        if not still:
            return []
        written = moving.find_being_written({str((self.folder / name).resolve()) for name in still})
        return [name for name in still if str((self.folder / name).resolve()) not in written]

    def _candidates(self, below: str = "") -> Iterator[tuple[str, moving.Sight]]:
        try:
            found = self._inbox.names(below)
        except OSError as error:
            if not below:
                raise
            self._trouble(f"{below} cannot be read: {error.strerror}")
            return
        for file in found:
            name = f"{below}{file}"
            if file.startswith(".") or file.lower().endswith((*UNFINISHED, REASON)):
                continue
            about = self._inbox.about(name)
            if about is None:
                continue
            if stat.S_ISDIR(about.st_mode):
                if self._deep and name not in (CONSUMED, FAILED):
                    yield from self._candidates(f"{name}/")
            elif (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)) and (
                about.st_size or time.time() - about.st_mtime > EMPTY_FOR
            ):
                yield name, moving.Sight.of(about)

    # -- what is done with it ----------------------------------------------------------------------------------

    async def _take(self, name: str) -> bool:
        held, sight = f"{self._mine}/{name}", self._seen.pop(name)
        try:
            if not await asyncio.to_thread(self._inbox.claim, name, held):
                return False
            if not await asyncio.to_thread(self._inbox.is_unchanged, held, sight):
                raise _Moving
            with self._inbox.reach(held) as path:
                document = await self._submit(path, Path(name).name)
            if not await asyncio.to_thread(self._inbox.is_unchanged, held, sight):
                raise _Moving
        except NotTaken as error:
            await self._fail(held, name, {"code": error.code, "message": str(error)})
            return True
        except _Moving:
            # Somebody went on writing to it: what was submitted is half of it, and all of it comes later.
            await asyncio.to_thread(self._inbox.place, held, name)
            return False
        except (StoreError, FileGone, files.Unwritable, OSError) as error:
            # Not the file's fault: it lies where it lay, and comes back at the next look but one.
            self._trouble(f"nothing can be submitted for now: {error}")
            await asyncio.to_thread(self._inbox.place, held, name)
            return False
        self._told.clear()
        await asyncio.to_thread(self._inbox.place, held, f"{WAITING}/{document}/{name}")
        self._listen("taken", name, document)
        return True

    async def _set_aside(self) -> int:
        """Moves the files whose documents have ended."""
        waiting = {os.path.basename(path): path for path in await asyncio.to_thread(self._inbox.folders, WAITING)}
        moved = 0
        ids = [name for name in waiting if is_id(name)]
        for start in range(0, len(ids), ASKED):
            try:
                ended = await self._endings(ids[start : start + ASKED])
            except StoreError as error:
                self._trouble(f"the database cannot be asked how documents ended: {error}")
                break
            for document, error_told in ended.items():
                moved += await self._end(waiting[document], document, error_told)
        return moved

    async def _end(self, folder: str, document: str, error: Failure | None) -> int:
        moved = await asyncio.to_thread(self._finish_folder, folder, document, error)
        for name, where in moved:
            self._listen(where, name, document if error is None else str(error.get("message", "")))
        return len(moved)

    def _finish_folder(self, folder: str, document: str, error: Failure | None) -> list[tuple[str, str]]:
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

    async def _fail(self, path: str, name: str, why: Failure) -> None:
        """Sets a file aside with the reason beside it."""
        if await asyncio.to_thread(self._set_failed, path, name, why):
            self._listen("failed", name, str(why.get("message", "")))

    def _set_failed(self, path: str, name: str, why: Failure, document: str | None = None) -> bool:
        target = self._inbox.place(path, f"{FAILED}/{name}")
        if target is None:
            return False
        whose = {} if document is None else {"document": document}
        told = json.dumps({"file": name, **whose, **why}, ensure_ascii=False, indent=2, default=str) + "\n"
        with contextlib.suppress(OSError):  # the file is safe; a full disk costs only the note
            self._inbox.write(target + REASON, told.encode())
        return True

    def _trouble(self, said: str) -> None:
        if said not in self._told:
            self._told.add(said)
            self._listen("trouble", str(self.folder), said)


async def endings(store: Store, ids: list[str]) -> dict[str, Failure | None]:
    """Those of these documents that have ended, with the error of those that failed; one that is gone has ended too."""
    marks = ", ".join(f"${number}" for number in range(1, len(ids) + 1))
    rows = await store.database.fetch(
        f"SELECT id, status, error, attempts FROM tabellion_documents WHERE id IN ({marks})", *ids
    )
    ended: dict[str, Failure | None] = dict.fromkeys(set(ids) - {row["id"] for row in rows})
    for row in rows:
        if row["status"] == "failed":
            ended[row["id"]] = problem(row["error"], row["attempts"]) or {"code": "failed", "message": ""}
        elif row["status"] in ENDED:
            ended[row["id"]] = None
    return ended
