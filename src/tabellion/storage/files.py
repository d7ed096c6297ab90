"""Files that are whole or not there: written beside their place, forced to disk, and only then named."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
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

ENDING = ".tmp"  #: of files that have no name yet; they begin with a dot, so that no glob of ours finds them
STALE = 3600.0  #: seconds after which a file without a name was left by somebody who died
SLICE = 1 << 20  #: bytes that are written at once
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
    """A few threads for what would keep the event loop waiting, of our own: nothing else ever fills them."""

    def __init__(self, count: int, name: str) -> None:
        self.count, self.name = count, name
        self._pool: ThreadPoolExecutor | None = None

    async def __call__(self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Does it beside the event loop; a caller that is cancelled waits until it has ended."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, self.name)
        future = asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(work, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            raise


in_thread = Threads(8, "tabellion-files")  #: a write never waits behind a document that is being read


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """What the system refuses, as a sentence that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"no space left for {path} ({error.strerror}): free some, then try again") from error
        raise Unwritable(f"{path} cannot be written: {error.strerror or error}") from error


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_known: set[str] = set()  # folders whose names this process has forced to disk, all the way up


def make_folder(folder: Path, root: Path) -> None:
    """Makes a folder and those above it, and forces their names to disk.

    Also when they are there already: whoever made them may have died before it did so.
    """
    if str(folder) in _known:
        return
    if folder != root and folder.parent != folder:
        make_folder(folder.parent, root)
    with contextlib.suppress(FileExistsError):
        if folder == root:
            folder.mkdir(mode=PRIVATE_FOLDER, parents=True)
        else:
            os.mkdir(folder, PRIVATE_FOLDER)
    if folder.parent != folder:
        sync_folder(folder.parent)
    if len(_known) > 100_000:
        _known.clear()
    _known.add(str(folder))


class Unnamed:
    """A file being written, without its name; it is gone unless it gets one."""

    def __init__(self, folder: Path, root: Path, mode: int = PRIVATE_FILE) -> None:
        self.root = root
        self.path = folder / f".{secrets.token_hex(8)}{ENDING}"
        with translate_errors(self.path):
            self._handle: int | None = self._open(mode)

    @classmethod
    def adopt(cls, file: Path, root: Path, mode: int = PRIVATE_FILE) -> Unnamed:
        """A file that somebody else has written and closed."""
        unnamed = cls.__new__(cls)
        unnamed.root, unnamed.path = root, file
        with translate_errors(file):
            unnamed._handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.fchmod(unnamed._handle, mode)
        return unnamed

    def _open(self, mode: int) -> int:
        make_folder(self.path.parent, self.root)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, mode)
        except FileNotFoundError:  # the folder was removed since we made it
            _known.clear()
            make_folder(self.path.parent, self.root)
            return os.open(self.path, flags, mode)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends all of it."""
        assert self._handle is not None  # noqa: S101 - it has its name already
        rest = memoryview(data)
        with translate_errors(self.path):
            while rest:
                rest = rest[os.write(self._handle, rest[:SLICE]) :]
                failpoint("put.mid_write")

    @property
    def closed(self) -> bool:
        """Whether nobody has it open any more."""
        return self._handle is None

    def close(self) -> None:
        """Lets go of it where it is; `adopt` takes it up again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def name(self, final: Path, *, new: bool = False) -> None:
        """Forces it to disk and gives it its name, in place of what has it now; the name is on disk on return.

        A new one takes nobody's place: it raises FileNameTaken.
        """
        assert self._handle is not None  # noqa: S101 - it has its name already
        with translate_errors(final):
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None
            make_folder(final.parent, self.root)
            failpoint("put.pre_rename")
            if not (_link(self.path, final) if new else _rename(self.path, final)):
                raise FileNameTaken(f"{final} already exists")
            failpoint("put.post_rename")
            sync_folder(final.parent)

    def discard(self) -> None:
        """Removes it, unless it has its name."""
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


def write_whole(final: Path, data: bytes, root: Path, mode: int = PRIVATE_FILE) -> None:
    """Writes a file so that after a crash at any moment it is there whole, or as it was before."""
    unnamed = Unnamed(final.parent, root, mode)
    try:
        unnamed.write(data)
        unnamed.name(final)
    finally:
        unnamed.discard()


def remove(path: Path) -> bool:
    """Removes a file for good; whether it was there."""
    with translate_errors(path):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync_folder(path.parent)
    return True


def sweep_temps(root: Path, older: float = STALE, *, deep: bool = True) -> list[Path]:
    """Removes files that never got a name and whose writer must be dead by now; says which."""
    swept = []
    before = time.time() - older
    for folder, below, names in os.walk(root):
        if not deep:
            below.clear()
        for name in names:
            if not (name.startswith(".") and name.endswith(ENDING)):
                continue
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if stat.S_ISREG(found.st_mode) and found.st_mtime <= before:
                    path.unlink()
                    swept.append(path)
    return swept
