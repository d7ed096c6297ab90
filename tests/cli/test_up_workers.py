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
    crew = WorkerProcesses(2, None, ["prod"], 1.0, [])
    crew._command = [sys.executable, "-c", f"raise SystemExit({code})"]
    with pytest.raises(TabellionError, match=f"the workers ended with exit code {code}"):
        asyncio.run(crew.run())


def test_workers_that_are_stopped_end_without_an_error() -> None:
    """Also when they are stopped before they ran."""

    async def story() -> None:
        crew = WorkerProcesses(2, None, ["prod"], 1.0, [])
        crew._command = [sys.executable, "-c", "import time; time.sleep(600)"]
        crew.stop()
        await crew.run()

    asyncio.run(story())
