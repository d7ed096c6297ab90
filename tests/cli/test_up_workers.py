"""The workers of `tabellion up`: none of them ends unnoticed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tabellion.cli import up_workers
from tabellion.cli.up_workers import WorkerProcesses
from tabellion.errors import TabellionError


@pytest.mark.parametrize("code", [0, 3])
def test_workers_that_end_by_themselves_end_the_service(code: int) -> None:
    """Whatever their exit code: without workers, submitted documents would never be done."""
    workers = WorkerProcesses(2, None, ["prod"], 1.0, [])
    workers._command = [sys.executable, "-c", f"raise SystemExit({code})"]
    with pytest.raises(TabellionError, match=f"the workers ended with exit code {code}"):
        asyncio.run(workers.run())


def test_workers_that_crash_are_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API goes on while they are away."""
    monkeypatch.setattr(up_workers, "PAUSE", 0.0)
    starts = tmp_path / "starts"
    script = (
        f"import sys; f = open({str(starts)!r}, 'a+'); f.write('x'); f.seek(0); sys.exit(1 if len(f.read()) < 3 else 3)"
    )
    workers = WorkerProcesses(2, None, ["prod"], 1.0, [], celery=True)
    workers._command = [sys.executable, "-c", script]
    with pytest.raises(TabellionError, match="exit code 3"):
        asyncio.run(workers.run())
    assert starts.read_text() == "xxx"


def test_workers_that_are_stopped_end_without_an_error() -> None:
    """Also when they are stopped before they ran."""

    async def story() -> None:
        workers = WorkerProcesses(2, None, ["prod"], 1.0, [])
        workers._command = [sys.executable, "-c", "import time; time.sleep(600)"]
        workers.stop()
        await workers.run()

    asyncio.run(story())
