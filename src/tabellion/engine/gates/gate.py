"""A gate as one process uses it: slots taken in small batches, handed to callers in time, news told to the fleet."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tabellion.engine.gates.row import GateRow, format_epoch
from tabellion.engine.gates.state import CallOutcomes, ThrottledCall, TurnResult
from tabellion.errors import GateClosed, StoreError
from tabellion.messages import Message

MOST_AT_ONCE = 64  # slots taken in one turn
SOON = 0.03  # seconds: a slot so near is as good as there
KEEP = 10.0  # seconds after which an unused slot is worth nothing
NEWS_PAUSE = 0.5  # seconds that good news may wait to be told
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
PATIENCE = 60.0  # seconds a caller waits for its slot before it is told to come back later
AGAIN = 1.0

T = TypeVar("T")


@dataclass(slots=True)
class Slot:
    """The right to make one call from a certain time on (this process's monotonic clock)."""

    at: float
    epoch: tuple[int, int]


class Pass:
    """One call on its way: whoever made it says what became of it, once."""

    def __init__(self, gate: Gate, slot: Slot, estimate: float) -> None:
        self._gate = gate
        self._epoch, self._breaker = slot.epoch
        self._estimate = estimate
        self._made_at = time.monotonic()
        self._told = False

    def record_success(self, cost: float | None) -> None:
        """The upstream answered, and this is what it cost."""
        self._tell(ok=1, epoch=self._breaker, paid=cost or 0.0, spent=(cost or 0.0) - self._estimate)

    def record_throttle(self, hint: float | None) -> None:
        """The upstream wants fewer calls."""
        refusal = ThrottledCall(hint, self._epoch, time.monotonic() - self._made_at)
        self._tell(throttled=refusal, epoch=self._breaker, spent=-self._estimate)

    def record_failure(self, why: str) -> None:
        """The upstream, or the way to it, is in trouble."""
        self._tell(failed=1, why=why, spent=-self._estimate)

    def record_refusal(self, why: str) -> None:
        """The upstream does not accept our key."""
        self._tell(refused=why, spent=-self._estimate)

    def record_abandoned(self) -> None:
        """Nobody waited for the answer: it says nothing, and may have cost what was expected."""
        self._tell(abandoned=1)

    async def flush(self) -> str:
        """Waits until the fleet knows; returns why the gate is closed now, or nothing."""
        return await self._gate.elsewhere(self._gate.flush())

    def _tell(self, **news: Any) -> None:
        if not self._told:
            self._told = True
            self._gate.here(self._gate.tell, news)


class Gate:
    """What stands before a model, in this process. Lives in one event loop; callers may be in any."""

    def __init__(
        self, row: GateRow, opened: Callable[[], None] = lambda: None,
        changed: Callable[[str, str], None] = lambda _name, _closed: None,
    ) -> None:  # fmt: skip
        self.name = row.name
        self._row = row
        self._opened = opened  #: called when slots came due that nobody in here waits for
        self._changed = changed  #: called with the gate's name and why it is closed, or nothing when it opens
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._ok_at = 0.0
        self._slots: deque[Slot] = deque()
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._promised: set[str] = set()  #: jobs that were claimed for a slot and have not called yet
        self._wanted = 0  #: slots that claims would like to have
        self._news = CallOutcomes()
        self._epoch: tuple[int, int] | None = None
        self._closed, self._reopens_at, self._wary = "", 0.0, False
        self._left: float | None = None  #: dollars of today's budget, when there is one
        self._again_at = 0.0
        self._rests_until = 0.0  #: after a turn that failed
        self._told_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stir = asyncio.Event()
        self._turned = asyncio.Condition()
        self._turns = 0
        self._turning = False
        self._at_once = False  #: someone waits for the news to be told
        self._peeking = False
        self._looks: asyncio.Task[None] | None = None  #: so that it is not forgotten on the way
        self.trouble = ""  #: why the gate's own database does not answer

    # -- for callers, in any thread ----------------------------------------------------------------------------

    async def admit(self, estimate: float = 0.0, job: str | None = None) -> Pass:
        """Waits for this call's turn; raises GateClosed when it will not come soon."""
        return await self.elsewhere(self._admit(estimate, job))

    async def elsewhere(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Awaits something in the gate's own loop."""
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def here(self, function: Callable[[Mapping[str, Any]], None], news: Mapping[str, Any]) -> None:
        """Calls something in the gate's own loop."""
        if threading.get_ident() == self._thread:
            function(news)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to hear
            self._loop.call_soon_threadsafe(function, news)

    # -- for claims --------------------------------------------------------------------------------------------

    def room(self, want: int) -> int:
        """How many jobs may be claimed now; slots for the rest are asked for, and `opened` is called when they come."""
        if self._is_closed():
            self._wanted = 1
            self._schedule()
            return 0
        ready = self.ready()
        self._wanted = max(0, want - ready)
        if self._wanted:
            self._stir.set()
        return min(want, ready)

    def ready(self) -> int:
        """Slots that are due and not promised to anyone."""
        self._prune()
        now = time.monotonic()
        due = sum(1 for slot in self._slots if slot.at <= now + SOON)
        return max(0, due - len(self._promised) - len(self._waiting))

    def promise(self, job: str) -> None:
        """A job was claimed for a slot: it will call soon."""
        self._promised.add(job)

    def forget(self, job: str) -> None:
        """The job has ended."""
        self._promised.discard(job)

    # -- inside, in the gate's loop ----------------------------------------------------------------------------

    def tell(self, news: Mapping[str, Any]) -> None:
        """Notes what became of a call."""
        mine = self._news
        mine.ok += news.get("ok", 0)
        mine.failed += news.get("failed", 0)
        if news.get("failed"):
            # Not one more call from here before the fleet has heard of it.
            mine.abandoned += len(self._slots) if self._wary else 0
            self._slots.clear()
        mine.abandoned += news.get("abandoned", 0)
        mine.spent += news.get("spent", 0.0)
        mine.paid += news.get("paid", 0.0)
        mine.needed = max(mine.needed, news.get("needed", 0.0))
        mine.why = news.get("why", mine.why)
        mine.refused = news.get("refused", mine.refused)
        if "throttled" in news:
            mine.throttled.append(news["throttled"])
        if "epoch" in news:
            self._ok_at = time.monotonic()
            if news["epoch"] not in mine.epochs:
                mine.epochs.append(news["epoch"])
        self._stir.set()

    async def flush(self) -> str:
        """Waits until what was told has been written."""
        if not self._news and not self._turning:
            return self._closed if self._is_closed() else ""
        goal = self._turns + bool(self._turning) + bool(self._news)
        self._at_once = True
        self._stir.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5), self._turned:
                await self._turned.wait_for(lambda: self._turns >= goal)
        return self._closed if self._is_closed() else ""

    async def _admit(self, estimate: float, job: str | None) -> Pass:
        promised = job in self._promised
        self._promised.discard(job or "")
        if self._is_closed():
            raise self._closure()
        slot = self._take() if promised or not self._waiting else None
        if slot is None:
            slot = await self._wait()
        if self._left is not None and estimate > self._left - max(0.0, self._news.spent):
            # Not the call's fault, and not for this process alone: the whole gate waits for tomorrow's money.
            self._slots.appendleft(slot)
            self.tell({"needed": estimate})
            await self.flush()
            raise self._closure()
        self._news.spent += estimate
        return Pass(self, slot, estimate)

    async def _wait(self) -> Slot:
        future: asyncio.Future[Slot] = self._loop.create_future()
        self._waiting.append(future)
        if self._slots and self._timer is None:
            # Nobody asks for slots that are already here: without a timer this one would wait for the next turn.
            after = self._slots[0].at - time.monotonic()
            self._timer = self._loop.call_later(max(after, 0.001), self._deal)
        self._stir.set()
        try:
            async with asyncio.timeout(PATIENCE):
                return await future
        except TimeoutError:
            why = self.trouble or Message("gate.too_many_waiting")
            raise GateClosed(self.name, why, after=LONGEST_PAUSE * 10) from None
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(future)

    def _take(self) -> Slot | None:
        self._prune()
        return self._slots.popleft() if self._slots and self._slots[0].at <= time.monotonic() else None

    def _prune(self) -> None:
        """Drops slots that nobody wanted; if one was to find out whether the model is back, another may."""
        while self._slots and time.monotonic() - self._slots[0].at > KEEP:
            self._slots.popleft()
            if self._wary:
                self.tell({"abandoned": 1})

    def _deal(self) -> None:
        """Gives due slots to those who wait, and wakes up for the next."""
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
        if self._slots and (self._waiting or self._wanted):
            now = time.monotonic()
            if not self._waiting and self.ready():
                self._wanted = 0
                self._opened()
            else:
                later = next((slot.at for slot in self._slots if slot.at > now), now + SOON)
                self._timer = self._loop.call_later(max(later - now, 0.001), self._deal)
        if self._waiting and len(self._slots) < len(self._waiting):
            self._stir.set()

    def _is_closed(self) -> bool:
        """Closed for this process: whoever has a slot may use it, and be the one who finds out."""
        probing = bool(self._slots) and self._wary
        return bool(self._closed) and time.monotonic() < self._reopens_at and not probing

    def _closure(self) -> GateClosed:
        why = self._closed or Message("gate.budget_too_small")
        return GateClosed(self.name, why, after=max(1.0, self._reopens_at - time.monotonic()))

    def _schedule(self) -> None:
        """Wakes claims up when a closed gate may be open again."""
        if self._timer is None:
            self._timer = self._loop.call_later(max(0.05, self._reopens_at - time.monotonic()), self._reopen)

    def _reopen(self) -> None:
        self._timer = None
        self._stir.set()

    def look(self, epoch: str = "") -> None:
        """Something changed in the database: perhaps this gate, whose slots of another epoch are worth nothing then."""
        if epoch and epoch != format_epoch(self._epoch):
            self._slots.clear()
        if (self._slots or self._waiting or self._closed or self._wanted) and not self._peeking:
            self._peeking = True
            self._looks = self._loop.create_task(self._peek())

    async def run(self) -> None:
        """Takes turns at the database until cancelled."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            now = time.monotonic()
            if now < self._rests_until:
                self._come_back()
                continue
            asking = self._short > 0 and now >= self._again_at and not self._is_closed()
            old = self._wary or self._at_once or now >= self._told_at + NEWS_PAUSE
            telling = self._news.urgent or (bool(self._news) and old)
            if asking or telling:
                await self._turn(min(self._short, MOST_AT_ONCE) if asking else 0)
            self._come_back()

    @property
    def _short(self) -> int:
        """How many slots are missing."""
        return self._wanted + len(self._waiting) + len(self._promised) - len(self._slots)

    def _come_back(self) -> None:
        """Looks again when news are old enough to be told, or when asking makes sense."""
        now = time.monotonic()
        times = [self._told_at + NEWS_PAUSE] if self._news else []
        if self._short > 0:
            times.append(max(self._again_at, self._reopens_at if self._closed else 0.0))
        if times:
            due = max(min(times), self._rests_until)
            self._loop.call_later(max(SHORTEST_PAUSE, due - now), self._stir.set)

    async def _peek(self) -> None:
        """Looks without changing anything: others would look in turn, and so on."""
        # News that come from now on are looked at again.
        await asyncio.sleep(0.002)
        self._peeking = False
        with contextlib.suppress(StoreError):
            turn = await self._row.peek()
            if turn is not None and not self._turning:
                self._take_in(turn, time.monotonic())
        self._stir.set()

    async def _turn(self, want: int) -> None:
        news, self._news, self._at_once = self._news, CallOutcomes(), False
        self._turning = True
        try:
            asked_at = time.monotonic()
            news.ok_ago = asked_at - self._ok_at
            turn = await self._row.turn(news, max(0, want))
            self.trouble = ""
        except Exception as error:
            # Whatever it is, callers wait for this loop to go on: it is told to those who run out of patience.
            self.trouble = Message("gate.database_unreachable", text=error)
            self._rests_until = time.monotonic() + AGAIN
            self._unsay(news)
            return
        finally:
            self._turning = False
        self._told_at = time.monotonic()
        pause = min(max(turn.again, SHORTEST_PAUSE), LONGEST_PAUSE)
        self._again_at = self._told_at + pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreading load
        self._take_in(turn, asked_at)
        async with self._turned:
            self._turns += 1
            self._turned.notify_all()

    def _unsay(self, news: CallOutcomes) -> None:
        """The news could not be told: they are told the next time."""
        newer, self._news = self._news, news
        for name in ("ok", "failed", "abandoned", "spent", "paid"):
            setattr(news, name, getattr(news, name) + getattr(newer, name))
        news.needed = max(news.needed, newer.needed)
        self._stir.set()
        news.throttled += newer.throttled
        news.epochs += newer.epochs
        news.why, news.refused = newer.why or news.why, newer.refused or news.refused

    def _take_in(self, turn: TurnResult, asked_at: float) -> None:
        now = time.monotonic()
        if turn.epoch != self._epoch:
            self._slots.clear()
            self._epoch = turn.epoch
        # Counted from when we asked: the answer's way must not make the fleet's spacing uneven.
        self._slots.extend(Slot(asked_at + after, turn.epoch) for after in turn.slots)
        was_closed, self._closed, self._wary = self._closed, turn.closed, turn.wary
        self._reopens_at, self._left = now + turn.reopens, turn.left
        if bool(was_closed) != bool(turn.closed):
            self._changed(self.name, turn.closed)
        if self._is_closed():
            for future in self._waiting:
                if not future.done():
                    future.set_exception(self._closure())
            self._waiting.clear()
            self._schedule()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._deal()
        if was_closed and not turn.closed:
            self._opened()
