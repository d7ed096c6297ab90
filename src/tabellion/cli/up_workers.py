"""The workers of `tabellion up`: a thread of its process, or processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tabellion.cli.supervisor import FOR_GOOD
from tabellion.engine.worker.worker import Worker, complete_future
from tabellion.errors import TabellionError

GOODBYE = 15.0  #: seconds beyond the grace time before worker processes are killed
PAUSE = 1.0  #: seconds before workers that ended are started again

logger = logging.getLogger("tabellion.worker")


class UpWorkers:
    """The workers of the queues."""

    async def run(self) -> None:
        """Runs until stopped."""

    def stop(self) -> None:
        """Stops gracefully; a second call stops at once."""


class Thread(UpWorkers):
    """A worker in a thread with its own event loop, so that its handlers do not delay the API."""

    def __init__(self, worker: Worker | None) -> None:
        self._worker = worker
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Runs until stopped; without a worker it only waits."""
        worker = self._worker
        if worker is None:
            await self._stopped.wait()
            return
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            failure: BaseException | None = None
            try:
                asyncio.run(worker.serve())
            except BaseException as error:
                failure = error
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(complete_future, ended, failure)

        threading.Thread(target=work, name="tabellion worker", daemon=True).start()
        await ended

    def stop(self) -> None:
        """Stops the worker."""
        self._stopped.set()
        if self._worker is not None:
            self._worker.stop()


class WorkerProcesses(UpWorkers):
    """Worker processes, kept alive by `tabellion worker`."""

    def __init__(
        self, count: int | None, file: Path | None, environments: Sequence[str], grace: float,
        pipelines: Sequence[str], *, celery: bool = False,
    ) -> None:  # fmt: skip
        self._grace = grace
        # Celery answers a second SIGTERM like the first one.
        self._stop_at_once = signal.SIGQUIT if celery else signal.SIGTERM
        self._stop_count = 0
        self._process: subprocess.Popen[bytes] | None = None
        options = ["--config", str(file)] if file is not None else []
        self._command = [
            sys.executable, "-m", "tabellion", *options, *(f"--with={name}" for name in pipelines), "worker",
            *(["--processes", str(count)] if count else []), *(f"--environment={name}" for name in environments),
            *(["--celery"] if celery else []),
        ]  # fmt: skip

    async def run(self) -> None:
        """Runs until stopped; raises if the workers end and starting them again would not help."""
        while not self._stop_count:
            # Its own session: Ctrl-C in the terminal reaches only this process, which passes it on once.
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                self._command, start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent
            )
            code = await asyncio.to_thread(self._process.wait)
            if self._stop_count:
                return
            if code in FOR_GOOD:
                raise TabellionError(f"the workers ended with exit code {code}: their messages above say why")
            logger.error("the workers ended with exit code %d: starting them again", code)
            await asyncio.sleep(PAUSE)

    def stop(self) -> None:
        """Sends SIGTERM to the workers; kills them if they do not end in time. A second call releases their jobs."""
        self._stop_count += 1
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(self._stop_at_once if self._stop_count > 1 else signal.SIGTERM)
            if self._stop_count == 1:
                asyncio.get_running_loop().call_later(self._grace + GOODBYE, process.kill)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
