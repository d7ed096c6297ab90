"""The workers of `tabellion up`: none of them ends unnoticed."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tabellion.cli.up_workers import WorkerProcesses
from tabellion.errors import TabellionError


@pytest.mark.parametrize("code", [0, 3])
def test_workers_that_end_by_themselves_end_the_service(code: int) -> None:
    """Whatever their exit code: without workers, submitted documents would never be done."""
    workers = WorkerProcesses(2, None, ["prod"], 1.0, [])
    workers._command = [sys.executable, "-c", f"raise SystemExit({code})"]
    with pytest.raises(TabellionError, match=f"the workers ended with exit code {code}"):
        asyncio.run(workers.run())


def test_workers_that_are_stopped_end_without_an_error() -> None:
    """Also when they are stopped before they ran."""

    async def story() -> None:
        workers = WorkerProcesses(2, None, ["prod"], 1.0, [])
        workers._command = [sys.executable, "-c", "import time; time.sleep(600)"]
        workers.stop()
        await workers.run()

    asyncio.run(story())
