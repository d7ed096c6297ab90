"""A worker for one command: where none serves the database, one runs until the command ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.engine.log import log_to_stderr
from tabellion.engine.worker.worker import Worker
from tabellion.engine.worker_rows import read_workers
from tabellion.installed_pipelines import gates_of
from tabellion.pipeline import Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.queue import Queue
    from tabellion.engine.store import Store

GRACE = 1.0  #: seconds that jobs get to finish when the command is interrupted
LOOK = 5.0  #: seconds between two looks at the workers that a command waits for


@contextlib.asynccontextmanager
async def own_worker(
    config: Config, pipeline: Pipeline, store: Store, needed: Collection[str], queues: Callable[[], Sequence[Queue]],
    *, name: str, **options: Any,
) -> AsyncIterator[None]:  # fmt: skip
    """Runs a worker with these queues in the first environment while no live ones serve every needed queue there.

    If it ends by itself, the block is cancelled and its error raised: nobody else would do the work. SIGTERM is treated
    as Ctrl-C: what the worker has claimed would otherwise wait until its leases end.
    """
    worker: Worker | None = None

    async def work() -> None:
        nonlocal worker
        while await _is_served(store, needed):
            await asyncio.sleep(LOOK)  # a worker that was killed is shown as live for some seconds
        if not logging.getLogger("tabellion").handlers:
            log_to_stderr("error")
        worker = Worker(
            [config.environments[0]], queues(), grace=GRACE, gates=gates_of(config, [pipeline]),
            gates_at=config.gates_at, name=name, **options,
        )  # fmt: skip
        # It takes the rows of one command only: others must not wait for it.
        worker.record.queues = ",".join(f"{queue.name} ({name})" for queue in worker.queues)
        await worker.serve()

    serving = asyncio.create_task(work())
    waiting = asyncio.current_task()
    if waiting is not None:
        serving.add_done_callback(lambda done: _stop_waiting(done, waiting))
    with _interrupted_by_sigterm():
        try:
            yield
        finally:
            if worker is None:
                serving.cancel()
            else:
                worker.stop()
            await asyncio.wait({serving})
            if not serving.cancelled() and (failure := serving.exception()) is not None:
                raise failure


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM interrupts the block as Ctrl-C does; a second one ends the process."""
    loop, task, is_interrupted = asyncio.get_running_loop(), asyncio.current_task(), False

    def interrupt() -> None:
        nonlocal is_interrupted
        is_interrupted = True
        loop.remove_signal_handler(signal.SIGTERM)
        if task is not None:
            task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, and other threads than the main one
        loop.add_signal_handler(signal.SIGTERM, interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGTERM)


async def _is_served(store: Store, needed: Collection[str]) -> bool:
    workers = await read_workers(store.database)
    return {name for worker in workers for name in worker["queues"].split(",")}.issuperset(needed)


def _stop_waiting(done: asyncio.Task[None], waiting: asyncio.Task[Any]) -> None:
    if not done.cancelled() and done.exception() is not None:
        waiting.cancel()
