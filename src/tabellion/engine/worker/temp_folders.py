"""Temp folders: one per job inside one per worker; a dead worker's is removed by the next to start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

from tabellion.errors import ConfigurationError

NEW = ".new-"  # prefix of the folder of a worker that is just starting
DEAD = ".dead-"  # prefix of a folder that is being removed: whoever finds it may finish that
ABANDONED = 60.0  # seconds after which an unfinished folder was left by a killed worker


class Folders:
    """This worker's temp folder, marked as alive by a lock that ends with the process."""

    def __init__(self, worker: str, base: Path | None = None) -> None:
        self.base = base or Path(tempfile.gettempdir()) / f"tabellion-{os.getuid()}"
        self.root = self.base / worker
        self._lock: int | None = None

    def open(self) -> Path:
        """Creates the folder, after removing those of dead workers."""
        self.base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.base.stat().st_uid != os.getuid():
            raise ConfigurationError(f"{self.base} belongs to another user: set TMPDIR to your own folder")
        self.clear_dead()
        # Locked before it gets its name: under its name the folder is always locked.
        unnamed = Path(tempfile.mkdtemp(prefix=NEW, dir=self.base))
        self._lock = os.open(unnamed / ".alive", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            unnamed.rename(self.root)
        except OSError as error:
            shutil.rmtree(unnamed, ignore_errors=True)
            os.close(self._lock)
            self._lock = None
            raise ConfigurationError(f"a worker named {self.root.name!r} is already running on this machine") from error
        return self.root

    def close(self) -> None:
        """Removes the folder with everything in it."""
        if self._lock is not None:
            _remove(self.root)
            os.close(self._lock)
            self._lock = None

    def clear_dead(self) -> list[Path]:
        """Removes the folders of dead workers, and returns them."""
        cleared = []
        for folder in self.base.iterdir():
            if folder.is_dir() and (folder.name.startswith(DEAD) or _is_dead(folder)):
                _remove(folder)
                cleared.append(folder)
        return cleared


def _remove(folder: Path) -> None:
    """Removes a folder under another name: without its lock it would look like one that is being created."""
    dead = folder
    if not folder.name.startswith(DEAD):
        dead = folder.with_name(f"{DEAD}{secrets.token_hex(8)}")
        with contextlib.suppress(OSError):  # another worker removes it
            folder.rename(dead)
    shutil.rmtree(dead, ignore_errors=True)


def _is_dead(folder: Path) -> bool:
    """Whether no process holds the folder's lock; a folder without a lock is being created or removed, if it is new."""
    try:
        lock = os.open(folder / ".alive", os.O_RDWR)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            return time.time() - folder.stat().st_mtime > ABANDONED
        return False
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return not folder.name.startswith(NEW) or time.time() - folder.stat().st_mtime > ABANDONED
    finally:
        os.close(lock)
