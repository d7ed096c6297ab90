"""A worker that claims from a queue only while it serves a hint for it; one runs in every process of Celery's pool."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tabellion.engine.events import Listeners
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement, Verdict
from tabellion.engine.worker.dispatcher import Dispatcher
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.engine.worker.polling import PendingClaim, Poller
from tabellion.engine.worker.slots import Lane
from tabellion.engine.worker.worker import Worker
from tabellion.errors import StoreError

TURN = 60.0  # seconds after which a hint claims no more, so that hints of other queues have their turn
PATIENCE = 1.0  # seconds that a hint waits for its gate, its pace or its database before it ends without a claim
CHECK = 0.2  # seconds between two checks whether a hint has been served, if nothing has changed
GATHER = 0.02  # seconds to wait for more new rows before the senders of hints are woken once


class HintedWorker(Worker):
    """A worker whose poller waits for hints. Everything else is the worker's: slots, gates, leases, settlements."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_open = threading.Event()  #: set once hints can be served

    async def serve_hint(self, environment: str, queue: str) -> dict[str, int]:
        """Claims and runs due rows until none is left or the turn is over; returns how many ended in which way.

        Runs in the engine's loop. A hint of an unknown queue or environment claims nothing.
        """
        return dict(await self._hinted.serve(environment, queue))

    @property
    def engine_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of the engine's thread, once it runs."""
        return self._engine

    def _make_dispatcher(self) -> Dispatcher:
        return HintedDispatcher(self.record, self.listeners, self.queues)

    def _make_poller(self, dispatcher: Dispatcher) -> Poller:
        self._hinted = HintedPoller(self.poll, dispatcher, self.is_open)
        return self._hinted


class HintedPoller(Poller):
    """A poller that claims only from lanes for which a hint is being served."""

    def __init__(self, poll: float, dispatcher: Dispatcher, is_open: threading.Event) -> None:
        super().__init__(poll, dispatcher)
        self._is_open = is_open
        self._served: Counter[Lane] = Counter()  #: hints being served; with threads, several of one lane
        self._dry: set[Lane] = set()  #: lanes whose last claim found fewer rows than requested
        self._changed = asyncio.Event()
        self._outcomes: dict[tuple[WorkerEnvironment, str], Counter[str]] = {}

    async def run(self) -> None:
        """Claims for hints until stopped."""
        self._is_open.set()
        await super().run()
        self.notice()

    async def serve(self, environment: str, queue: str) -> Counter[str]:
        """Serves one hint, and returns the outcomes of its lane meanwhile."""
        lane = next(
            (lane for lane in self._slots.lanes if (lane.environment.name, lane.queue.name) == (environment, queue)),
            None,
        )
        if lane is None:
            return Counter()
        outcomes = self._outcomes.setdefault((lane.environment, queue), Counter())
        before = Counter(outcomes)
        self._served[lane] += 1
        try:
            await self._serve(lane, time.monotonic() + TURN)
        finally:
            self._served[lane] -= 1
        while self._is_busy(lane) and not self._served[lane]:
            await self._wait_for_change()
        return outcomes - before

    async def _serve(self, lane: Lane, until: float) -> None:
        self._dry.discard(lane)
        lane.more = True
        self._bell.set()
        idle_since = time.monotonic()
        while not self.stopping and time.monotonic() < until:
            if self._is_busy(lane):
                idle_since = time.monotonic()
            elif lane in self._dry or time.monotonic() - idle_since > PATIENCE:
                return
            elif lane.environment.up and not lane.is_open:
                return  # paused, skipped, or resting after a refused claim
            await self._wait_for_change()

    def notice(self) -> None:
        """Has the hints being served check whether they have been."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def count(self, environment: WorkerEnvironment, queue: str, outcome: str) -> None:
        """Counts the end of a job."""
        counter = self._outcomes.get((environment, queue))
        if counter is not None:
            counter[outcome] += 1
        self.notice()

    async def _wait_for_change(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK):
                await self._changed.wait()

    def _is_busy(self, lane: Lane) -> bool:
        """Whether jobs of this lane run, wait to run, or are being claimed or settled."""
        working = lane.running or lane.waiting or lane in self._late
        return bool(working) or lane.environment.leases.holds_any(lane.queue)

    def _may_claim(self, lane: Lane) -> bool:
        return self._served[lane] > 0 and super()._may_claim(lane)

    def _take(self, lane: Lane, claim: PendingClaim) -> None:
        super()._take(lane, claim)
        if lane.flowing:
            self._dry.discard(lane)
        else:
            self._dry.add(lane)
        self.notice()


class HintedDispatcher(Dispatcher):
    """A dispatcher that passes new work on to the fleet, because its own poller may not claim it."""

    listens = False
    poller: HintedPoller

    def __init__(self, record: WorkerRecord, listeners: Listeners, queues: Sequence[Queue]) -> None:
        super().__init__(record, listeners, queues)
        self._announcing: dict[WorkerEnvironment, asyncio.Task[None]] = {}

    def _settle_ended(self) -> None:
        super()._settle_ended()
        self.poller.notice()

    def on_settled(self, environment: WorkerEnvironment, settlement: Settlement, verdict: Verdict) -> None:
        """Counts the settlement for the hint that its job was claimed for."""
        super().on_settled(environment, settlement, verdict)
        self.poller.count(environment, settlement.job.queue.name, verdict.outcome or "lease_lost")

    def on_new_work(self, environment: WorkerEnvironment) -> None:
        """Wakes the senders of hints, once for all rows that became ready within a moment."""
        super().on_new_work(environment)
        if environment not in self._announcing:
            self._announcing[environment] = asyncio.create_task(self._announce(environment))

    async def _announce(self, environment: WorkerEnvironment) -> None:
        await asyncio.sleep(GATHER)
        del self._announcing[environment]
        with contextlib.suppress(StoreError):  # those that look every second will find the rows
            await environment.store.database.wake()
