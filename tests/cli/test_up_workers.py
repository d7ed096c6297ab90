"""The workers of `tabellion up`: none of them ends unnoticed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tabellion.cli import up_workers
from tabellion.cli.up_workers import WorkerProcesses
from tabellion.errors import TabellionError
from tests.engine.made_tables import asynchronous
from tests.waiting import eventually


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


@asynchronous
async def test_workers_that_are_stopped_end_without_an_error() -> None:
    """Also when they are stopped before they ran."""
    workers = WorkerProcesses(2, None, ["prod"], 1.0, [])
    workers._command = [sys.executable, "-c", "import time; time.sleep(600)"]
    workers.stop()
    await workers.run()


@pytest.mark.parametrize(("celery", "second"), [(False, "SIGTERM"), (True, "SIGQUIT")])
def test_a_second_stop_does_not_wait(tmp_path: Path, celery: bool, second: str) -> None:
    """It sends what makes the workers release their jobs at once: for Celery, a second SIGTERM changes nothing."""
    got = tmp_path / "got"
    script = f"""
import signal
both = {{signal.SIGTERM, signal.SIGQUIT}}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
for _ in range(2):
    with open({str(got)!r}, "a") as file:
        file.write("ready ")
    with open({str(got)!r}, "a") as file:
        file.write(signal.sigwait(both).name + " ")
"""

    async def story() -> None:
        workers = WorkerProcesses(2, None, ["prod"], 600.0, [], celery=celery)
        workers._command = [sys.executable, "-c", script]
        running = asyncio.create_task(workers.run())
        await asyncio.to_thread(eventually, lambda: got.exists() and got.read_text() == "ready ")
        workers.stop()
        await asyncio.to_thread(eventually, lambda: got.read_text() == "ready SIGTERM ready ")
        workers.stop()
        await running

    asyncio.run(story())
    assert got.read_text().split() == ["ready", "SIGTERM", "ready", second]
