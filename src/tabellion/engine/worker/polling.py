"""The poller: claims into free slots, environment by environment, queue by queue, and waits in between."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabellion.engine.job import Job
from tabellion.engine.worker.slots import FAST, Lane
from tabellion.errors import Busy, NotMigrated, Unreachable

if TYPE_CHECKING:
    from tabellion.engine.worker.dispatcher import Dispatcher

PATIENCE = 0.25  # seconds a round waits for one database before it continues with the next
GATHER = 0.004  # seconds to wait for more free slots when there are few: one claim instead of many
LONGEST_GATHER = 0.02  # seconds, where claims are slow anyway
REST, SHORT_REST = 10.0, 0.5  # seconds before a lane whose claim was refused is tried again
MOST_AT_ONCE = 250  # rows in one claim: they start while the next are being claimed
PER_ROW = 3e-5  # seconds of a claim for each of its rows
CROWDED = 0.01  # seconds that it takes beyond them on a crowded machine, where larger claims cost all workers less
LONGEST_AHEAD = 0.5  # seconds after which a job claimed ahead of a slot is released, unless jobs start all the time
MOST_UNWRITTEN = 5000  # settlements that may wait to be written before claiming stops in their environment


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """A claim that was sent to the database."""

    n: int
    asked_at: float  #: on the monotonic clock
    task: asyncio.Task[list[Job]]


class Poller:
    """The claiming loop of one worker."""

    def __init__(self, poll: float, dispatcher: Dispatcher) -> None:
        self._poll = poll
        self._dispatcher = dispatcher
        self._slots = dispatcher.slots
        self._runner = dispatcher.runner
        self._bell = asyncio.Event()
        self._late: dict[Lane, PendingClaim] = {}
        self._took = 0.0  #: moving average of the seconds that a claim takes beyond its rows
        self._look_again_at = 0.0  #: when every lane is polled again, on the monotonic clock
        self.stopping = False

    def poll_now(self) -> None:
        """Polls every lane now, because there may be new rows."""
        for lane in self._slots.lanes:
            lane.more = True
        self._bell.set()

    def on_slot_freed(self) -> None:
        """Polls now if rows were left unclaimed, because a slot is free."""
        if any(lane.more for lane in self._slots.lanes):
            self._bell.set()

    def stop(self) -> None:
        """Stops claiming."""
        self.stopping = True
        self._bell.set()

    async def run(self) -> None:
        """Claims until stopped."""
        while not self.stopping:
            self._bell.clear()
            await self._gather()
            self._look_again_when_due()
            await self._round()
            if self.stopping:
                break
            # Rows are left and slots are free: claim again at once, but let finished jobs be processed first.
            await asyncio.sleep(0)
            if self._could_claim():
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_again_at - time.monotonic()):
                    await self._bell.wait()
        for lane, claim in list(self._late.items()):
            with contextlib.suppress(Exception, asyncio.CancelledError):
                self._dispatcher.release(lane, await claim.task)

    def _look_again_when_due(self) -> None:
        """Once per poll, treats every lane as having rows, so that a busy lane does not starve an earlier one."""
        now = time.monotonic()
        if now >= self._look_again_at:
            self._look_again_at = now + self._poll * random.uniform(0.5, 1.0)  # noqa: S311 - spreading load
            for lane in self._slots.lanes:
                lane.more = True
                late = self._slots.withdraw(lane, lane.begun, now - LONGEST_AHEAD)
                lane.begun = 0
                if late:
                    # The jobs before them are slower than expected: these would wait for longer than a poll.
                    lane.seconds = FAST
                    self._dispatcher.release(lane, late)

    async def _gather(self) -> None:
        """Waits for more free slots: claiming many rows costs the database hardly more than claiming one."""
        slots = self._slots
        if self._took >= CROWDED and slots.free < slots.concurrency * 3 // 4:
            await asyncio.sleep(min(self._took, LONGEST_GATHER))
        elif slots.free < slots.concurrency // 10 and (not slots.waiting or slots.waiting > slots.concurrency):
            await asyncio.sleep(GATHER)

    def _may_claim(self, lane: Lane) -> bool:
        """Whether there may be rows, the database is up, and the handlers' loop is not blocked."""
        blocked = lane.queue.is_async and self._runner.is_blocked
        room = len(lane.environment.settler) < MOST_UNWRITTEN
        return lane.more and lane.is_open and room and lane not in self._late and not blocked

    def _could_claim(self) -> bool:
        shared = self._slots.has_shares
        return any(
            self._may_claim(lane)
            and self._slots.room(lane, reserve=shared) > 0
            and (lane.gate is None or lane.gate.ready() > 0)
            and (lane.pace is None or lane.pace.room(time.monotonic()) > 0)
            for lane in self._slots.lanes
        )

    async def _round(self) -> None:
        """Claims once from every lane in order; with shares, a second pass uses slots that their lanes do not need."""
        for reserve in (True, False) if self._slots.has_shares else (False,):
            for lane in self._slots.in_turn():
                if self.stopping:
                    return
                if self._may_claim(lane):
                    n = self._size(lane, self._slots.room(lane, reserve=reserve))
                    if lane.pace is not None:
                        n = min(n, lane.pace.room(time.monotonic()))
                    if lane.gate is not None and n > 0:
                        # No more jobs than may call: a queue that seemed empty must not hold slots that others need.
                        n = lane.gate.room(n if lane.flowing else 1)
                    if n > 0:
                        await self._claim(lane, n)

    def _size(self, lane: Lane, room: int) -> int:
        """How many rows to claim: half of what fits, so that one half runs and settles while the other is claimed.

        On a crowded machine other workers run meanwhile, and every switch between them costs cold caches.
        """
        half = (self._slots.concurrency + self._slots.count_ahead(lane) + 1) // 2
        return min(room, MOST_AT_ONCE, half if self._took < CROWDED else room)

    async def _claim(self, lane: Lane, n: int) -> None:
        claim: PendingClaim | None = self._ask(lane, n)
        while claim is not None:
            done, _ = await asyncio.wait({claim.task}, timeout=PATIENCE)
            elapsed = time.monotonic() - claim.asked_at - claim.n * PER_ROW
            self._took += 0.2 * (max(elapsed, 0.0) - self._took)
            if not done:
                # A slow database must not delay the others: its answer is processed when it arrives.
                self._late[lane] = claim
                claim.task.add_done_callback(lambda _: self._on_late_claim(lane))
                return
            following = self._ask_on(lane, claim)
            if following is not None:
                await asyncio.sleep(0)  # send the next claim before Python is busy with this one's jobs
            self._take(lane, claim)
            claim = following

    def _ask(self, lane: Lane, n: int) -> PendingClaim:
        lane.environment.claims += 1
        lane.more = False  # ring() during the claim sets it again
        claiming = lane.environment.store.claim(
            lane.queue, n, self._dispatcher.record.id, limited=lane.queue.name in lane.environment.limits
        )
        return PendingClaim(n, time.monotonic(), asyncio.create_task(claiming))

    def _ask_on(self, lane: Lane, claim: PendingClaim) -> PendingClaim | None:
        """The next claim of quick jobs, sent while these start; None if other lanes come first or there is no room."""
        if (
            claim.task.exception() is not None
            or len(claim.task.result()) < claim.n
            or not self._slots.count_ahead(lane)
        ):
            return None
        lane.more = True
        first = next(other for other in self._slots.lanes if other is lane or self._may_claim(other))
        room = self._slots.room(lane, reserve=False) - claim.n
        n = self._size(lane, room)
        if self.stopping or first is not lane or not self._may_claim(lane) or n < self._slots.concurrency // 2:
            return None
        return self._ask(lane, n)

    def _on_late_claim(self, lane: Lane) -> None:
        claim = self._late.pop(lane)
        if not self.stopping:
            self._take(lane, claim)
            self._bell.set()
        else:
            self._late[lane] = claim

    def _take(self, lane: Lane, claim: PendingClaim) -> None:
        lane.environment.claims -= 1
        try:
            jobs = claim.task.result()
        except (Unreachable, NotMigrated) as error:
            lane.more = True
            lane.environment.mark_unreachable(error)
            return
        except Exception as error:
            # The database refused the claim: this lane rests, the others continue.
            lane.more = True
            lane.rests_until = time.monotonic() + (SHORT_REST if isinstance(error, Busy) else REST)
            lane.environment.event("claim_refused", queue=lane.queue.name, error=str(error))
            return
        if lane.pace is not None:
            lane.pace.take(len(jobs), time.monotonic())
        if lane.queue.health is not None:
            self._dispatcher.health.report_claim(lane.environment, lane.queue, claim.n, len(jobs))
        lane.flowing = len(jobs) >= claim.n
        if lane.flowing:
            lane.more = True
        if not jobs:
            return
        room = self._slots.room(lane, reserve=False)
        if jobs[room:]:
            # Other lanes filled the slots while the database was slow.
            self._dispatcher.release(lane, jobs[room:])
            lane.more = True
        if self.stopping:
            self._dispatcher.release(lane, jobs[:room])
        else:
            self._dispatcher.begin(lane, jobs[:room], claim.asked_at)
