"""The dispatcher, to which the poller, the handlers, the databases and the gates of one worker report."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from tabellion.engine.context import JobContext
from tabellion.engine.events import Event, Listeners
from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement, SettlementVerdict
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.engine.worker.polling import Poller
from tabellion.engine.worker.queue_health import QueueHealth
from tabellion.engine.worker.runner import Run, Runner
from tabellion.engine.worker.slots import Lane, Slots
from tabellion.messages import Message


class Dispatcher:
    """Passes jobs on: from a claim to a slot, from a slot to its handler, from a handler's end to its settlement.

    Everything but `report` is called in the engine's thread.
    """

    slots: Slots
    poller: Poller
    runner: Runner
    root: Path  #: the folder of the jobs' temporary folders
    contexts: Mapping[WorkerEnvironment, JobContext]
    listens = True  #: whether notifications of the databases wake this worker

    def __init__(self, record: WorkerRecord, listeners: Listeners, queues: Sequence[Queue]) -> None:
        self.record = record
        self.listeners = listeners
        self.health = QueueHealth()
        self.idle = asyncio.Event()  #: set while no handler runs
        self.idle.set()
        self._loop = asyncio.get_running_loop()
        self._ended: deque[tuple[Run, Settlement | None]] = deque()
        self._called = False
        self._lane_of: dict[str, Lane] = {}
        #: Queues whose `done` is another queue's `ready` here: their results are new jobs of that queue.
        self._leading_on = {queue for queue in queues if any(queue.leads_to(other) for other in queues)}

    def emit(self, event: Event) -> None:
        """Sends an event to the listeners."""
        self.listeners.emit(event)

    def wake(self) -> None:
        """Has the poller look at every queue now, because there may be new rows."""
        if hasattr(self, "poller"):  # a database or a gate may call this while the worker is still being set up
            self.poller.poll_now()

    def on_gate_changed(self, name: str, closed: str) -> None:
        """Emits the event that a gate closed, with the reason, or opened."""
        event_name = "gate_closed" if closed else "gate_opened"
        self.emit(Event(event_name, worker=self.record.id, queue=name, error=closed or None))

    def begin(self, lane: Lane, jobs: Sequence[Job], asked_at: float) -> None:
        """Takes claimed jobs and starts those for which there is a slot."""
        runs = []
        wants_claimed = self.listeners.wants("claimed", lane.queue.name)
        took = time.monotonic() - asked_at
        self.listeners.count_claimed(lane.environment.name, lane.queue.name, len(jobs), took)
        for job in jobs:
            job.root = self.root
            job.environment = lane.environment.name
            job.context = self.contexts[lane.environment]
            if lane.gate is not None:
                lane.gate.reserve_call(job.token)
            self._lane_of[job.token] = lane
            runs.append(Run(job))
            if wants_claimed:
                lane.environment.event("claimed", job, seconds=took)
        lane.environment.leases.add(runs, asked_at)
        spent = [run for run in runs if run.job.attempt > run.job.queue.bounds(run.job.values)]
        for run in spent:
            runs.remove(run)
            run.ended_at = time.monotonic()
            self.slots.take(lane, 1)
            error = Message("attempt.none_left", n=run.job.attempt)
            self.report(run, Settlement(run.job, "failed", error=error, seconds=0.0))
        self.slots.wait(lane, runs)
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Starts jobs that wait for a slot, earlier lanes first."""
        starting: list[Run] = []
        for lane in self.slots.lanes if self.slots.waiting else ():
            n = min(len(lane.waiting), self.slots.startable(lane))
            if n:
                starting += [self.slots.next(lane) for _ in range(n)]
                self.slots.take(lane, n)
        if starting:
            self.idle.clear()
            self.runner.start(starting)

    def release(self, lane: Lane, jobs: Sequence[Job]) -> None:
        """Releases jobs that were claimed and have not started."""
        for job in jobs:
            self._lane_of.pop(job.token, None)
            if lane.gate is not None:
                lane.gate.forget(job.token)
            lane.environment.settler.put(Settlement(job, "released", seconds=0.0))

    def report(self, run: Run, settlement: Settlement | None) -> None:
        """Takes the settlement of a handler that ended, from any thread; the engine's thread is woken once for many."""
        self._ended.append((run, settlement))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._settle_ended)

    def _settle_ended(self) -> None:
        self._called = False
        while self._ended:
            run, settlement = self._ended.popleft()
            job = run.job
            lane = self._lane_of.pop(job.token, None)
            if lane is None:
                continue
            self.slots.leave(lane)
            lane.seconds += 0.1 * (run.seconds - lane.seconds)
            if lane.gate is not None:
                lane.gate.forget(job.token)
            if settlement is None or job.lost:
                lane.environment.leases.drop(job)
            else:
                lane.environment.settler.put(settlement)
        self._start_waiting()
        self.record.busy = self.slots.busy
        if self.slots.busy == 0:
            self.idle.set()
        self.poller.on_slot_freed()

    def on_settled(self, environment: WorkerEnvironment, settlement: Settlement, verdict: SettlementVerdict) -> None:
        """Counts a settlement that was written or refused, emits its event, and wakes the poller for new work."""
        outcome = verdict.outcome
        if outcome == "done":
            self.record.done += 1
        elif outcome in ("failed", "parked"):
            self.record.failed += 1
        elif outcome == "retried":
            self.record.retried += 1
        queue, cost = settlement.job.queue, settlement.job.cost
        written_in = None if settlement.ended_at is None else time.monotonic() - settlement.ended_at
        event_name = outcome or "lease_lost"
        self.listeners.count_ended(environment.name, queue.name, event_name, settlement.seconds, written_in, cost)
        if self.listeners.wants(event_name, queue.name):
            error = verdict.error or (settlement.error if outcome is not None else None)
            due_in = settlement.after if outcome == settlement.outcome else None
            environment.event(
                event_name, settlement.job, error=error, seconds=settlement.seconds, due_in=due_in,
                traceback=settlement.traceback, cost=cost, settle_seconds=written_in,
            )  # fmt: skip
        if queue.health is not None:
            self.health.count_outcome(environment, queue, outcome, settlement.seconds)
        # The next row of a queue with a limit could not be claimed before this one ended, even with free slots.
        limited = queue.limit is not None or queue.name in environment.limits
        new_work = limited or (queue in self._leading_on if outcome == "done" else outcome == "released")
        if new_work and not self.poller.stopping:
            self.on_new_work(environment)

    def on_new_work(self, environment: WorkerEnvironment) -> None:
        """Has the poller look for rows that a settlement of this worker has made ready."""
        self.poller.poll_now()
