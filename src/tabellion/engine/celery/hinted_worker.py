"""A worker that claims only while it serves a hint; one runs in every process of Celery's pool."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from tabellion.engine.events import Listeners
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement, SettlementVerdict
from tabellion.engine.worker.dispatcher import Dispatcher
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.engine.worker.polling import PendingClaim, Poller
from tabellion.engine.worker.slots import Lane
from tabellion.engine.worker.worker import Worker
from tabellion.errors import StoreError

TURN = 60.0  # seconds after which a hint ends at the next claim: where rows keep coming, hints do too
PATIENCE = 1.0  # seconds that a hint waits for a turn at its gate, or for its database, before it ends without a claim
CHECK = 0.2  # seconds between two checks whether a hint has been served, if nothing has changed
GATHER = 0.02  # seconds to wait for more new rows before the senders of hints are woken once

logger = logging.getLogger("tabellion.worker")


class HintedWorker(Worker):
    """A worker whose poller waits for hints. Everything else is the worker's: slots, gates, leases, settlements."""

    def __init__(self, *arguments: Any, lanes: Collection[tuple[str, str]] | None = None, **options: Any) -> None:
        """`lanes` are the environments with the queues whose hints this worker gets; by default all of its own."""
        super().__init__(*arguments, **options)
        self._lanes = lanes
        self.is_open = threading.Event()  #: set once hints can be served

    async def serve_hint(self, environment: str, queue: str) -> dict[str, int]:
        """Claims and runs due rows until none is left or the turn is over.

        Returns how many jobs of the queue and environment that the hint names ended in which way meanwhile.
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
        self._hinted = HintedPoller(self.poll, dispatcher, self.is_open, self._lanes)
        return self._hinted


class HintedPoller(Poller):
    """A poller that claims only while a hint is being served, and then from all lanes in their usual order.

    So environments, queues and shares come first as in any worker: a hint says that there is work, not which.
    """

    def __init__(
        self, poll: float, dispatcher: Dispatcher, is_open: threading.Event,
        consumed: Collection[tuple[str, str]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(poll, dispatcher)
        self._is_open = is_open
        self._consumed = consumed
        self._serving = 0  #: hints being served; with threads, several
        self._dry: set[Lane] = set()  #: lanes whose last claim found fewer rows than requested
        self._claimed_at = 0.0  #: when rows were last claimed, on the monotonic clock
        self._changed = asyncio.Event()
        self._outcomes: dict[tuple[WorkerEnvironment, str], Counter[str]] = {}
        self._unknown: set[tuple[str, str]] = set()  #: what hints were for that this worker does not work on

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
            self._report_unknown(environment, queue)
            return Counter()
        outcomes = self._outcomes.setdefault((lane.environment, queue), Counter())
        before = Counter(outcomes)
        self._serving += 1
        try:
            await self._serve(lane, time.monotonic() + TURN)
        finally:
            self._serving -= 1
            if not self._serving:
                for other in self._slots.lanes:
                    if other.gate is not None:
                        other.gate.withdraw()
        return outcomes - before

    async def _serve(self, lane: Lane, until: float) -> None:
        """Returns when no job runs here and the lane has no due row, or when another hint keeps this worker claiming.

        Without the wait for jobs, Celery might stop a process that seems idle. It is short enough after `until`: where
        rows keep coming, the next hint continues, and a process that never ended a hint could not be replaced.
        """
        self._dry.discard(lane)
        lane.more = True
        self._bell.set()
        idle_since = time.monotonic()
        while True:
            now = time.monotonic()
            if self._is_busy():
                idle_since = now
                if not self.stopping and (self._claimed_at > until or (self._serving > 1 and self._is_answered(lane))):
                    return
            elif self.stopping or self._is_answered(lane) or now - idle_since > PATIENCE:
                return
            await self._wait_for_change()

    def _is_answered(self, lane: Lane) -> bool:
        """Whether the lane has no due row, or none that may be claimed now."""
        if lane in self._dry:
            return True
        if not lane.environment.up:
            return False
        paused = not lane.is_open  # or skipped, or resting after a refused claim
        closed = lane.gate is not None and lane.gate.is_closed
        spent = lane.pace is not None and lane.pace.room(time.monotonic()) <= 0
        return paused or closed or spent

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

    def _is_busy(self) -> bool:
        """Whether jobs run here, wait to run, or are being claimed or settled."""
        environments = {lane.environment for lane in self._slots.lanes}
        working = self._slots.busy or self._slots.waiting
        return bool(working) or any(environment.claims or len(environment.leases) for environment in environments)

    def _may_claim(self, lane: Lane) -> bool:
        return self._serving > 0 and self._consumes(lane) and super()._may_claim(lane)

    def _consumes(self, lane: Lane) -> bool:
        return self._consumed is None or (lane.environment.name, lane.queue.name) in self._consumed

    def _take(self, lane: Lane, claim: PendingClaim) -> None:
        super()._take(lane, claim)
        if lane.flowing:
            self._dry.discard(lane)
        else:
            self._dry.add(lane)
        if claim.task.exception() is None and claim.task.result():
            self._claimed_at = time.monotonic()
        self.notice()

    def _report_unknown(self, environment: str, queue: str) -> None:
        """Says once that hints for others arrive here, because those get fewer of them."""
        if (environment, queue) not in self._unknown:
            self._unknown.add((environment, queue))
            logger.warning(
                "a hint for %s in %s, which this process does not work on, was dropped: configurations that share a "
                "broker need different values of celery.prefix",
                queue, environment,
            )  # fmt: skip


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

    def on_settled(self, environment: WorkerEnvironment, settlement: Settlement, verdict: SettlementVerdict) -> None:
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
