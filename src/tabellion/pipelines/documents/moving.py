"""Moves files between the places of a watched folder so that none is lost, and none takes another one's place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tabellion.pipelines.documents import files


@dataclass(frozen=True, slots=True)
class Sight:
    """A file as it was seen: what must be the same for it to be at rest."""

    size: int
    changed: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Sight:
        """As the system describes it."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


def claimed(path: Path, held: Path) -> bool:
    """Whether the file is ours now: a rename succeeds for one of all who try."""
    try:
        held.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, held)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise files.Unwritable(f"{path.name} cannot be taken: {error.strerror}") from error
    return True


def about(path: Path) -> os.stat_result | None:
    """What the system says of it, links not followed; None when it is gone."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def unchanged(path: Path, sight: Sight) -> bool:
    """Whether it is as it was seen."""
    found = about(path)
    return found is not None and Sight.of(found) == sight


def placed(path: Path, target: Path) -> Path | None:
    """Moves a file to where it belongs, or beside what lies there; None when somebody else has moved it."""
    stem, suffix = target.stem, target.suffix
    for number in range(1, 10_000):
        free = target if number == 1 else target.with_name(f"{stem}-{number}{suffix}")
        try:
            free.parent.mkdir(parents=True, exist_ok=True)
            # A link fails where something lies, a rename would write over it.
            os.link(path, free, follow_symlinks=False)
            os.unlink(path)
            return free
        except FileExistsError:
            if _same(path, free):  # whoever began to move it died before the end
                os.unlink(path)
                return free
            continue
        except FileNotFoundError:
            return None
        except OSError:  # a file system without links
            if not os.path.lexists(free):
                shutil.move(path, free)
                return free
    raise files.Unwritable(f"there is no free name for {target.name} in {target.parent}")


def _same(path: Path, other: Path) -> bool:
    one, two = about(path), about(other)
    return one is not None and two is not None and (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Whether nobody else is at this folder; nobody comes while the block lasts, and a process that dies has left."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except OSError:
        alone = False
    try:
        yield alone
    finally:
        os.close(handle)


def being_written(paths: set[str]) -> set[str]:
    """Those of these files that a process has open to write, as far as /proc tells."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for name in os.listdir(process):
                with contextlib.suppress(OSError):
                    path = os.readlink(process / name)
                    if path in paths and _writes(process.parent / "fdinfo" / name):
                        found.add(path)
    return found


def _writes(told: Path) -> bool:
    for line in told.read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def folders_of(parent: Path) -> list[Path]:
    """The folders in a folder; none where there is none."""
    try:
        return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    except FileNotFoundError:
        return []


def files_of(parent: Path) -> Iterator[Path]:
    """Every file below a folder."""
    for folder, _, names in os.walk(parent):
        for name in sorted(names):
            yield Path(folder, name)


def remove_empty(folder: Path) -> None:
    """Removes a folder and those below it, as far as nothing is in them."""
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)
