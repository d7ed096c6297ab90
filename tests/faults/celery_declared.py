"""The declaration of a chaos run on Celery: handlers that fail as told, and a log of every run and every answer."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

from tabellion import Job, Permanent, RateLimited, Store
from tabellion.engine.worker import environment as worker_environment
from tabellion.engine.worker import settling
from tests.faults.chaos_worker import BROKEN, FILED, LIMITED, PERMANENT, _answer
from tests.table_owner import jobs_queue

FOLDER = "CHAOS_FOLDER"
LEASE, SWEEP, MAX_ATTEMPTS = 1.5, 0.3, 6

jobs = jobs_queue(lease=LEASE, max_attempts=MAX_ATTEMPTS, retry_base=0.05, timeout=30.0)
_logs: dict[int, int] = {}


def log_of_process() -> int:
    """The log of this process, which the processes of a pool do not share."""
    pid = os.getpid()
    if pid not in _logs:
        path = Path(os.environ[FOLDER]) / f"log-{pid}.jsonl"
        _logs[pid] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return _logs[pid]


@jobs.handler
async def work(job: Job) -> dict[str, Any]:
    """Log the run, then end as the key says."""
    os.write(log_of_process(), b'{"op":"run","key":%d,"n":%d}\n' % (job.key, job.n))
    if job.key % FILED == 0:
        (job.folder / "page").write_bytes(b"half")
    await asyncio.sleep(random.random() * 0.05)
    if job.key % PERMANENT == 0:
        raise Permanent("told to fail")
    if job.key % BROKEN == 0 and job.attempt == 1:
        raise OSError("told to break")
    if job.key % LIMITED == 0 and job.deferrals == 0:
        raise RateLimited(0.05)
    return {"result": f"{job.key}:{job.n}:{job.worker}"}


_settle = Store.settle


async def _settle_and_log(store: Store, settlements: Any) -> Any:
    """Settle, and log what the database answered about this process's own claims."""
    verdicts = await _settle(store, settlements)
    if settlements and settlements[0].expired_only:
        return verdicts  # a sweep, perhaps of this worker's own claims: no result of a handler
    own = [verdict for verdict in verdicts if str(verdict.job.worker).endswith(f"-{os.getpid()}")]
    if own:
        os.write(log_of_process(), b"".join(_answer(verdict) for verdict in own))
    return verdicts


# Tests import the terms above, which must not change their own workers: only a node of the fleet has the folder.
if FOLDER in os.environ:
    worker_environment.SWEEP = SWEEP
    worker_environment.LONGEST_PAUSE = settling.LONGEST_PAUSE = 1.0
    Store.settle = _settle_and_log  # type: ignore[method-assign, assignment]
