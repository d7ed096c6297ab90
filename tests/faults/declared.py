"""A declaration for `tabellion worker`: handlers that take a minute and write to the file named by WORKER_LOG."""

from __future__ import annotations

import asyncio
import os

from tabellion import Job
from tests.table_owner import jobs_queue

jobs = jobs_queue(lease=5.0)


@jobs.handler
async def work(job: Job) -> None:
    """Log which worker has which job, then take a minute."""
    with open(os.environ["WORKER_LOG"], "a") as log:
        log.write(f"{os.getpid()} {job.key}\n")
    await asyncio.sleep(60)
