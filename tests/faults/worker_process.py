"""A worker process for fault tests: `python -m tests.faults.worker_process '{"url": …, "log": …}'`.

It works the table of `tests.table_owner`, writes one line per handler call and per event, and does as its orders say.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tabellion import Environment, Event, Job, Worker
from tabellion.engine.worker import environment as worker_environment
from tabellion.engine.worker import worker as engine
from tests.faults.mutants import MUTANTS
from tests.servers import die_with_parent
from tests.table_owner import jobs_queue

DEFAULTS: dict[str, Any] = {
    "id": None,
    "seconds": 0.0,  # how long a handler takes
    "blocking": False,  # whether it blocks its event loop meanwhile
    "threads": False,  # whether the handler is a plain `def`
    "output": None,  # a file the handler appends to, as a result that lives outside the database
    "scratch": False,  # whether it writes into the job's folder
    "note": None,
    "lease": 1.0,
    "sweep": 0.2,
    "poll": 0.05,
    "grace": 30.0,
    "stuck": 5.0,
    "deadline": None,
    "concurrency": 4,
    "max_attempts": 4,
    "timeout": None,
    "skew": 0.0,  # seconds this process's wall clock is wrong by
    "until_idle": False,
    "unfenced": False,  # a control: settle as if there were no fence
    "stubborn": False,  # whether the handler swallows its cancellation
    "exits": None,  # the key whose handler calls sys.exit
}


class WorkerProcess:
    """The handlers of one process, and its log."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self._log = os.open(given["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, **facts: Any) -> None:
        """Write one line."""
        os.write(self._log, (json.dumps({"what": what, "pid": os.getpid(), **facts}) + "\n").encode())

    def listen(self, event: Event) -> None:
        """Log an event."""
        self.write(event.name, key=event.key, attempt=event.attempt, error=event.error, environment=event.environment)

    def begin(self, job: Job) -> None:
        """What a handler does first."""
        if self.given["note"]:
            job.note(self.given["note"])
        if self.given["scratch"]:
            (job.folder / "half-written").write_bytes(b"x" * 1000)
        self.write("start", key=job.text_key, n=job.n, attempt=job.attempt)
        if job.key == self.given["exits"]:
            sys.exit(3)

    def finish(self, job: Job) -> dict[str, Any]:
        """What a handler does last."""
        if self.given["output"]:
            with Path(self.given["output"]).open("a") as file:
                file.write(f"{job.text_key} {job.n}\n")
        self.write("end", key=job.text_key, n=job.n)
        return {"result": f"{job.text_key}:{job.n}:{job.worker}"}

    async def on_loop(self, job: Job) -> dict[str, Any]:
        """The handler as a coroutine."""
        self.begin(job)
        ends = time.monotonic() + self.given["seconds"]
        while (left := ends - time.monotonic()) > 0:
            if self.given["blocking"]:
                time.sleep(left)
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not self.given["stubborn"]:
                    raise
        return self.finish(job)

    def in_thread(self, job: Job) -> dict[str, Any]:
        """The handler as a plain function."""
        self.begin(job)
        ends = time.monotonic() + self.given["seconds"]
        while time.monotonic() < ends:
            time.sleep(0.01)
        return self.finish(job)


def main(orders: dict[str, Any]) -> None:
    """Work until stopped."""
    die_with_parent()
    given = DEFAULTS | orders
    child = WorkerProcess(given)
    if given["skew"]:
        honest = time.time
        time.time = lambda: honest() + given["skew"]
    if given["unfenced"]:
        MUTANTS["settle-blind"].apply()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file over its limit is an error, not the end
    worker_environment.SWEEP, engine.STUCK = given["sweep"], given["stuck"]
    queue = jobs_queue(lease=given["lease"], max_attempts=given["max_attempts"], timeout=given["timeout"])
    if given["threads"]:
        queue.handler(child.in_thread)
    else:
        queue.handler(child.on_loop)
    worker = Worker(
        [Environment("prod", given["url"], deadline=given["deadline"])], [queue], id=given["id"], poll=given["poll"],
        grace=given["grace"], concurrency=given["concurrency"], listeners=[child.listen],
        folder=Path(given["folder"]),
    )  # fmt: skip
    worker.run(until_idle=given["until_idle"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
