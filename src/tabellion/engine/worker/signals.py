"""Wakes the main thread's event loop when any thread of the process receives a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def wake_on_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """For the length of a block, a signal wakes this loop, so that Python runs the handler in the main thread.

    The system may deliver a signal to any thread; the main thread, waiting in its event loop, would not notice.
    """
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    loop.add_reader(receiver, _drain, receiver)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        loop.remove_reader(receiver)
        receiver.close()
        sender.close()


def _drain(receiver: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        receiver.recv(4096)
