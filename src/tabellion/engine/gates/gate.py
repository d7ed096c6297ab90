"""A gate as one process uses it: takes slots in small batches, hands them to callers, reports outcomes to the fleet."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tabellion.engine.gates.passes import Pass, Slot
from tabellion.engine.gates.row import GateRow, format_epoch
from tabellion.engine.gates.state import CallOutcome, CallOutcomes, TurnResult
from tabellion.errors import GateClosed, StoreError
from tabellion.messages import Message

MOST_AT_ONCE = 64  # slots taken in one turn
SOON = 0.03  # seconds: a slot this near counts as due
KEEP = 10.0  # seconds after which an unused slot is dropped
NEWS_PAUSE = 0.5  # seconds that outcomes which are not urgent may wait before they are reported
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
PATIENCE = 60.0  # seconds a caller waits for its slot before GateClosed is raised
AGAIN = 1.0  # seconds after which a turn that failed is tried again
AWAY = 5.0  # seconds that turns may fail before callers get GateClosed instead of waiting

T = TypeVar("T")


class Gate:
    """The access of one process to a model. Runs in one event loop; callers may be in any."""

    def __init__(
        self, row: GateRow, opened: Callable[[], None] = lambda: None,
        changed: Callable[[str, str], None] = lambda _name, _closed: None,
    ) -> None:  # fmt: skip
        self.name = row.name
        self._row = row
        self._opened = opened  #: called when slots are due that no caller waits for
        self._changed = changed  #: called with the gate's name and why it closed, or an empty text when it opened
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._ok_at = 0.0
        self._slots: deque[Slot] = deque()
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._promised: set[str] = set()  #: tokens of jobs that were claimed for a slot and have not used it
        self._requested = 0  #: slots that claims have asked for
        self._withdrawn = False  #: whether no claim will be made for them
        self._outcomes = CallOutcomes()
        self._epoch: tuple[int, int] | None = None
        self._closed, self._reopens_at, self._wary = "", 0.0, False
        self._left: float | None = None  #: dollars of today's budget, when there is one
        self._again_at = 0.0
        self._rests_until = 0.0  #: set after a turn that failed
        self._failing_since: float | None = None  #: when the first of the turns was begun that have failed since
        self._reported_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stir = asyncio.Event()
        self._turned = asyncio.Condition()
        self._turns = 0
        self._turning = False
        self._at_once = False  #: whether a caller waits in flush()
        self._peeking = False
        self._peek_task: asyncio.Task[None] | None = None  #: kept so that it is not garbage-collected
        self.trouble = ""  #: why the gate's own database cannot be reached

    # -- for callers, in any thread ----------------------------------------------------------------------------

    async def admit(self, estimate: float = 0.0, job: str | None = None) -> Pass:
        """Waits for this call's turn; raises GateClosed when it will not come soon."""
        return await self.run_in_loop(self._admit(estimate, job))

    async def run_in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Awaits a coroutine in the gate's own loop."""
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def call_in_loop(self, function: Callable[[CallOutcome], None], outcome: CallOutcome) -> None:
        """Calls a function in the gate's own loop."""
        if threading.get_ident() == self._thread:
            function(outcome)
        else:
            self.schedule_in_loop(function, outcome)

    def schedule_in_loop(self, function: Callable[[CallOutcome], None], outcome: CallOutcome) -> None:
        """Calls a function in the gate's own loop, later."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the gate has ended
            self._loop.call_soon_threadsafe(function, outcome)

    # -- for claims --------------------------------------------------------------------------------------------

    def room(self, want: int) -> int:
        """How many jobs may be claimed now; requests slots for the rest; `opened` is called when they are due."""
        self._withdrawn = False
        if self.is_closed:
            self._requested = 1
            self._schedule()
            return 0
        ready = self.ready()
        self._requested = max(0, want - ready)
        if self._requested:
            self._stir.set()
        return min(want, ready)

    @property
    def is_closed(self) -> bool:
        """Whether the gate is closed for this process; with a probe's slot it is not."""
        probing = bool(self._slots) and self._wary
        return bool(self._closed) and time.monotonic() < self._reopens_at and not probing

    async def is_closed_for_all(self) -> bool:
        """Whether the gate's row says that it is closed; takes no slot, as a caller's turn would."""
        with contextlib.suppress(StoreError):
            turn = await self._row.peek()
            return turn is not None and bool(turn.closed)
        return False

    def withdraw(self) -> None:
        """Withdraws the requests of claims that will not be made: others may probe the model instead."""
        self._requested, self._withdrawn = 0, True
        self._abandon_spare()

    def _abandon_spare(self) -> None:
        """Reports the slots of a wary breaker that no caller and no job waits for as abandoned."""
        spare = len(self._slots) - len(self._promised) - len(self._waiting)
        if self._wary and spare > 0:
            for _ in range(spare):
                self._slots.pop()
            self.add_outcome({"abandoned": spare})

    def ready(self) -> int:
        """The number of slots that are due and not promised to a job."""
        self._prune()
        now = time.monotonic()
        due = sum(1 for slot in self._slots if slot.at <= now + SOON)
        return max(0, due - len(self._promised) - len(self._waiting))

    def reserve_call(self, job: str) -> None:
        """Reserves a slot for a claimed job, which will make its call soon."""
        self._promised.add(job)

    def forget(self, job: str) -> None:
        """Drops the reservation of a job that has ended."""
        self._promised.discard(job)

    # -- inside, in the gate's loop ----------------------------------------------------------------------------

    def add_outcome(self, outcome: CallOutcome) -> None:
        """Adds the outcome of a call to those to be reported."""
        pending = self._outcomes
        pending.ok += outcome.get("ok", 0)
        pending.failed += outcome.get("failed", 0)
        if outcome.get("failed"):
            # No further call from this process before the fleet knows of the failure.
            pending.abandoned += len(self._slots) if self._wary else 0
            self._slots.clear()
        pending.abandoned += outcome.get("abandoned", 0)
        pending.spent += outcome.get("spent", 0.0)
        pending.paid += outcome.get("paid", 0.0)
        pending.needed = max(pending.needed, outcome.get("needed", 0.0))
        pending.why = outcome.get("why", pending.why)
        pending.refused = outcome.get("refused", pending.refused)
        if "throttled" in outcome:
            pending.throttled.append(outcome["throttled"])
        if "epoch" in outcome:
            self._ok_at = time.monotonic()
            if outcome["epoch"] not in pending.epochs:
                pending.epochs.append(outcome["epoch"])
        self._stir.set()

    async def flush(self) -> str:
        """Waits until all outcomes have been written; returns why the gate is closed now, or an empty text."""
        if not self._outcomes and not self._turning:
            return self._closed if self.is_closed else ""
        goal = self._turns + bool(self._turning) + bool(self._outcomes)
        self._at_once = True
        self._stir.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5), self._turned:
                await self._turned.wait_for(lambda: self._turns >= goal)
        return self._closed if self.is_closed else ""

    async def _admit(self, estimate: float, job: str | None) -> Pass:
        promised = job in self._promised
        self._promised.discard(job or "")
        if self.is_closed:
            raise self._closure()
        slot = self._take() if promised or not self._waiting else None
        if slot is None:
            slot = await self._wait()
        if self._left is not None and estimate > self._left - max(0.0, self._outcomes.spent):
            # The day's budget does not cover the call: the gate closes for all processes until tomorrow.
            self._slots.appendleft(slot)
            self.add_outcome({"needed": estimate})
            await self.flush()
            raise self._closure()
        self._outcomes.spent += estimate
        return Pass(self, slot, estimate)

    async def _wait(self) -> Slot:
        future: asyncio.Future[Slot] = self._loop.create_future()
        self._waiting.append(future)
        if self._slots and self._timer is None:
            # Slots that are already here need no turn: without a timer this caller would wait for the next one.
            after = self._slots[0].at - time.monotonic()
            self._timer = self._loop.call_later(max(after, 0.001), self._grant_slots)
        self._stir.set()
        try:
            async with asyncio.timeout(PATIENCE):
                return await future
        except (TimeoutError, asyncio.CancelledError) as error:
            if future.done() and not future.cancelled() and future.exception() is None:
                # Its slot came at the same moment: others may call instead.
                self.add_outcome({"abandoned": 1})
            if isinstance(error, asyncio.CancelledError):
                raise
            why = self.trouble or Message("gate.too_many_waiting")
            raise GateClosed(self.name, why, after=LONGEST_PAUSE * 10) from None
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(future)

    def _take(self) -> Slot | None:
        self._prune()
        return self._slots.popleft() if self._slots and self._slots[0].at <= time.monotonic() else None

    def _prune(self) -> None:
        """Drops slots that were not used; while the breaker is wary, reports them, so that others may call instead."""
        while self._slots and time.monotonic() - self._slots[0].at > KEEP:
            self._slots.popleft()
            if self._wary:
                self.add_outcome({"abandoned": 1})

    def _grant_slots(self) -> None:
        """Gives due slots to waiting callers, and sets a timer for the next."""
        self._timer = None
        while self._waiting:
            slot = self._take()
            if slot is None:
                break
            future = self._waiting.popleft()
            if future.done():
                self._slots.appendleft(slot)
            else:
                future.set_result(slot)
        if self._slots and (self._waiting or self._requested):
            now = time.monotonic()
            if not self._waiting and self.ready():
                self._requested = 0
                self._opened()
            else:
                later = next((slot.at for slot in self._slots if slot.at > now), now + SOON)
                self._timer = self._loop.call_later(max(later - now, 0.001), self._grant_slots)
        if self._waiting and len(self._slots) < len(self._waiting):
            self._stir.set()

    def _closure(self) -> GateClosed:
        why = self._closed or Message("gate.budget_too_small")
        return GateClosed(self.name, why, after=max(1.0, self._reopens_at - time.monotonic()))

    def _schedule(self) -> None:
        """Sets a timer for the time when a closed gate may be open again."""
        if self._timer is None:
            self._timer = self._loop.call_later(max(0.05, self._reopens_at - time.monotonic()), self._reopen)

    def _reopen(self) -> None:
        self._timer = None
        self._stir.set()

    def look(self, epoch: str = "") -> None:
        """Reads the gate's row again after a change in the database; slots of another epoch are dropped."""
        if epoch and epoch != format_epoch(self._epoch):
            self._slots.clear()
        if (self._slots or self._waiting or self._closed or self._requested) and not self._peeking:
            self._peeking = True
            self._peek_task = self._loop.create_task(self._peek())

    async def run(self) -> None:
        """Takes turns at the database until cancelled."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            now = time.monotonic()
            if now < self._rests_until:
                self._set_timer()
                continue
            needs_slots = self._short > 0 and now >= self._again_at and not self.is_closed
            is_due = self._wary or self._at_once or now >= self._reported_at + NEWS_PAUSE
            has_report = self._outcomes.urgent or (bool(self._outcomes) and is_due)
            if needs_slots or has_report:
                await self._turn(min(self._short, MOST_AT_ONCE) if needs_slots else 0)
            self._set_timer()

    @property
    def _short(self) -> int:
        """How many slots are missing."""
        return self._requested + len(self._waiting) + len(self._promised) - len(self._slots)

    def _set_timer(self) -> None:
        """Sets a timer for when outcomes have to be reported, or when new slots may be available."""
        now = time.monotonic()
        times = [self._reported_at + NEWS_PAUSE] if self._outcomes else []
        if self._short > 0:
            times.append(max(self._again_at, self._reopens_at if self._closed else 0.0))
        if times:
            due = max(min(times), self._rests_until)
            self._loop.call_later(max(SHORTEST_PAUSE, due - now), self._stir.set)

    async def _peek(self) -> None:
        """Reads the row without changing it: a change would make every other process read it too."""
        # Wake-ups that come from now on start another read.
        await asyncio.sleep(0.002)
        self._peeking = False
        with contextlib.suppress(StoreError):
            turn = await self._row.peek()
            if turn is not None and not self._turning:
                self._apply(turn, time.monotonic())
        self._stir.set()

    async def _turn(self, want: int) -> None:
        outcomes, self._outcomes, self._at_once = self._outcomes, CallOutcomes(), False
        self._turning, asked_at = True, time.monotonic()
        try:
            outcomes.ok_ago = asked_at - self._ok_at
            turn = await self._row.turn(outcomes, max(0, want))
            self.trouble, self._failing_since = "", None
        except Exception as error:
            # Whatever the error is, this loop must continue for its callers; those that time out get it as the reason.
            self.trouble = Message("gate.database_unreachable", text=error)
            self._rests_until = time.monotonic() + AGAIN
            self._outcomes = outcomes.combine(self._outcomes)
            self._stir.set()
            self._close_while_away(asked_at)
            return
        finally:
            self._turning = False
        self._reported_at = time.monotonic()
        pause = min(max(turn.again, SHORTEST_PAUSE), LONGEST_PAUSE)
        self._again_at = self._reported_at + pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreading load
        self._apply(turn, asked_at)
        async with self._turned:
            self._turns += 1
            self._turned.notify_all()

    def _close_while_away(self, asked_at: float) -> None:
        """Closes the gate for this process, for longer each time, if its database has not answered for a while."""
        self._failing_since = self._failing_since or asked_at
        failing_for = time.monotonic() - self._failing_since
        if failing_for >= AWAY:
            if not self._closed:
                self._changed(self.name, self.trouble)
            self._closed, self._reopens_at = self.trouble, time.monotonic() + min(failing_for, PATIENCE)
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(self._closure())
        self._waiting.clear()
        self._schedule()

    def _apply(self, turn: TurnResult, asked_at: float) -> None:
        now = time.monotonic()
        if turn.epoch != self._epoch:
            self._slots.clear()
            self._epoch = turn.epoch
        # Counted from the time of the request: network delay must not make the fleet's spacing uneven.
        self._slots.extend(Slot(asked_at + after, turn.epoch) for after in turn.slots)
        was_closed, self._closed, self._wary = self._closed, turn.closed, turn.wary
        self._reopens_at, self._left = now + turn.reopens, turn.left
        if self._withdrawn:
            self._abandon_spare()
        if bool(was_closed) != bool(turn.closed):
            self._changed(self.name, turn.closed)
        if self.is_closed:
            self._refuse_waiting()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._grant_slots()
        if was_closed and not turn.closed:
            self._opened()
