"""Atomic files: written under a temporary name, forced to disk, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import functools
import itertools
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from tabellion.engine.failpoints import failpoint
from tabellion.errors import TabellionError
from tabellion.messages import Message

ENDING = ".tmp"  #: of temporary files; they start with a dot, so that our globs do not match them
STALE = 3600.0  #: seconds after which a temporary file's writer must have died
SLICE = 1 << 20  #: bytes per write
MOST_LISTED = 10_000  #: entries of a folder that are read to find its subfolders
MOST_KNOWN = 100_000
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Unwritable(TabellionError):  # noqa: N818 - what the disk said
    """A file could not be written."""


class NoSpace(Unwritable):
    """The disk is full, or the quota is used up."""


class FileNameTaken(Unwritable):
    """Another file has the name that a new one was to get."""


class Threads:
    """A thread pool for calls that would block the event loop; nothing else can fill it."""

    def __init__(self, count: int, name: str) -> None:
        self.count, self.name = count, name
        self._pool: ThreadPoolExecutor | None = None

    async def __call__(self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Runs it in a thread; a caller that is cancelled still waits until it has ended."""
        return await self.acquire(_keep, work, *args, **kwargs)

    async def acquire(
        self, release: Callable[[Result], object], work: Callable[Given, Result], *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:  # fmt: skip
        """Runs it in a thread; if the caller is cancelled, `release` gets the result, which would be lost."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, self.name)
        future = asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(work, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            if not future.cancelled() and future.exception() is None:
                release(future.result())
            raise


def _keep(_: object) -> None:
    """For results that need no release."""


in_thread = Threads(8, "tabellion-files")  #: separate, so that a write never waits for a document that is being read


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turns an OSError into an Unwritable that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(Message("storage.no_space", path=str(path), text=error.strerror)) from error
        raise Unwritable(Message("storage.unwritable", path=str(path), text=error.strerror or str(error))) from error


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_known: set[str] = set()  # folders whose names this process has forced to disk, with those of all their parents
_listed: set[str] = set()  # folders whose subfolders were added to them


def try_lock(handle: int) -> bool:
    """Locks a file for this process alone; False if another process has locked it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_folder(folder: Path, root: Path) -> None:
    """Creates a folder and its parents, and forces their names to disk.

    Existing folders too: the process that created them may have died before it did so.
    """
    if str(folder) in _known:
        return
    if folder != root and folder.parent != folder:
        make_folder(folder.parent, root)
    siblings: list[str] | None = None
    try:
        if folder == root:
            folder.mkdir(mode=PRIVATE_FOLDER, parents=True)
        else:
            os.mkdir(folder, PRIVATE_FOLDER)
    except FileExistsError:
        if folder != root and str(folder.parent) not in _listed:
            # One fsync of the parent makes all its names durable, so its other folders need none. Listing it again for
            # each folder that appears later would cost more than their fsyncs.
            siblings = _list_folders(folder.parent)
    if folder.parent != folder:
        sync_folder(folder.parent)
    if len(_known) + len(siblings or ()) >= MOST_KNOWN:
        forget_folders()
    if siblings is not None:
        _known.update(siblings)
        _listed.add(str(folder.parent))
    _known.add(str(folder))


def _list_folders(parent: Path) -> list[str]:
    with os.scandir(parent) as entries:
        return [entry.path for entry in itertools.islice(entries, MOST_LISTED) if entry.is_dir(follow_symlinks=False)]


def forget_folders() -> None:
    """Makes `make_folder` create or force every folder again: one that it knew has been removed."""
    _known.clear()
    _listed.clear()


def open_file(path: Path, root: Path, flags: int, mode: int = PRIVATE_FILE) -> int:
    """Opens a file in a folder that is created if it does not exist."""
    try:
        make_folder(path.parent, root)
        return os.open(path, flags | os.O_CLOEXEC, mode)
    except FileNotFoundError:  # the folder was removed since we made it
        forget_folders()
        make_folder(path.parent, root)
        return os.open(path, flags | os.O_CLOEXEC, mode)


class StagedFile:
    """A file that is being written under a temporary name; `name` makes it permanent, `discard` removes it."""

    def __init__(self, folder: Path, root: Path, mode: int = PRIVATE_FILE) -> None:
        self.root = root
        self.path = folder / f".{secrets.token_hex(8)}{ENDING}"
        with translate_errors(self.path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._handle: int | None = open_file(self.path, root, flags, mode)

    @classmethod
    def adopt(cls, file: Path, root: Path) -> StagedFile:
        """A temporary file that was written and closed before."""
        staged = cls.__new__(cls)
        staged.root, staged.path = root, file
        with translate_errors(file):
            staged._handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.fchmod(staged._handle, PRIVATE_FILE)
        return staged

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends the data."""
        assert self._handle is not None  # noqa: S101 - it has its name already
        remaining = memoryview(data)
        with translate_errors(self.path):
            while remaining:
                remaining = remaining[os.write(self._handle, remaining[:SLICE]) :]
                failpoint("put.mid_write")

    @property
    def closed(self) -> bool:
        """Whether its handle is closed."""
        return self._handle is None

    def close(self) -> None:
        """Closes its handle and leaves the file; `adopt` opens it again."""
        # Forgotten first: a descriptor that is closed twice may be another file's by then.
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def name(self, final: Path, *, new: bool = False) -> None:
        """Forces it to disk and renames it, replacing a file of that name; the name is on disk on return.

        With `new`, an existing file is not replaced: raises FileNameTaken.
        """
        assert self._handle is not None  # noqa: S101 - it has its name already
        with translate_errors(final):
            os.fsync(self._handle)
            self.close()
            try:
                is_named = self._move(final, new)
            except FileNotFoundError:
                if not self.path.exists():
                    raise
                forget_folders()  # the folder was removed since we made it
                is_named = self._move(final, new)
            if not is_named:
                raise FileNameTaken(Message("storage.exists", path=str(final)))
            failpoint("put.post_rename")
            sync_folder(final.parent)

    def _move(self, final: Path, new: bool) -> bool:
        make_folder(final.parent, self.root)
        failpoint("put.pre_rename")
        return _link(self.path, final) if new else _rename(self.path, final)

    def discard(self) -> None:
        """Removes the temporary file, if it was not named."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def _rename(path: Path, final: Path) -> bool:
    os.rename(path, final)
    return True


def _link(path: Path, final: Path) -> bool:
    try:
        os.link(path, final)
    except FileExistsError:
        return False
    path.unlink()
    return True


def write_whole(final: Path, data: bytes, root: Path) -> None:
    """Writes a file atomically: after a crash it has its new content or its old one."""
    staged = StagedFile(final.parent, root)
    try:
        staged.write(data)
        staged.name(final)
    finally:
        staged.discard()


def check_folder(root: Path) -> None:
    """Raises if files cannot be written there now: writes a temporary one and discards it."""
    staged = StagedFile(root, root)
    try:
        staged.write(b"?")
    finally:
        staged.discard()


def remove(path: Path) -> bool:
    """Removes a file durably; returns whether it existed."""
    with translate_errors(path):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync_folder(path.parent)
    return True


def sweep_temps(root: Path, older: float = STALE, *, deep: bool = True) -> list[Path]:
    """Removes temporary files whose writer must have died, and returns their paths."""
    swept = []
    before = time.time() - older
    for folder, subfolders, names in os.walk(root):
        if not deep:
            subfolders.clear()
        for name in names:
            if not (name.startswith(".") and name.endswith(ENDING)):
                continue
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_mtime <= before:
                    path.unlink()
                    swept.append(path)
    return swept
