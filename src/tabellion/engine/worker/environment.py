"""One environment of one worker: its connection, the claims held there, and the tasks that maintain them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tabellion.engine import counts
from tabellion.engine.environment import Environment
from tabellion.engine.events import Event
from tabellion.engine.job import Job
from tabellion.engine.periodic import PeriodicTask
from tabellion.engine.queue import Queue
from tabellion.engine.recovery import orphans, refused_rows
from tabellion.engine.retention import RetentionRule, prune_some
from tabellion.engine.settlement import Settlement, SettlementVerdict
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.leases import Leases
from tabellion.engine.worker.runner import Run, retry_or_fail
from tabellion.engine.worker.settling import Settler
from tabellion.engine.worker.skipped_queues import Skipped
from tabellion.errors import (
    Busy,
    ConfigurationError,
    DeclarationError,
    NotMigrated,
    StoreError,
    TabellionError,
    Unreachable,
)
from tabellion.messages import Message

if TYPE_CHECKING:
    from tabellion.engine.worker.dispatcher import Dispatcher

WATCH = 0.1  # seconds between two checks of leases and timeouts
UNSTARTED = 0.5  # seconds after which a job that waits for a blocked loop is released
SWEEP = 5.0
CONTROLS = 1.0
FOREIGN = 60.0
ROLL_UP = 60.0
PRUNE, PRUNE_SECONDS = 10.0, 0.5  # between two turns of pruning, and of one turn of each rule
LOOK_AGAIN = 30.0  # seconds before a skipped queue is checked again
LISTEN_PAUSE = 0.005
LISTEN_AGAIN = 5.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
STEADY = 30.0  # seconds a connection must last for the next pause to be short again
REMIND = 60.0  # seconds after which a database that is still unreachable is reported again


class WorkerEnvironment:
    """One environment: its store, the claims held there, and the tasks that maintain them."""

    def __init__(
        self, environment: Environment, queues: Sequence[Queue], dispatcher: Dispatcher,
        rules: Sequence[RetentionRule] = (), tasks: Sequence[PeriodicTask] = (),
    ) -> None:  # fmt: skip
        self.name, self.address, self.share = environment.name, environment.address, environment.share
        self.queues = queues
        self._rules, self._tasks = rules, tasks
        self.record = dispatcher.record
        self.store = environment.store()
        self.up = False
        self.ready = asyncio.Event()  #: set once the first connection has been tried
        self.fatal: Exception | None = None  #: a configuration error found before work began
        self.skipped = Skipped(self.store, queues, self.event)
        self._admitted = False
        self.paused: set[str] = set()
        self.limits: dict[str, int] = {}
        self.claims = 0  #: running claim calls
        self._dispatcher = dispatcher
        self._runner = dispatcher.runner
        self._since: float | None = None
        self._down_since: float | None = None
        self._down_reported_at = -REMIND
        self._lost = asyncio.Event()
        self._touched: dict[str, object] = {}  #: when each queue's controls were last changed
        self._renew_all = False
        self._renewing: asyncio.Task[None] | None = None
        self.store.on_refused = lambda bound, key, error: self.event(
            "set_aside", queue=bound.queue.name, key=key, due_in=refused_rows.AGAIN, error=error
        )
        self.leases = Leases(self.store)
        self.settler = Settler(self)

    def event(self, name: str, job: Job | None = None, **facts: object) -> None:
        """Emits an event of this environment."""
        if job is not None:
            facts |= {"queue": job.queue.name, "key": job.text_key, "attempt": job.attempt}
        self._dispatcher.emit(Event(name, worker=self.record.id, environment=self.name, **facts))  # type: ignore[arg-type]

    async def run(self) -> None:
        """Connects, works, and reconnects whenever the database was unreachable; until cancelled."""
        settling = asyncio.create_task(self.settler.run())
        watch = asyncio.create_task(self._watch())
        try:
            pause = SHORTEST_PAUSE
            while True:
                began = time.monotonic()
                try:
                    await self._connect()
                    await self._while_up()
                except (DeclarationError, ConfigurationError) as error:
                    if not self._admitted:
                        self.fatal = error
                        self.ready.set()
                        return
                    # Other environments are working already: this one counts as unreachable.
                    self.mark_unreachable(error)
                except Exception as error:
                    self.mark_unreachable(error)
                self.ready.set()
                if time.monotonic() - began > STEADY:
                    pause = SHORTEST_PAUSE
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreading load
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            for task in (settling, watch):
                task.cancel()
            await asyncio.gather(settling, watch, return_exceptions=True)

    def mark_unreachable(self, error: Exception) -> None:
        """Records that the database cannot be reached: claiming stops here until it can."""
        self._lost.set()
        self.up = False
        now = time.monotonic()
        if self._down_since is None or now - self._down_reported_at >= REMIND:
            self._down_since, self._down_reported_at = self._down_since or now, now
            self.event("environment_down", error=str(error), note=self.address)

    async def _connect(self) -> None:
        await self.store.open()
        for queue in self.queues:
            await self.skipped.check(queue)
        if self._since is None:
            self._since = await self.store.now()
        if self.record.slots:  # a process that only sends hints is not listed as a worker
            await heartbeat.enlist(self.store, self.record)
        await self._release_unknown_claims()
        await self._read_controls()
        self._lost.clear()
        away = None if self._down_since is None else time.monotonic() - self._down_since
        self.up, self._down_since = True, None
        self.event("environment_up", seconds=away, note=self.address)
        self.ready.set()
        self._dispatcher.wake()

    def admit(self) -> None:
        """Starts work, with or without this environment: from now on problems here are reported and not raised."""
        self._admitted = True
        self.skipped.admit()

    def works(self, queue: Queue) -> bool:
        """Whether jobs of this queue may be claimed here."""
        return self.up and queue not in self.skipped and queue.name not in self.paused

    async def _while_up(self) -> None:
        """Runs the periodic tasks until one of them cannot reach the database."""
        tasks = [
            asyncio.create_task(self._repeat(heartbeat.BEAT, lambda: heartbeat.beat(self.store, self.record))),
            asyncio.create_task(self._repeat(CONTROLS, self._read_controls)),
            asyncio.create_task(self._repeat(SWEEP, self.sweep)),
            asyncio.create_task(self._repeat(FOREIGN, self._report_foreign)),
            asyncio.create_task(self._repeat(ROLL_UP, self._roll_up_counts)),
            asyncio.create_task(self._repeat(LOOK_AGAIN, self.skipped.check_again)),
            *([asyncio.create_task(self._repeat(PRUNE, self._prune))] if self._rules else []),
            *(
                asyncio.create_task(self._repeat(task.every, functools.partial(self._run_task, task)))
                for task in self._tasks
            ),
            asyncio.create_task(self._listen()),
            *(
                asyncio.create_task(self._repeat(queue.health, functools.partial(self._report_health, queue)))
                for queue in self.queues
                if queue.health is not None
            ),
        ]
        try:
            await self._lost.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.store.close()

    async def _repeat(self, seconds: float, do: Callable[[], Awaitable[object]]) -> None:
        """Repeats a call with jitter; waits first, so that after an outage live workers renew before any sweep."""
        while True:
            await asyncio.sleep(seconds * random.uniform(0.7, 1.0))  # noqa: S311 - spreading load
            try:
                await do()
            except Exception as error:
                self.mark_unreachable(error)

    async def _listen(self) -> None:
        while self._dispatcher.listens:
            try:
                await self.store.database.listen(lambda _payload: self._dispatcher.wake(), LISTEN_PAUSE)
                return
            except Exception:
                # Without wake-ups polling still finds everything; other tasks notice if the database is unreachable.
                await asyncio.sleep(LISTEN_AGAIN)

    async def _watch(self) -> None:
        """Checks every live claim ten times a second: renewals, notes, timeouts, leases about to expire."""
        while True:
            await self.leases.some.wait()
            self._runner.ask()
            await asyncio.sleep(WATCH)
            self._look_after_claims()

    def _look_after_claims(self) -> None:
        for run in self.leases.find_unstarted(UNSTARTED) if self._runner.is_blocked else ():
            # The handlers' loop is blocked: another worker can run the job meanwhile.
            if self._runner.withdraw(run):
                run.job.lost = True
                self.leases.drop(run.job)
                self.settler.put(Settlement(run.job, "released", seconds=0.0))
        for run in self.leases.find_overdue():
            self.event("timed_out", run.job, seconds=run.seconds)
            self._runner.stop(run, "timeout")
        for run in self.leases.take_expiring():
            self._give_up(run)
        if self.up and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        everything, self._renew_all = self._renew_all, False
        try:
            gone = await self.leases.renew(everything=everything, without=self.skipped)
        except Exception as error:
            self._renew_all = self._renew_all or everything
            self.mark_unreachable(error)
            return
        for run in gone:
            self.leases.drop(run.job)
            self._runner.stop(run, "gone")
        for run in gone:
            await self._report_loss(run)

    async def _report_loss(self, run: Run) -> None:
        """Emits the event of a lost claim: cancelled or superseded by a person, otherwise a lost lease."""
        outcome: str | None = None
        error: str | None = None
        with contextlib.suppress(StoreError):
            outcome, error = await self.leases.read_outcome(run.job)
        name = outcome if outcome in ("cancelled", "superseded") else "lease_lost"
        self._emit_ended(name, run.job, run.seconds, error if outcome == name else None)

    def _emit_ended(self, name: str, job: Job, seconds: float | None, error: str | None) -> None:
        """Counts a claim that ended without a settlement of this worker, and emits its event."""
        self._dispatcher.listeners.count_ended(self.name, job.queue.name, name, seconds, None, job.cost)
        self.event(name, job, error=error, seconds=seconds, cost=job.cost)

    def _give_up(self, run: Run) -> None:
        """Stops a handler whose lease is about to expire; if it did not stop at its timeout, settles without it."""
        if run.why == "timeout":
            run.job.lost = True
            ending = retry_or_fail(run.job, Message("attempt.timed_out_running", n=run.job.queue.timeout))
            ending.seconds = run.seconds
            self.settler.put(ending)
        else:
            self._runner.stop(run, "stopping")

    async def sweep(self) -> None:
        """Ends expired claims of any worker, and takes over rows that other programs left running."""
        for queue in self.skipped.others:
            try:
                await self._sweep(queue)
            except (Unreachable, NotMigrated):
                raise
            except Busy:
                continue  # the next sweep will do
            except (StoreError, DeclarationError) as error:
                # The database refuses this queue only: its table may have changed.
                if await self.skipped.check(queue, anew=True):
                    self.event("claim_refused", queue=queue.name, error=str(error))

    async def _sweep(self, queue: Queue) -> None:
        for settlement in await self.store.sweep(queue):
            self._emit_ended(settlement.outcome, settlement.job, settlement.seconds, settlement.error)
            self._dispatcher.wake()
        count = await self.store.take_over(queue)
        if count:
            self.event("taken_over", queue=queue.name, count=count)
            self._dispatcher.wake()

    async def _report_foreign(self) -> None:
        for queue in self.skipped.others:
            # Only informative: a slow count on a large table does not mean that the database is unreachable.
            with contextlib.suppress(StoreError):
                count = await self.store.foreign(queue)
                if count:
                    note = "or more" if count >= orphans.MOST_COUNTED else None
                    self.event("foreign_found", queue=queue.name, count=count, note=note)

    async def _report_health(self, queue: Queue) -> None:
        # Only informative: a slow count on a large table does not mean that the database is unreachable.
        with contextlib.suppress(StoreError, DeclarationError):
            if queue not in self.skipped:
                await self._dispatcher.health.report(self, queue, self._dispatcher.slots)

    async def _roll_up_counts(self) -> None:
        # Another worker may be doing it, or the role may not delete: the counts are right in any case.
        with contextlib.suppress(StoreError):
            await counts.roll_up(self.store.database)

    async def _prune(self) -> None:
        """Applies the retention rules for a moment; one that cannot be applied stops neither the others nor work."""

        def report_failure(rule: RetentionRule, error: Exception) -> None:
            self.event("prune_failed", note=rule.name, error=str(error))

        # The database may refuse what is about all rules, too; other tasks notice if it is unreachable.
        with contextlib.suppress(StoreError):
            removed = await prune_some(self.store, self._rules, self.record.id, PRUNE_SECONDS, report_failure)
            for name, count in removed.items():
                self.event("pruned", note=name, count=count)

    async def _run_task(self, task: PeriodicTask) -> None:
        """Runs a periodic task; its failure does not stop work, and others notice if the database is unreachable."""
        with contextlib.suppress(Unreachable, Busy):
            try:
                await task.run(self.store, self.event)
            except (TabellionError, OSError, LookupError, TypeError, ValueError) as error:
                # Pipelines add to these tasks: their mistakes must not end the connection.
                self.event("task_failed", note=task.name, error=f"{type(error).__name__}: {error}")

    async def _read_controls(self) -> None:
        rows = await self.store.database.fetch(
            "SELECT queue, paused_at, running_limit, updated_at FROM tabellion_queues"
        )
        touched = {row["queue"]: row["updated_at"] for row in rows}
        # A cancelled job is noticed when its lease is renewed: a change of its queue's controls means to renew now.
        self._renew_all = self._renew_all or touched != self._touched
        self._touched = touched
        paused = {row["queue"] for row in rows if row["paused_at"] is not None}
        resumed = self.paused - paused
        self.paused = paused
        self.limits = {row["queue"]: row["running_limit"] for row in rows if row["running_limit"] is not None}
        if resumed:
            self._dispatcher.wake()

    async def _release_unknown_claims(self) -> None:
        """Releases claims of which the answer never reached this worker: no handler will run them."""
        if self._since is None or self.claims:
            return
        queues = {queue.name: queue for queue in self.skipped.others}
        for row in await heartbeat.find_unknown_claims(self.store, self.record.id, self._since, self.leases.tokens()):
            if row["queue"] in queues:
                job = (await self.store.bind(queues[row["queue"]])).job(row)
                self.settler.put(Settlement(job, "released", seconds=0.0))

    def on_settled(self, settlement: Settlement, verdict: SettlementVerdict) -> None:
        """Forgets the claim of a settlement that was written or refused, and passes it on."""
        self.leases.drop(settlement.job)
        self._dispatcher.on_settled(self, settlement, verdict)

    async def close(self, ending: str) -> None:
        """Marks the worker as stopped in the database and closes the connections."""
        with contextlib.suppress(StoreError, asyncio.TimeoutError):
            async with asyncio.timeout(2):
                if self.up:
                    await heartbeat.beat(self.store, self.record)
                    await heartbeat.leave(self.store, self.record.id, ending)
        self.up = False
        await self.store.close()
