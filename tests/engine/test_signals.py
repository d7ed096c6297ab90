"""A signal that another thread received still wakes the main thread's event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType

import pytest

from tabellion.engine.signals import waking


@pytest.mark.timeout(20)
def test_a_signal_to_another_thread_runs_its_handler() -> None:
    """The handler runs although the loop sleeps with nothing to do and the signal went to another thread."""
    heard: list[int] = []

    def hear(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        over.set()

    before = signal.signal(signal.SIGUSR1, hear)
    sent = threading.Event()

    def send() -> None:
        sent.wait(10)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    thread = threading.Thread(target=send)
    over = asyncio.Event()

    async def go() -> None:
        with waking(asyncio.get_running_loop()):
            thread.start()
            sent.set()
            await over.wait()

    try:
        asyncio.run(go())
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]
