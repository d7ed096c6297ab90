"""A chaos worker: a real Worker in a forked process, which logs every run and every answer."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import random
import signal
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabellion import Environment, Job, Permanent, Queue, RateLimited, Store, Worker
from tabellion.engine import failpoints
from tabellion.engine.worker import environment as worker_environment
from tabellion.engine.worker import settling
from tests.faults.mutants import MUTANTS
from tests.table_owner import jobs_queue

PERMANENT, BROKEN, LIMITED, FILED = (
    101,
    53,
    47,
    10,
)  # keys that are multiples: fail, err once, are limited once, use a file
GRACE = 4.0  # seconds for handlers to finish on SIGTERM; they take milliseconds
SLOT = struct.Struct("q")


@dataclass(frozen=True)
class Orders:
    """The settings of every worker of a run."""

    url: str
    folder: Path
    lease: float
    sweep: float
    concurrency: int
    max_attempts: int
    mutant: str | None = None

    def queue(self) -> Queue:
        """The queue they work."""
        return jobs_queue(lease=self.lease, max_attempts=self.max_attempts, retry_base=0.05, timeout=30.0)


class Progress:
    """How many handlers each slot has run: memory shared with the workers, which survives them."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._memory = mmap.mmap(-1, SLOT.size * slots)

    def add(self, slot: int) -> None:
        """Count one run."""
        (count,) = SLOT.unpack_from(self._memory, slot * SLOT.size)
        SLOT.pack_into(self._memory, slot * SLOT.size, count + 1)

    def of(self, slot: int) -> int:
        """Return a slot's runs so far."""
        return int(SLOT.unpack_from(self._memory, slot * SLOT.size)[0])

    @property
    def total(self) -> int:
        """Return all runs so far."""
        return sum(map(self.of, range(self._slots)))


def spawn(orders: Orders, progress: Progress, slot: int, seed: int, armed: str) -> int:
    """Fork a worker and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _live(orders, progress, slot, seed, armed)
        code = 0
    except BaseException:
        (orders.folder / f"died-{os.getpid()}.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _live(orders: Orders, progress: Progress, slot: int, seed: int, armed: str) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # die with the parent
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    random.seed(seed)
    worker_environment.SWEEP = orders.sweep
    worker_environment.LONGEST_PAUSE = settling.LONGEST_PAUSE = 1.0
    if orders.mutant is not None:
        MUTANTS[orders.mutant].apply()
    log = os.open(orders.folder / f"log-{slot}-{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    queue = orders.queue()

    @queue.handler
    async def work(job: Job) -> dict[str, Any]:
        progress.add(slot)
        return await run_job(job, log, longest=0.005)

    log_answers(lambda: log, lambda name: name == worker.id)
    worker = Worker(
        [Environment("chaos", orders.url)], [queue], id=f"w{slot}-{os.getpid()}", concurrency=orders.concurrency,
        poll=0.2, grace=GRACE, folder=orders.folder / "temp",
    )  # fmt: skip
    failpoints.arm(armed)
    worker.run()


async def run_job(job: Job, log: int, longest: float) -> dict[str, Any]:
    """Log the run, then end as the key says after at most `longest` seconds."""
    os.write(log, b'{"op":"run","key":%d,"n":%d}\n' % (job.key, job.n))
    if job.key % FILED == 0:
        (job.folder / "page").write_bytes(b"half")
    await asyncio.sleep(random.random() * longest)
    if job.key % PERMANENT == 0:
        raise Permanent("told to fail")
    if job.key % BROKEN == 0 and job.attempt == 1:
        raise OSError("told to break")
    if job.key % LIMITED == 0 and job.deferrals == 0:
        raise RateLimited(0.05)
    return {"result": f"{job.key}:{job.n}:{job.worker}"}


def log_answers(log: Callable[[], int], is_own: Callable[[str], bool]) -> None:
    """Have this process log what the database answers to the results of its own workers."""
    right = Store.settle

    async def settle(store: Store, settlements: Any) -> Any:
        verdicts = await right(store, settlements)
        if settlements and settlements[0].expired_only:
            return verdicts  # a sweep, perhaps of this worker's own claims: no result of a handler
        own = [verdict for verdict in verdicts if is_own(verdict.job.worker)]
        if own:
            os.write(log(), b"".join(_answer(verdict) for verdict in own))
        return verdicts

    Store.settle = settle  # type: ignore[method-assign, assignment]


def _answer(verdict: Any) -> bytes:
    place = (verdict.job.key, verdict.job.n)
    if verdict.outcome is None:
        return b'{"op":"stale","key":%d,"n":%d}\n' % place
    return b'{"op":"ok","key":%d,"n":%d,"outcome":"%s"}\n' % (*place, verdict.outcome.encode())
