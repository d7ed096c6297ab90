"""A waiting line of visits, across processes of this machine: who came first is next.

A place is a locked file whose name sorts by time. The lock ends with its process, so that a place that is not locked
belongs to a process that died, and is removed by whoever sees it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HIDDEN = "."  #: starts the name of a file that is not locked yet


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a waiting line."""

    folder: Path
    name: str

    def is_first(self) -> bool:
        """Whether nobody who is alive came earlier."""
        earlier = [name for name in os.listdir(self.folder) if name < self.name and not name.startswith(_HIDDEN)]
        return not any(_is_held(self.folder / name) for name in sorted(earlier))


@contextlib.contextmanager
def join_line(folder: Path) -> Iterator[Place]:
    """Takes the last place of the line in a folder for the length of a block."""
    name = f"{time.monotonic_ns():020d}-{secrets.token_hex(4)}"  # one clock for all processes of a machine
    hidden, path = folder / f"{_HIDDEN}{name}", folder / name
    handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.rename(hidden, path)  # only now: another process would take an unlocked place for a dead one
        yield Place(folder, name)
    finally:
        for left in (hidden, path):
            left.unlink(missing_ok=True)
        os.close(handle)


def _is_held(path: Path) -> bool:
    """Whether the process of a place is alive; removes the place if it is not."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(handle)
