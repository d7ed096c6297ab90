"""Moves files between the folders of an inbox so that none is lost, overwritten or moved out of it.

Other users can write to an inbox. At any moment they may put a link in place of one of our folders; so every folder is
opened one step at a time, without following links, and every move is between open folders.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tabellion.messages import Message
from tabellion.storage import files

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Error numbers of file systems without hard links.
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)
PRIVATE, SHARED = 0o700, 0o755


class ForeignFolder(OSError):  # noqa: N818 - what it is
    """A working folder of the inbox is a link, not a folder, or belongs to another user."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A file as it was last seen: if all of this is unchanged, nobody writes to it."""

    size: int
    changed: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """The stamp of a file from its `stat` result."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


class Inbox:
    """A watched folder and the working folders in it, `ours`; paths are relative to it."""

    def __init__(self, root: Path, ours: tuple[str, ...]) -> None:
        self.root, self.ours = root, ours

    def check(self) -> None:
        """Raises `ForeignFolder` if a working folder is not a folder of this user."""
        for name in self.ours:
            with contextlib.suppress(FileNotFoundError), self.open(name):
                pass

    @contextlib.contextmanager
    def open(self, folder: str, *, create: bool = False) -> Iterator[int]:
        """The descriptor of a folder, reached without following a link."""
        handle = os.open(self.root, FOLDER)
        try:
            for depth, name in enumerate(PurePosixPath(folder).parts):
                following = self._step(handle, name, own=depth == 0 and name in self.ours, create=create)
                os.close(handle)
                handle = following
            yield handle
        finally:
            os.close(handle)

    def _step(self, handle: int, name: str, *, own: bool, create: bool) -> int:
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, PRIVATE if name.startswith(".") else SHARED, dir_fd=handle)
        try:
            following = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        except OSError as error:
            if own and error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ForeignFolder(errno.ENOTDIR, f"{name} in it is a link or a file: remove it") from None
            raise
        if own and (owner := os.fstat(following).st_uid) != os.geteuid():
            os.close(following)
            raise ForeignFolder(errno.EPERM, f"{name} in it belongs to user {owner}: remove it")
        return following

    def about(self, path: str) -> os.stat_result | None:
        """A file's `stat` result, links not followed; None if it is gone."""
        folder, name = os.path.split(path)
        try:
            with self.open(folder) as handle:
                return os.stat(name, dir_fd=handle, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_unchanged(self, path: str, stamp: FileStamp) -> bool:
        """Whether a file is as it was last seen."""
        status = self.about(path)
        return status is not None and FileStamp.of(status) == stamp

    @contextlib.contextmanager
    def reach(self, path: str) -> Iterator[Path]:
        """A path to a file through its open folder: it stays valid whatever replaces the folder meanwhile."""
        folder, name = os.path.split(path)
        with self.open(folder) as handle:
            through = Path(f"/proc/self/fd/{handle}")
            yield (through if through.exists() else self.root / folder) / name

    def claim(self, path: str, held: str) -> bool:
        """Moves the file to `held` and returns whether that succeeded: of several processes, one can rename it."""
        (folder, name), (target, new) = os.path.split(path), os.path.split(held)
        try:
            with self.open(folder) as source, self.open(target, create=True) as there:
                os.rename(name, new, src_dir_fd=source, dst_dir_fd=there)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise files.Unwritable(Message("inbox.not_taken", name=name, text=error.strerror)) from error
        return True

    def place(self, path: str, target: str) -> str | None:
        """Moves a file to `target`, or to a free name beside it; None if another process has moved it."""
        (folder, name), (target_folder, target_name) = os.path.split(path), os.path.split(target)
        stem, suffix = os.path.splitext(target_name)
        try:
            with self.open(folder) as source, self.open(target_folder, create=True) as there:
                for number in range(1, 10_000):
                    free = target_name if number == 1 else f"{stem}-{number}{suffix}"
                    if _try_move(source, name, there, free):
                        return os.path.join(target_folder, free)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise files.Unwritable(_describe_failure(name, target_folder, error)) from error
        if not target_folder:
            raise files.Unwritable(Message("inbox.no_free_name_in_inbox", name=target_name))
        raise files.Unwritable(Message("inbox.no_free_name", name=target_name, folder=target_folder))

    def write(self, path: str, data: bytes) -> None:
        """Writes a small file atomically: under a temporary name, then renamed.

        It replaces a file of this name: a reason that was left when its file was taken away belongs to nothing.
        """
        folder, name = os.path.split(path)
        with self.open(folder) as handle:
            temp = f".{name}.{os.getpid()}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temp, flags, 0o644, dir_fd=handle), "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(temp, name, src_dir_fd=handle, dst_dir_fd=handle)

    @contextlib.contextmanager
    def alone_in(self, folder: str) -> Iterator[bool]:
        """Whether no other process uses this folder, nor can while the block runs; a dead one no longer counts."""
        with contextlib.ExitStack() as stack:
            try:
                handle = stack.enter_context(self.open(folder))
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone = True
            except OSError:
                alone = False
            yield alone

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""
        try:
            with self.open(folder) as handle:
                return sorted(os.listdir(handle))
        except FileNotFoundError:
            return []

    def folders(self, parent: str) -> list[str]:
        """The paths of the folders in a folder, links excluded."""
        paths = [os.path.join(parent, name) for name in self.names(parent)]
        return [path for path in paths if (status := self.about(path)) is not None and stat.S_ISDIR(status.st_mode)]

    def files(self, parent: str) -> Iterator[str]:
        """The paths of all files below a folder."""
        for name in self.names(parent):
            path = os.path.join(parent, name)
            status = self.about(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                yield from self.files(path)
            elif status is not None:
                yield path

    def remove_empty(self, folder: str) -> None:
        """Removes a folder and those below it if they are empty."""
        for below in self.folders(folder):
            self.remove_empty(below)
        parent, name = os.path.split(folder)
        with contextlib.suppress(OSError), self.open(parent) as handle:
            os.rmdir(name, dir_fd=handle)


def _describe_failure(name: str, folder: str, error: OSError) -> Message:
    """Why a file cannot be moved to a folder; an empty one is the inbox itself."""
    if not folder:
        return Message("inbox.not_moved_back", name=name, text=error.strerror)
    return Message("inbox.not_moved", name=name, folder=folder, text=error.strerror)


def _try_move(source: int, name: str, there: int, free: str) -> bool:
    """Moves the file to this name; False if another file has it."""
    try:
        # A link fails if the name is taken; a rename would overwrite.
        os.link(name, free, src_dir_fd=source, dst_dir_fd=there, follow_symlinks=False)
        os.unlink(name, dir_fd=source)
        return True
    except FileExistsError:
        if not _same(source, name, there, free):
            return False
        os.unlink(name, dir_fd=source)  # an earlier move was interrupted between link and unlink
        return True
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with contextlib.suppress(FileNotFoundError):
            os.stat(free, dir_fd=there, follow_symlinks=False)
            return False
        os.rename(name, free, src_dir_fd=source, dst_dir_fd=there)
        return True


def _same(source: int, name: str, there: int, free: str) -> bool:
    first = os.stat(name, dir_fd=source, follow_symlinks=False)
    second = os.stat(free, dir_fd=there, follow_symlinks=False)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def find_being_written(paths: set[str]) -> set[str]:
    """The files that a process has open for writing, as far as /proc shows."""
    written: set[str] = set()
    for process in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for name in os.listdir(process):
                with contextlib.suppress(OSError):
                    path = os.readlink(process / name)
                    if path in paths and _writes(process.parent / "fdinfo" / name):
                        written.add(path)
    return written


def _writes(info: Path) -> bool:
    for line in info.read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False
