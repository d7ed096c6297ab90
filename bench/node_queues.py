"""The queues that the nodes of `bench.nodes` work on: jobs that wait, jobs that compute, and jobs that do nothing."""

from __future__ import annotations

import asyncio
import os
import random
import zlib
from typing import Any

from tabellion import Job, Queue

WAIT_VARIABLE = "BENCH_WAIT"
WAIT = float(os.environ.get(WAIT_VARIABLE, "0.2"))  #: seconds that a waiting job takes on average, as a call would
TEXT = b"\n".join(
    b"line %d of an invoice: %d pieces at %d.%02d" % (n, n % 97, n * 7 % 1013, n % 100) for n in range(9000)
)
STATES: dict[str, Any] = {"ready": "ready", "running": "running", "done": "done", "failed": "failed"}

waiting, computing, computing_longer, empty = (
    Queue(name, **STATES) for name in ("waiting", "computing", "computing_longer", "empty")
)


@waiting.handler
async def wait(job: Job) -> None:
    """Wait without using the processor; jobs that all take as long would end together, and be settled together."""
    await asyncio.sleep(random.uniform(WAIT / 2, WAIT * 1.5))


@computing.handler
def compute(job: Job) -> dict[str, int]:
    """Compress a text of 350 kB, about 8 ms of one processor."""
    return {"result": len(zlib.compress(TEXT, 6))}


@computing_longer.handler
def compute_longer(job: Job) -> dict[str, int]:
    """Compress it ten times: about what reading a page of text takes."""
    return {"result": sum(len(zlib.compress(TEXT, 6)) for _ in range(10))}


@empty.handler
async def skip(job: Job) -> None:
    """Do nothing: all that is measured is the queue."""
