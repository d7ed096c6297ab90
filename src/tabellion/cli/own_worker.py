"""A worker for one command: where none serves the database, one runs until the command ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.engine.log import log_to_stderr
from tabellion.engine.worker.worker import Worker
from tabellion.engine.worker_rows import read_workers
from tabellion.pipeline import Pipeline, gates_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.queue import Queue
    from tabellion.engine.store import Store

GRACE = 1.0  #: seconds that jobs get to finish when the command is interrupted


@contextlib.asynccontextmanager
async def own_worker(
    config: Config, pipeline: Pipeline, store: Store, needed: Collection[str], queues: Callable[[], Sequence[Queue]],
    **options: Any,
) -> AsyncIterator[None]:  # fmt: skip
    """Runs a worker with these queues in the first environment, unless live ones serve every needed queue there.

    If it ends by itself, the block is cancelled and its error raised: nobody else would do the work.
    """
    workers = await read_workers(store.database)
    served = {name for worker in workers for name in worker["queues"].split(",")}
    if served.issuperset(needed):
        yield
        return
    if not logging.getLogger("tabellion").handlers:
        log_to_stderr("error")
    worker = Worker(
        [config.environments[0]], queues(), grace=GRACE, gates=gates_of(config, [pipeline]), gates_at=config.gates_at,
        **options,
    )  # fmt: skip
    serving = asyncio.create_task(worker.serve())
    waiting = asyncio.current_task()
    if waiting is not None:
        serving.add_done_callback(lambda done: _stop_waiting(done, waiting))
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait({serving})
        if not serving.cancelled() and (failure := serving.exception()) is not None:
            raise failure


def _stop_waiting(done: asyncio.Task[None], waiting: asyncio.Task[Any]) -> None:
    if not done.cancelled() and done.exception() is not None:
        waiting.cancel()
