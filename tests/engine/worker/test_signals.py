"""A signal that another thread received still wakes the main thread's event loop."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import threading
from pathlib import Path
from types import FrameType

import pytest

from tabellion.engine.worker.signals import wake_on_signals
from tests.table_owner import owning
from tests.workers import worker_process


@pytest.mark.timeout(20)
def test_a_signal_to_another_thread_runs_its_handler() -> None:
    """The handler runs although the loop is idle and the signal went to another thread."""
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        over.set()

    before = signal.signal(signal.SIGUSR1, receive)
    sent = threading.Event()

    def send() -> None:
        sent.wait(10)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    thread = threading.Thread(target=send)
    over = asyncio.Event()

    async def go() -> None:
        with wake_on_signals(asyncio.get_running_loop()):
            thread.start()
            sent.set()
            await over.wait()

    try:
        asyncio.run(go())
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert received == [signal.SIGUSR1]


def test_a_worker_handles_a_signal_received_by_another_thread(sqlite_url: str, tmp_path: Path) -> None:
    """An idle worker process ends on a SIGTERM that the system gave to its engine's thread."""
    with owning(sqlite_url), worker_process(sqlite_url, tmp_path) as child:
        child.await_event("environment_up")
        other = next(int(task.name) for task in Path(f"/proc/{child.pid}/task").iterdir()
                     if int(task.name) != child.pid)  # fmt: skip
        assert ctypes.CDLL(None, use_errno=True).tgkill(child.pid, other, signal.SIGTERM) == 0
        assert child.wait(20) == 0, child.errors()
