"""The default pool of reading processes: one per process."""

from __future__ import annotations

import atexit
import os
import threading

from tabellion.reading.sandbox import Sandbox

_default: list[Sandbox] = []
_making = threading.Lock()


def default_sandbox() -> Sandbox:
    """The default pool of this process, closed at its exit."""
    with _making:
        if not _default:
            _default.append(Sandbox())
            atexit.register(_default[0].close)
        return _default[0]


def close_default_sandbox() -> None:
    """Ends readings in progress: at exit the process would wait for the threads that run them."""
    with _making:
        for sandbox in _default:
            sandbox.close()


def _after_fork() -> None:
    # Another thread of the parent may have held the lock.
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
