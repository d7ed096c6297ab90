"""Reads the workers of all environments once for everybody who asks; one that does not answer delays no other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from tabellion.answers import Answer, Doc
from tabellion.engine.environment import Environment
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.errors import Forbidden, NotMigrated, StoreError, TabellionError, Unreachable
from tabellion.monitor.active_workers import ActiveWorker, WorkingWorker, environment_workers

logger = logging.getLogger("tabellion.monitor")
DEADLINE = 2.0  #: seconds that an environment has to answer
KNOWN = 2.0  #: seconds for which an answer is given to others too
STALE = 15.0  #: seconds after which an answer that nobody waited for is of no use

ProblemWord = Literal["unreachable", "too_slow", "not_migrated", "forbidden", "failed"]


class EnvironmentProblem(Answer):
    """An environment whose workers are not known."""

    environment: str
    problem: Annotated[ProblemWord, Doc("The server's log says more.")]


class ActiveWorkers(Answer):
    """The workers of all environments, in the order of the configuration."""

    workers: list[WorkingWorker]
    problems: list[EnvironmentProblem]


class ActiveWorkersFeed:
    """The workers of several environments; their stores are opened at the first question and closed by `close`."""

    def __init__(
        self, environments: Sequence[Environment], queues: Sequence[Queue], open_stores: Mapping[str, Store],
        *, deadline: float = DEADLINE,
    ) -> None:  # fmt: skip
        self._readers = [
            _EnvironmentReader(environment, queues, open_stores.get(environment.url), deadline)
            for environment in environments
        ]
        self._deadline = deadline
        self._reading = asyncio.Lock()
        self._last: tuple[float, ActiveWorkers] | None = None  #: when it expires, and the answer

    async def read(self) -> ActiveWorkers:
        """The workers now, or those of a moment ago."""
        async with self._reading:
            if self._last is None or time.monotonic() >= self._last[0]:
                answer = await self._read()
                self._last = (time.monotonic() + KNOWN, answer)
            return self._last[1]

    async def _read(self) -> ActiveWorkers:
        for reader in self._readers:
            reader.start()
        # An environment that had a problem may have it still: its answer is used when it comes, and not waited for.
        awaited = [reader.task for reader in self._readers if reader.task is not None and reader.problem is None]
        if awaited:
            await asyncio.wait(awaited, timeout=self._deadline)
        for reader in self._readers:
            reader.collect()
        return {
            "workers": [_hide_key(worker) for reader in self._readers for worker in reader.workers],
            "problems": [
                {"environment": reader.name, "problem": reader.problem}
                for reader in self._readers
                if reader.problem is not None
            ],
        }

    async def close(self) -> None:
        """Ends what is being read, and closes the stores that were opened here."""
        await asyncio.gather(*(reader.close() for reader in self._readers))


class _EnvironmentReader:
    """Reads one environment, in a task that outlives the question: a second one never waits behind a slow first."""

    def __init__(self, environment: Environment, queues: Sequence[Queue], store: Store | None, deadline: float) -> None:
        self.name = environment.name
        self.workers: list[ActiveWorker] = []
        self.problem: ProblemWord | None = None
        self.task: asyncio.Task[list[ActiveWorker]] | None = None
        self._ended_at = 0.0
        self._url, self._queues, self._deadline = environment.url, queues, deadline
        self._store, self._is_ours = store, store is None

    def start(self) -> None:
        """Starts to read, unless the last reading has not ended or was not collected yet."""
        if self.task is not None and self.task.done() and time.monotonic() - self._ended_at > STALE:
            _retrieve(self.task)
            self.task = None
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._read())
            self.task.add_done_callback(self._on_end)

    def collect(self) -> None:
        """Takes over what the task found, or that it has not ended."""
        if self.task is None or not self.task.done():
            self._report("too_slow" if self.problem is None else self.problem)
            return
        error, task, self.task = self.task.exception(), self.task, None
        if error is None:
            self.problem, self.workers = None, task.result()
        else:
            self._report(_name_problem(error), error)

    async def close(self) -> None:
        """Ends the task, and closes the store unless it is the server's."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
            _retrieve(self.task)
        if self._store is not None and self._is_ours:
            with contextlib.suppress(StoreError, TimeoutError):
                await asyncio.wait_for(self._store.close(), self._deadline)

    async def _read(self) -> list[ActiveWorker]:
        if self._store is None:
            self._store = Store(self._url, deadline=self._deadline, connections=1, read_only=True)
        return await environment_workers(self.name, self._store, self._queues)

    def _on_end(self, _: object) -> None:
        self._ended_at = time.monotonic()

    def _report(self, problem: ProblemWord, error: BaseException | None = None) -> None:
        if problem != self.problem:  # not at every look
            detail = error if isinstance(error, StoreError) else type(error).__name__ if error else "no answer in time"
            unforeseen = None if isinstance(error, TabellionError) else error
            logger.warning("reading the workers of %s: %s: %s", self.name, problem, detail, exc_info=unforeseen)
        self.problem, self.workers = problem, []


def _name_problem(error: BaseException) -> ProblemWord:
    """A word for an error; its text may contain addresses, which are in the server's log only."""
    words: list[tuple[type[StoreError], ProblemWord]] = [
        (Unreachable, "unreachable"), (NotMigrated, "not_migrated"), (Forbidden, "forbidden"),
    ]  # fmt: skip
    return next((word for kind, word in words if isinstance(error, kind)), "failed")


def _retrieve(task: asyncio.Task[list[ActiveWorker]]) -> None:
    """Looks at the error of a task that nobody needs, else asyncio complains that nobody did."""
    if not task.cancelled():
        task.exception()


def _hide_key(worker: ActiveWorker) -> WorkingWorker:
    """The worker without the key of its row: who works on what is shown, and no data."""
    return cast("WorkingWorker", {name: value for name, value in worker.items() if name != "key"})
