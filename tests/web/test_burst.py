"""A burst of more connections than a process has file descriptors."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.running import running

FILES = 1024
BURST = 2000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Enough descriptors for the test's own clients."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2 * BURST:
        pytest.skip(f"the test needs {2 * BURST:,} descriptors, and the hard limit is {before[1]:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * BURST, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_burst_does_not_use_up_the_descriptors(many_files: None, tmp_path: Path) -> None:
    """Of 2,000 connections against 1,024 descriptors the oldest are closed; requests are answered, nothing fails."""
    with running(tmp_path / "data") as service, contextlib.ExitStack() as stack:
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        address = urlsplit(service.url)
        assert address.hostname
        assert address.port
        for number in range(BURST):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex((address.hostname, address.port))
            if number % 200 == 100:
                assert service.ask("GET", "/healthz")[0] == 200
        assert service.ask("GET", "/healthz")[0] == 200
        held = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
        assert held < FILES
        assert service.ask("GET", "/readyz")[0] in (200, 503)
        stack.close()
        assert service.ask("GET", "/healthz")[0] == 200
        service.stop()
    assert "Traceback" not in service.errors, service.errors[:2000]
