"""The declaration of a chaos run on Celery: handlers that fail as told, and a log of every run and every answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tabellion import Job
from tabellion.engine.worker import environment as worker_environment
from tabellion.engine.worker import settling
from tests.faults.chaos_worker import log_answers, run_job
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
    return await run_job(job, log_of_process(), longest=0.05)


# Tests import the terms above, which must not change their own workers: only a node of the fleet has the folder.
if FOLDER in os.environ:
    worker_environment.SWEEP = SWEEP
    worker_environment.LONGEST_PAUSE = settling.LONGEST_PAUSE = 1.0
    log_answers(log_of_process, lambda name: name.endswith(f"-{os.getpid()}"))
