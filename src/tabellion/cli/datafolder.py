"""The data folder: one `tabellion up` at a time locks it, and writes its address there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tabellion.errors import ConfigurationError

LOCK = ".up.lock"  #: held while it runs; its text is the address
TRIES = 5
LONGEST = 1000  #: bytes of an address


@contextlib.contextmanager
def lock_folder(data: Path) -> Iterator[Callable[[str], None]]:
    """Locks the data folder during the block; yields a function that writes the address there."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_private(data)
        handle = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"the data folder {data} cannot be used: {error.strerror}") from error

    def note(address: str) -> None:
        os.ftruncate(handle, 0)
        os.pwrite(handle, address.encode(), 0)

    try:
        if not any(_try_lock(handle) for _ in range(TRIES)):
            raise ConfigurationError(
                f"another `tabellion up` is using {data}: stop it or name another folder with --data"
            )
        note("")
        yield note
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.02)  # another process may just be checking the lock
        return False
    return True


def address_in(data: Path) -> str | None:
    """The address of the `tabellion up` that runs with this folder; None if none runs or listens yet."""
    try:
        handle = os.open(data / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(handle, LONGEST, 0).decode() or None
    finally:
        os.close(handle)
    return None  # the process that wrote it was killed


def _make_private(data: Path) -> None:
    """Makes a database of an earlier version private; raises if every user may write to the folder."""
    if data.stat().st_mode & stat.S_IWOTH:
        raise ConfigurationError(
            f"all users of this machine can write to the data folder {data}: run `chmod 700 {data}`, or name another "
            "folder with --data"
        )
    for ending in ("", "-wal", "-shm"):
        file = data / f"tabellion.db{ending}"
        if file.is_file() and file.stat().st_mode & 0o077:
            file.chmod(0o600)
