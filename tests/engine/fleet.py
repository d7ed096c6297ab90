"""A fleet of workers against a provider's quota on a virtual clock: the gate's real state, the fake's real quotas."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from tabellion.engine.gates.state import CallOutcomes, GateSettings, GateState, ThrottledCall
from tabellion.models.fake.quota import Quota, QuotaKind, quota_of

TURN = 0.003  # seconds that a turn at the database takes
NEWS_PAUSE, SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 0.005, 0.5  # as engine/gates/gate.py has them
MOST_AT_ONCE = 64


@dataclass(slots=True)
class Process:
    """One worker process: its free callers, the slots it holds and the reports it has not sent yet."""

    free: int
    slots: deque[tuple[float, tuple[int, int]]] = field(default_factory=deque)
    epoch: tuple[int, int] = (0, 0)
    news: CallOutcomes = field(default_factory=CallOutcomes)
    again_at: float = 0.0
    reported_at: float = 0.0
    turning: bool = False


class Fleet:
    """Processes whose callers always want more; `calls` records when each call arrived and whether it was accepted."""

    def __init__(
        self, kind: QuotaKind, seconds: float, rate: float, *, hints: bool = False, processes: int = 4,
        callers: int = 25, latency: float = 0.4, refusal: float = 0.0, seed: int = 1, phase: float | None = None,
        settings: GateSettings | None = None, jitter: float = 0.005, through_json: bool = False,
    ) -> None:  # fmt: skip
        self.dice = Random(seed)
        self.now = 1000.0 + (self.dice.random() * seconds if phase is None else phase * seconds)
        self.quota: Quota = quota_of(rate, (kind, seconds), self.now)
        self.hints, self.latency, self.refusal, self.jitter = hints, latency, refusal, jitter
        self.settings, self.through_json = settings or GateSettings(), through_json
        self.state = GateState.load(self.settings, None)
        self.calls: list[tuple[float, bool]] = []
        self.began = self.now
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.processes = [Process(callers) for _ in range(processes)]
        for process in self.processes:
            self._stir(process, self.dice.uniform(0, 0.2))

    def run(self, seconds: float) -> None:
        """Let this many seconds pass."""
        end = self.now + seconds
        events = self._events
        while events and events[0][0] <= end:
            self.now, _, event = heapq.heappop(events)
            event()
        self.now = end

    def judge(self, begin: float, end: float) -> tuple[float, float]:
        """Return accepted calls per second between two times since the start, and the share of refused calls."""
        within = [passed for at, passed in self.calls if begin <= at - self.began < end]
        return sum(within) / (end - begin), 1 - sum(within) / max(1, len(within))

    def _at(self, after: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + after, next(self._numbers), event))

    def _stir(self, process: Process, after: float = 0.0) -> None:
        self._at(after, lambda: self._look(process))

    def _look(self, process: Process) -> None:
        """Take a turn when there is something to request or to report."""
        if process.turning:
            return
        short = process.free - len(process.slots)
        asking = short > 0 and self.now >= process.again_at
        telling = process.news.urgent or (bool(process.news) and self.now >= process.reported_at + NEWS_PAUSE)
        if asking or telling:
            process.turning = True
            self._at(TURN, lambda: self._turn(process, min(short, MOST_AT_ONCE) if asking else 0))
        elif short > 0:
            self._stir(process, process.again_at - self.now + 1e-6)

    def _turn(self, process: Process, want: int) -> None:
        news, process.news, process.turning = process.news, CallOutcomes(), False
        if self.through_json:
            self.state = GateState.load(self.settings, self.state.dump())
        before = self.state.epoch
        turn = self.state.turn(self.now, news, want)
        process.reported_at = self.now
        process.again_at = self.now + min(max(turn.again, SHORTEST_PAUSE), LONGEST_PAUSE) * self.dice.uniform(0.8, 1.2)
        self._drop(process, turn.epoch)
        for after in turn.slots:
            process.slots.append((self.now + after, turn.epoch))
            self._at(max(after, 0.0), lambda: self._deal(process))
        if turn.epoch != before:
            for other in self.processes:
                if other is not process:
                    self._at(self.dice.uniform(0.002, 0.008), partial(self._drop, other, turn.epoch))
        self._stir(process, max(process.again_at - self.now, SHORTEST_PAUSE))

    def _drop(self, process: Process, epoch: tuple[int, int]) -> None:
        """Slots of another epoch are void."""
        if epoch != process.epoch:
            process.epoch = epoch
            process.slots = deque(slot for slot in process.slots if slot[1] == epoch)
            self._stir(process, SHORTEST_PAUSE)

    def _deal(self, process: Process) -> None:
        while process.slots and process.free and process.slots[0][0] <= self.now + 1e-9:
            _, epoch = process.slots.popleft()
            process.free -= 1
            self._at(0.001 + self.dice.uniform(0, self.jitter), partial(self._arrive, process, epoch, self.now))

    def _arrive(self, process: Process, epoch: tuple[int, int], begun: float) -> None:
        wait = self.quota.take(self.now)
        self.calls.append((self.now, not wait))
        if wait:
            hint = wait if self.hints else None
            self._at(0.002 + self.refusal, lambda: self._refused(process, hint, epoch, begun))
        else:
            self._at(0.002 + self.latency, lambda: self._answered(process, epoch))

    def _answered(self, process: Process, epoch: tuple[int, int]) -> None:
        process.news.ok += 1
        if epoch[1] not in process.news.epochs:
            process.news.epochs.append(epoch[1])
        self._freed(process)

    def _refused(self, process: Process, hint: float | None, epoch: tuple[int, int], begun: float) -> None:
        process.news.throttled.append(ThrottledCall(hint, epoch[0], self.now - begun))
        self._freed(process)

    def _freed(self, process: Process) -> None:
        process.free += 1
        self._deal(process)
        self._look(process)
