"""Signals reach the main thread's event loop, whichever thread of the process received them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def waking(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While the block lasts a signal wakes this loop: a handler runs in the main thread only, when that thread runs.

    The system may give a signal to any thread. The main thread, asleep in its event loop, would not notice.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    loop.add_reader(ours, _drain, ours)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        loop.remove_reader(ours)
        ours.close()
        theirs.close()


def _drain(ours: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        ours.recv(4096)
