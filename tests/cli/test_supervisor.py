"""The supervisor of worker processes: every child is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tabellion.cli import supervisor


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """The supervisor takes over the signals of its process: here they are restored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_child_that_starts_while_the_signal_arrives_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is not killed: it gets the SIGTERM that came before the supervisor knew it."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*_words: Any, **_options: Any) -> subprocess.Popen[bytes]:
        processes.append(popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        os.kill(os.getpid(), signal.SIGTERM)
        return processes[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(supervisor, "GOODBYE", 5.0)
    supervisor.supervise([], processes=1, id=None, name=None, listen=lambda _event: None, grace=0.0)
    assert [process.wait() for process in processes] == [-signal.SIGTERM]


def test_each_child_has_a_port_for_its_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has the first one; 0 picks any for each, and without one there is none."""
    for place, port in (("1", 9464), ("3", 9466)):
        monkeypatch.setenv(supervisor.PLACE, place)
        assert supervisor.child_port(9464) == port
        assert supervisor.child_port(0) == 0
        assert supervisor.child_port(None) is None
