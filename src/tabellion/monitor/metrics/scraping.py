"""Reads an environment for a scrape: no scrape waits longer than a few seconds, whatever the database does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Generic, TypeVar

from tabellion.errors import TabellionError
from tabellion.monitor.metrics.database_metrics import AGE, DATABASE_UP, DatabaseReader
from tabellion.monitor.metrics.metric import Sample

logger = logging.getLogger("tabellion.monitor")
ANSWER = 2.0  #: seconds that a database has to answer at all
FIGURES = 3.0  #: seconds that a scrape waits for new figures
KNOWN = 3.0  #: seconds for which figures are given to other scrapes too
STALE = 300.0  #: seconds after which older figures are no longer given

T = TypeVar("T")


class _Repeated(Generic[T]):
    """A question that is asked again only when the last one has ended: its task outlives those who wait for it."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._task: asyncio.Task[T] | None = None

    async def answer(self, within: float) -> T:
        """The answer; raises TimeoutError if there is none yet, or what the question raised."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        await asyncio.wait({self._task}, timeout=within)
        if not self._task.done():
            raise TimeoutError
        task, self._task = self._task, None
        return task.result()

    async def _run(self) -> T:
        return await self._ask()

    async def close(self) -> None:
        """Ends the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # looked at, else asyncio complains that nobody did
            self._task = None


class EnvironmentScrape:
    """The samples of one environment, from its database or, for a moment, from the last scrape."""

    def __init__(self, name: str, reader: DatabaseReader) -> None:
        self.name = name
        self._ping = _Repeated(reader.store.now)
        self._read = _Repeated(reader.read)
        self._figures: list[Sample] = []
        self._read_at: float | None = None
        self._asking = asyncio.Lock()  #: two scrapes at once ask the database once
        self._problem: str | None = None

    async def samples(self) -> list[Sample]:
        """All samples; while the database does not answer, only that it does not."""
        async with self._asking:
            try:
                await self._ping.answer(ANSWER)
            except Exception as error:
                self._report("does not answer", error)
                return self._complete([DATABASE_UP.sample(0)])
            if self._age() > KNOWN:
                try:
                    self._figures = await self._read.answer(FIGURES)
                    self._read_at = time.monotonic()
                    self._problem = None
                except TimeoutError:
                    pass  # the last ones are given meanwhile: they are counted in the background
                except Exception as error:
                    self._report("cannot be read", error)
                    self._figures = []
            figures = [*self._figures, AGE.sample(self._age())] if self._figures and self._age() < STALE else []
            return self._complete([DATABASE_UP.sample(1), *figures])

    async def close(self) -> None:
        """Ends what is being read."""
        await self._ping.close()
        await self._read.close()

    def _age(self) -> float:
        return float("inf") if self._read_at is None else time.monotonic() - self._read_at

    def _complete(self, samples: list[Sample]) -> list[Sample]:
        return [replace(sample, labels={**sample.labels, "environment": self.name}) for sample in samples]

    def _report(self, problem: str, error: Exception) -> None:
        if problem != self._problem:  # not at every scrape
            unforeseen = None if isinstance(error, TabellionError | TimeoutError) else error
            logger.warning(
                "metrics: the database of %s %s: %s",
                self.name,
                problem,
                str(error) or "no answer in time",
                exc_info=unforeseen,
            )
        self._problem = problem
