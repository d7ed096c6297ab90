"""The pool of reading processes that is used where none is given: one for each process of ours."""

from __future__ import annotations

import atexit
import os
import threading

from tabellion.reading.sandbox import Sandbox

_default: list[Sandbox] = []
_making = threading.Lock()


def default_sandbox() -> Sandbox:
    """The pool that is used where none is given; one for the process, closed at its end."""
    with _making:
        if not _default:
            _default.append(Sandbox())
            atexit.register(_default[0].close)
        return _default[0]


def close_default_sandbox() -> None:
    """Ends the reading that is under way in it: at the end of a process its threads would wait for that."""
    with _making:
        for one in _default:
            one.close()


def _after_fork() -> None:
    # Another thread of the parent may have held it.
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
