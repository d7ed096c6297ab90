"""Writes settlements in batches, outside the handlers' loop, and keeps them until the database has them."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabellion.engine.settlement import Settlement, SettlementVerdict
from tabellion.errors import Busy, Forbidden, NotMigrated

if TYPE_CHECKING:
    from tabellion.engine.worker.environment import WorkerEnvironment

BATCH = 500
CROWDED, GATHER = 0.01, 0.004  # seconds: if a write takes longer than CROWDED, waiting for GATHER combines several
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Settler:
    """Settlements that are not written yet; each transaction writes all that have accumulated."""

    def __init__(self, environment: WorkerEnvironment) -> None:
        self._environment = environment
        self._store = environment.store
        self._waiting: deque[Settlement] = deque()
        self._reported: set[object] = set()  #: tokens of jobs whose result waits for a missing table
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, settlement: Settlement) -> None:
        """Adds a settlement; called in the engine's thread."""
        self._waiting.append(settlement)
        self._some.set()
        self._none.clear()

    async def empty(self) -> None:
        """Waits until everything has been written."""
        await self._none.wait()

    async def run(self) -> None:
        """Writes until cancelled; while the database is unreachable, retries and keeps everything."""
        pause, took = SHORTEST_PAUSE, 0.0
        while True:
            await self._some.wait()
            if took > CROWDED:
                await asyncio.sleep(GATHER)
            asked_at = time.monotonic()
            batch = [self._waiting[number] for number in range(min(len(self._waiting), BATCH))]
            try:
                verdicts, postponed = await self._write(batch)
            except Exception as error:
                self._environment.mark_unreachable(error)
                verdicts, postponed = [], list(batch)
            took = time.monotonic() - asked_at
            for _ in batch:
                self._waiting.popleft()
            self._waiting.extend(postponed)
            if not self._waiting:
                self._some.clear()
                self._none.set()
            by_job = {id(verdict.job): verdict for verdict in verdicts}
            for settlement in batch:
                if id(settlement.job) in by_job:
                    self._environment.on_settled(settlement, by_job[id(settlement.job)])
            if postponed:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreading load
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                pause = SHORTEST_PAUSE

    async def _write(self, batch: Sequence[Settlement]) -> tuple[list[SettlementVerdict], list[Settlement]]:
        """The verdicts, and the settlements that have to wait: a locked row, or a missing table that only one of them
        writes, must not delay the others."""
        if len(batch) > 1:
            try:
                return await self._store.settle(batch), []
            except (Busy, Forbidden, NotMigrated):
                pass  # one by one, to find out which of them
        verdicts: list[SettlementVerdict] = []
        postponed: list[Settlement] = []
        for settlement in batch:
            try:
                verdicts += await self._store.settle([settlement])
            except (Busy, Forbidden):
                postponed.append(settlement)
            except NotMigrated as error:
                postponed.append(settlement)
                self._report(settlement, error)
        return verdicts, postponed

    def _report(self, settlement: Settlement, error: NotMigrated) -> None:
        if settlement.job.token not in self._reported:
            self._reported.add(settlement.job.token)
            self._environment.event("result_refused", settlement.job, error=str(error))
