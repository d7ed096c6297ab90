"""The adaptive policy: learns a server's quota from its refusals, whatever window the server uses."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Self, cast

from tabellion.engine.gates.exhaustion import Exhaustion
from tabellion.engine.gates.limiter import BURST, HORIZON, Rates, Saved, SavedLimiter
from tabellion.engine.gates.passed_calls import PassedCalls, take_back


class SavedAdaptive(SavedLimiter, total=False):
    """What the adaptive policy saves."""

    rate: float
    next_at: float
    paused_until: float
    limit: float | None
    changed_at: float
    window: float
    is_window_known: bool
    passed: list[list[float]]
    ends: list[list[float]]
    exhaustion: dict[str, float | bool]  #: the fields of an Exhaustion
    ages: list[float]
    debt: float
    beyond_since: float


@dataclass
class Adaptive(Saved):
    """Finds the server's limit, stays a little below it, and tests now and then whether it has changed.

    Slots are spaced evenly over the whole fleet: calls spread evenly at a quota's average rate stay within a token
    bucket, a fixed window and a sliding window of any length, so the window need not be known to keep the quota. It
    has to be known to learn the quota. A refusal stops the fleet; single calls (probes), at growing intervals, test
    whether the server accepts calls again. The calls that passed from one such time to the next are the quota, and the
    time between them is its window or a multiple of it. If the server accepts calls again at once (a bucket, a sliding
    window), the calls in the window before the refusal are the quota.

    Exceeding the limit costs refusals. Each refusal adds to a debt that successful calls pay back, and only without
    debt does the rate exceed the limit: slowly at first, faster the longer no call is refused, at a pace that fits the
    window.
    """

    rates: Rates
    rate: float = 0.0  #: 0: not started
    next_at: float = 0.0  #: when the next slot is
    paused_until: float = 0.0  #: as the server demanded
    limit: float | None = None  #: the estimated rate that the server allows
    changed_at: float = 0.0
    window: float = 0.0  #: seconds over which the server seems to count; 0: unknown
    is_window_known: bool = False  #: whether it was measured from end to end; otherwise it is a lower bound
    passed: list[list[float]] = field(default_factory=list)  #: see PassedCalls
    ends: list[list[float]] = field(default_factory=list)  #: when the last exhaustions ended, and the calls until then
    exhaustion: Exhaustion = field(default_factory=Exhaustion)  #: the last one
    ages: list[float] = field(default_factory=list)  #: seconds from the last refused calls to their refusals
    debt: float = 0.0  #: refusals that successful calls have not paid back yet
    beyond_since: float = 0.0  #: when the rate began to exceed the limit; 0: it does not
    epoch: int = 0

    GROWTH: ClassVar[float] = 1.6  # per second, while no limit is known
    NEAR: ClassVar[float] = 0.97  # of the limit: the normal rate
    BELOW: ClassVar[float] = 0.95  # of the limit: the rate after a refusal
    RETURN: ClassVar[float] = 3.0  # seconds to return most of the way from BELOW to NEAR, or a sixth of a window
    SLOPE, STEEPEST = 0.02, 0.75  # of the limit, per UNIT, by which the rate exceeds it: at first, and at most
    UNIT: ClassVar[float] = 2.0  # seconds in which the slope doubles, or a third of a window
    PRICE: ClassVar[float] = 0.008  # of a refusal's debt, paid by each call: about the tolerated share of refusals
    LONGEST_DEBT: ClassVar[float] = 45.0  # seconds, or three windows: a higher limit must be found in time
    PAUSE: ClassVar[float] = 0.1  # seconds before the first probe, at least
    LATER: ClassVar[float] = 0.4  # of the time already waited: the pause before the next probe
    LONGEST_PAUSE: ClassVar[float] = 30.0  # seconds between two probes, unless the server says more
    GAP: ClassVar[float] = 0.25  # seconds after a probe, at most, in which its refusal would arrive
    FEW: ClassVar[int] = 20  # calls that are too few for an estimate
    LEAST_SPAN: ClassVar[float] = 1.0  # seconds, and ten calls, over which a rate is measured while no window is known
    LONGEST_WINDOW: ClassVar[float] = 120.0  # seconds
    LONGEST_DELAY: ClassVar[float] = 0.5  # seconds to wait for the outcomes of calls under way
    MOST_AGES: ClassVar[int] = 4
    MOVED: ClassVar[float] = 0.15  # of the limit: if a new estimate is further away, the limit has changed
    TRUST: ClassVar[float] = 1.25  # the limit is at least the refused rate divided by this: it may have risen
    MOST_ENDS: ClassVar[int] = 8

    def __post_init__(self) -> None:
        self.rate = self._clamp_rate(self.rate or self.rates.start)

    @classmethod
    def load(cls, rates: Rates, saved: SavedLimiter) -> Self:
        """The policy with its saved fields."""
        loaded = super().load(rates, saved)
        if isinstance(loaded.exhaustion, dict):
            loaded.exhaustion = Exhaustion(**loaded.exhaustion)
        return loaded

    def as_dict(self) -> SavedAdaptive:
        """Its fields for saving."""
        return cast("SavedAdaptive", {**super().as_dict(), "exhaustion": asdict(self.exhaustion)})

    @property
    def speed(self) -> float:
        """The current rate in calls per second."""
        return self.rate

    @property
    def delay(self) -> float:
        """Seconds from a call to its refusal, as observed lately."""
        return min(*self.ages, self.LONGEST_DELAY) if self.ages else 0.0

    def grant(self, now: float, want: int) -> list[float]:
        """Evenly spaced slots, not further ahead than the horizon; while the quota is used up, one probe."""
        self._grow(now)
        self.next_at = max(self.next_at, now - BURST)
        calls, spell = PassedCalls(self.passed), self.exhaustion
        keep = max(5.0, 2.2 * self.window, 60 / self.rate)
        slots: list[float] = []
        while len(slots) < want and self.next_at <= now + HORIZON:
            slots.append(self.next_at)
            calls.add(self.next_at, keep)
            self.next_at += 1 / self.rate
            if spell.probing:
                spell.probing = False
                spell.clear_at = self.next_at = max(spell.clear_at, self.next_at)
        self.debt = max(0.0, self.debt - self.PRICE * len(slots))
        return slots

    def next_slot(self, now: float) -> float:
        """When the next slot comes within the horizon and can be granted."""
        return max(now, self.next_at - HORIZON)

    def record_success(self, now: float, count: int) -> None:
        """Does nothing: a call counts as passed unless it is refused, however long its answer takes."""

    def record_throttle(self, now: float, hint: float | None, epoch: int, age: float = 0.0) -> None:
        """Stops the fleet once per event, learns the limit, and sets the time of the next probe."""
        self.ages = [*self.ages, round(age, 3)][-self.MOST_AGES :]
        # A refusal that took far longer than others waited for a connection before the call was made.
        made_at, spell = now - min(age, 2 * self.delay + 0.02), self.exhaustion
        is_news = epoch >= self.epoch
        is_probe = made_at < spell.clear_at
        self._count_refusal(now, made_at, is_news, is_probe)
        if is_news and not is_probe:
            self._begin_exhaustion(made_at)
        elif is_news:
            spell.probes += 1
        if is_news or spell.probing:
            # The end of the last exhaustion is estimated again, with this refusal.
            self.ends = self.ends[:-1] if is_probe or not is_news else self.ends
        spell = self.exhaustion
        spell.until = max(spell.until, made_at)
        if hint is not None:
            self.paused_until = max(self.paused_until, now + hint)
            spell.until, spell.hinted = max(spell.until, made_at + hint), True
        if is_news:
            self._hold(now, made_at)
        elif spell.probing:
            # One of many calls made together: it is not a new event, but it improves the estimate of this one.
            spell.clear_at += max(0.0, self.paused_until - spell.probe_at)
            spell.probe_at = self.next_at = max(spell.probe_at, self.paused_until)
            self._learn()

    def rewind(self, now: float) -> None:
        """Restarts the schedule now, unless the quota is used up."""
        held_until = max(self.paused_until, self.exhaustion.probe_at)
        self.next_at = min(self.next_at, max(now, held_until))

    def set_rate(self, now: float, rate: float) -> None:
        """Sets the rate, and forgets what was learned."""
        self.rate, self.limit, self.changed_at, self.epoch = self._clamp_rate(rate), None, now, self.epoch + 1
        self.next_at, self.debt, self.beyond_since = now, 0.0, 0.0
        self.passed, self.ends, self.exhaustion = [], [], Exhaustion()

    # -- after a refusal ---------------------------------------------------------------------------------------

    def _count_refusal(self, now: float, made_at: float, is_news: bool, is_probe: bool) -> None:
        calls = PassedCalls(self.passed)
        if not self.passed:
            self.passed.append([made_at, 1.0])
        if is_news:
            # Slots that were handed out are void from now on; since the quota was used up only probes were made.
            calls.cut(now, calls.until(self.exhaustion.began_at) + 1 if is_probe else calls.until(now))
        calls.refuse(made_at)
        take_back(self.ends, made_at)
        self.debt += 1

    def _begin_exhaustion(self, made_at: float) -> None:
        before = self.exhaustion
        few = bool(self.ends) and PassedCalls(self.passed).until(made_at) - self.ends[-1][1] < self.FEW
        self.exhaustion = Exhaustion(
            made_at, made_at, rate=self.rate, limit=self.limit or 0.0, quick=before.quick + 1 if few else 0,
            after_proven=before.is_proven, window=self.window, was_window_known=self.is_window_known,
            was_beyond=self.beyond_since > 0,
        )  # fmt: skip

    def _hold(self, now: float, made_at: float) -> None:
        """Stops all calls until the probe, and after it until its refusal would have arrived."""
        spell = self.exhaustion
        pause = min(self.LATER * (made_at - spell.began_at), self.LONGEST_PAUSE)
        pause = max(2 / spell.rate, self.PAUSE, self.window / 30, pause)
        # Not before the outcomes of all calls under way are known: they may have been refused too.
        spell.probe_at = max(now + 1.1 * self.delay, made_at + pause, self.paused_until)
        self._learn()
        gap = min(1.5 * self.delay + 0.05, self.GAP) if spell.probes and not spell.hinted else 0.0
        spell.clear_at = spell.probe_at + max(gap, 1 / self.rate)
        spell.probing, self.next_at = True, spell.probe_at
        self.changed_at, self.beyond_since = now, 0.0
        self.epoch += 1

    def _learn(self) -> None:
        """Estimates window and limit from the calls that passed, and sets the rate below the limit."""
        spell, calls = self.exhaustion, PassedCalls(self.passed)
        if spell.seconds > self.LONGEST_WINDOW:
            self._forgive()
            return
        # The last time at which the quota is known to be used up; after refused probes, the likely end of that.
        end = spell.ended_at if spell.probes else spell.until
        total = calls.until(end)
        begin = self.ends[-1] if self.ends else self.passed[0]
        cycle, within = max(spell.ended_at - begin[0], 0.05), total - begin[1]
        self._learn_window(cycle, within)
        least = 0.1 if spell.is_proven or within >= self.FEW / 2 else 0.5
        limit = max(self._measure(end, cycle, within), least * spell.rate)
        goal = limit
        if spell.quick:
            first = self.ends[-min(spell.quick, len(self.ends))]
            seconds, few = max(end - first[0], 0.05), total - first[1]
            since_first = max((few + 1) / seconds, 0.3 * limit)
            if seconds > max(self.window, self.LEAST_SPAN) and few >= self.FEW / 2:
                limit = min(limit, since_first)
            goal = min(limit, since_first)
        elif self.window < 2 * self.LEAST_SPAN:
            limit = min(limit, spell.rate)
            if self.ends and not spell.is_proven:
                # A server that saves up unused calls (a token bucket) lets more pass at first than in the long run.
                limit = min(limit, max(within / cycle / 0.94, spell.rate / self.TRUST))
        self.limit = self._clamp_rate(limit)
        self.rate = self._clamp_rate(self.BELOW * min(limit, goal, spell.rate))
        self.ends = [*self.ends, [spell.ended_at, total]][-self.MOST_ENDS :]
        most = self.PRICE * self.rate * max(self.LONGEST_DEBT, 3 * self.window)
        self.debt = min(self.debt, max(1.0, most))

    def _forgive(self) -> None:
        """Restores the rate from before an exhaustion that is too long for a window: an outage, or a daily quota."""
        spell = self.exhaustion
        self.window, self.is_window_known = spell.window, spell.was_window_known
        self.limit = spell.limit or None
        self.rate = self._clamp_rate(self.BELOW * (spell.limit or spell.rate))
        self.passed, self.ends = [[spell.until, 0.0]], [[spell.until, 0.0]]

    def _learn_window(self, cycle: float, within: float) -> None:
        """Estimates the window: an exhaustion at least, and the time from the end of one to the end of the next."""
        spell = self.exhaustion
        if not spell.is_proven:
            return
        # If the rate was steady and the limit too high, even a short exhaustion shows the window.
        is_steady = not (spell.was_beyond or self.is_window_known) and spell.seconds >= max(0.5, 0.02 * cycle)
        if (spell.seconds >= 0.15 * cycle or is_steady) and within >= self.FEW:
            if not self.ends:
                # The first window began before the first call.
                if cycle > self.window:
                    self.window, self.is_window_known = min(cycle, self.LONGEST_WINDOW), False
            elif spell.after_proven and (cycle > 0.5 * self.window or spell.seconds > 0.3 * cycle):
                several = self.is_window_known and cycle >= 1.5 * self.window and spell.seconds <= self.window
                if not several:
                    self.window, self.is_window_known = min(cycle, self.LONGEST_WINDOW), True
        if spell.seconds > self.window:
            self.window, self.is_window_known = min(spell.seconds, self.LONGEST_WINDOW), False

    def _measure(self, end: float, cycle: float, within: float) -> float:
        """The rate of calls that passed in the window before `end`."""
        spell, calls = self.exhaustion, PassedCalls(self.passed)
        span = self.window
        if not self.is_window_known:
            dead = 6 * spell.seconds if spell.is_proven else 0.0
            span = max(span, dead, 10 / spell.rate, self.LEAST_SPAN)
        longest = end - calls.since
        if spell.after_proven and cycle > 1.2 * spell.seconds and within >= self.FEW:
            longest = min(longest, cycle)
        # An estimate that is too high is corrected by the next refusal, one that is too low only slowly: of equally
        # likely windows, the one with the highest rate counts.
        spans = (span, 1.1 * span, 1.25 * span) if self.window else (span,)
        more = 0.0 if spell.is_proven else 1.0  # the refused call would have been one of those that passed
        return max(calls.rate(end, min(seconds, max(longest, 0.1)), more) for seconds in spans)

    # -- between refusals --------------------------------------------------------------------------------------

    def _grow(self, now: float) -> None:
        elapsed, self.changed_at = min(max(now - self.changed_at, 0.0), 1.0), now
        unused = now - self.next_at
        if unused > 2 * BURST:
            # Slots were left over: the rate did not limit the callers, and the calls that passed do not show the limit.
            self.beyond_since = 0.0
            if unused > max(1.0, 2 / self.rate):
                self.passed, self.ends = [], []
            return
        if self.limit is None:
            self.rate = self._clamp_rate(self.rate * self.GROWTH**elapsed)
        elif now >= self.exhaustion.clear_at:
            self.rate = self._clamp_rate(self._approach(now, self.limit, elapsed))

    def _approach(self, now: float, limit: float, elapsed: float) -> float:
        """The rate after `elapsed` seconds: it returns to just below the limit, and exceeds it when no debt is left."""
        rate, window = self.rate, self.window
        if rate < self.NEAR * limit:
            rate += (self.NEAR * limit - rate) * (1 - math.exp(-elapsed / max(self.RETURN, window / 6)))
        if not self.beyond_since and now > self.exhaustion.probe_at + self._quiet_seconds():
            self.beyond_since = now
        if self.beyond_since:
            unit = max(self.UNIT, window / 3)
            slope = self.SLOPE * 2 ** min((now - self.beyond_since) / unit, 30)
            rate += min(slope, self.STEEPEST) / unit * limit * elapsed
        return rate

    def _quiet_seconds(self) -> float:
        """Seconds after an exhaustion before the rate may exceed the limit; infinite while there is debt."""
        before, limit = self.exhaustion.limit, self.limit or 0.0
        if not before or abs(limit / before - 1) > self.MOVED:
            return max(5.0, self.window)
        return math.inf if self.debt else max(2.0, self.window)

    def _clamp_rate(self, rate: float) -> float:
        return min(max(rate, self.rates.least), self.rates.most)
