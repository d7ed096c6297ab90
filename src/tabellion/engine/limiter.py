"""How fast calls may go: two policies over a few plain numbers, with no clock or database of their own.

A *slot* is the right to make one call at a certain time or later. A policy hands out slots and hears what became of the
calls. Its fields are its whole memory: they are saved as JSON and shared by every process that calls the same upstream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, Self

HORIZON = 1.0  # seconds ahead for which slots are handed out: what is handed out cannot be slowed down any more
BURST = 0.1  # seconds' worth of unused slots that may be used at once


@dataclass(frozen=True, slots=True)
class Rates:
    """Calls per second: where to start, and the bounds."""

    start: float
    least: float
    most: float


class Limiter(Protocol):
    """What a gate needs of a policy. Times are seconds since 1970, by the database's clock."""

    epoch: int  #: counts the decreases; a refusal of a call made before the last one is no news

    def grant(self, now: float, want: int) -> list[float]:
        """Up to `want` slots, as the times from which they are good."""

    def next_slot(self, now: float) -> float:
        """When it makes sense to ask again."""

    def succeeded(self, now: float, count: int) -> None:
        """So many calls were answered."""

    def throttled(self, now: float, hint: float | None, epoch: int) -> None:
        """A call was refused for its haste; `hint` is the server's own word on how long to wait."""

    def rewind(self, now: float) -> None:
        """The slots that are out are worth nothing: their times may be given away again."""

    def set_rate(self, now: float, rate: float) -> None:
        """A person says how fast to go from now on."""

    def as_dict(self) -> dict[str, Any]:
        """Its memory."""

    @property
    def speed(self) -> float:
        """Calls per second at this moment."""


class _Saved:
    """A policy's memory, to and from JSON."""

    def as_dict(self) -> dict[str, Any]:
        """Its memory, without the bounds: those are a matter of configuration."""
        saved = asdict(self)  # type: ignore[call-overload]
        saved.pop("rates")
        return saved  # type: ignore[no-any-return]

    @classmethod
    def load(cls, rates: Rates, saved: Mapping[str, Any]) -> Self:
        """The policy with the memory it had; what another version saved beside it is ignored."""
        known = {field.name for field in fields(cls)} - {"rates"}  # type: ignore[arg-type]
        return cls(rates, **{name: value for name, value in saved.items() if name in known})  # type: ignore[call-arg]


@dataclass
class Adaptive(_Saved):
    """Finds the upstream's limit, remembers it, stays a little below it, and looks now and then whether it has moved.

    Slots are spaced evenly over the whole fleet. A refusal lowers the rate once, however many calls were refused
    together: those made before the decrease, and those within the same second, change nothing more. Then the rate
    returns quickly to nearly the remembered limit, rests there, and goes beyond it, slowly at first and faster the
    longer nobody objects.

    Where the limit is, two things tell: the rate at which the refusal came, which a server that saves up unused calls
    makes too high; and what it let pass since the last refusal, which is right for such a server and a little low for
    one that does not. The lower of the two is believed.
    """

    rates: Rates
    rate: float = 0.0  #: 0: not begun
    next_at: float = 0.0  #: when the next slot is
    paused_until: float = 0.0  #: by the server's own word
    limit: float | None = None  #: the rate that seems to be allowed
    limited_at: float = 0.0
    changed_at: float = 0.0
    granted: int = 0  #: slots since the last refusal
    full: bool = True  #: whether all slots were wanted since then
    strikes: int = 0  #: decreases in quick succession
    calm: float = 2.0  #: seconds without refusal before going beyond the remembered limit
    epoch: int = 0

    WINDOW: ClassVar[float] = 1.0  # seconds in which all refusals are one event
    GROWTH: ClassVar[float] = 1.6  # per second, while no limit is known
    NEAR: ClassVar[float] = 0.97  # of the remembered limit: where the rate rests
    BELOW: ClassVar[float] = 0.93  # of it: where the rate goes when it was refused
    QUICK, SLOW = 1.5, 3.0  # seconds: how fast it returns to 90 %, and from there to NEAR
    PROBE, DOUBLING, FASTEST = 0.02, 1.5, 0.5  # of the limit per second when going beyond; doubles; at most
    CALM = ((2.0, 20.0), (5.0, 75.0), (14.0, 250.0))  # seconds, and calls, before it goes beyond: a limit that rose,
    # one that fell, one found again where it was
    SLOWEST: ClassVar[float] = 60.0  # seconds after which it goes beyond in any case
    TRUST: ClassVar[float] = 1.25  # the limit is not further below the refused rate than this: it may have moved up
    ENOUGH: ClassVar[float] = 4.0  # seconds after which what was let pass tells the limit
    PASSED: ClassVar[float] = 0.975  # of the limit is what passed: between NEAR and all of it

    def __post_init__(self) -> None:
        self.rate = self._bounded(self.rate or self.rates.start)

    @property
    def speed(self) -> float:
        """Calls per second at this moment."""
        return self.rate

    def grant(self, now: float, want: int) -> list[float]:
        """Evenly spaced slots, not further ahead than the horizon."""
        self._grow(now)
        self.next_at = max(self.next_at, now - BURST)
        slots: list[float] = []
        while len(slots) < want and self.next_at <= now + HORIZON:
            slots.append(self.next_at)
            self.next_at += 1 / self.rate
        self.granted += len(slots)
        return slots

    def next_slot(self, now: float) -> float:
        """When the next slot comes within the horizon."""
        return max(now, self.next_at - HORIZON)

    def succeeded(self, now: float, count: int) -> None:
        """Nothing to learn: the rate grows with time, not with luck."""

    def throttled(self, now: float, hint: float | None, epoch: int) -> None:
        """Lowers the rate once per event, and waits as long as the server says."""
        if hint is not None:
            self.paused_until = max(self.paused_until, now + hint)
            self.next_at = max(self.next_at, self.paused_until)
        if epoch < self.epoch:
            return
        passed = now - self.limited_at
        if passed < self.WINDOW:
            # The lower rate was refused too: the server still counts the second that was too fast.
            self.next_at = max(self.next_at, self.limited_at + self.WINDOW)
            return
        self.strikes = self.strikes + 1 if passed < 3 * self.WINDOW else 0
        before, self.limit = self.limit, self.rate
        if self.full and self.limited_at and passed > self.ENOUGH:
            self.limit = min(self.rate, max(self.granted / passed / self.PASSED, self.rate / self.TRUST))
        found_again = before is not None and abs(self.limit / before - 1) < 0.1
        few, some, many = (min(max(least, calls / self.limit), self.SLOWEST) for least, calls in self.CALM)
        fell = before is not None and self.limit < before
        self.calm = min(self.calm * 2, many) if found_again else some if fell else few
        goal = self.BELOW * self.limit if before is not None else 0.7 * self.rate
        self.rate = self._bounded(goal if not self.strikes else self.rate * (0.7 if self.strikes == 1 else 0.5))
        self.limited_at = self.changed_at = now
        self.granted, self.full = 0, True
        self.next_at = max(self.next_at if hint is not None else 0.0, now + 1 / self.rate)
        self.epoch += 1

    def rewind(self, now: float) -> None:
        """The schedule begins again now, unless the server wants a pause."""
        self.next_at = min(self.next_at, max(now, self.paused_until))

    def set_rate(self, now: float, rate: float) -> None:
        """Goes at this rate from now on, and learns from there."""
        self.rate, self.limit, self.changed_at, self.epoch = self._bounded(rate), None, now, self.epoch + 1
        self.next_at, self.full = now, False

    def _grow(self, now: float) -> None:
        passed, self.changed_at = min(max(now - self.changed_at, 0.0), 1.0), now
        if self.next_at < now - 2 * BURST:
            self.full = False
            return  # slots were left over: the rate was not what held anyone back
        limit, beyond = self.limit, now - self.limited_at - self.calm
        if limit is None:
            rate = self.rate * self.GROWTH**passed
        elif self.rate < 0.9 * limit:
            rate = self._towards(self.NEAR * limit, passed, self.QUICK)
        elif beyond < 0:
            rate = max(self.rate, self._towards(self.NEAR * limit, passed, self.SLOW))
        else:
            rate = self.rate + min(self.PROBE * 2 ** min(beyond / self.DOUBLING, 30), self.FASTEST) * limit * passed
        self.rate = self._bounded(rate)

    def _towards(self, goal: float, passed: float, seconds: float) -> float:
        return self.rate + (goal - self.rate) * (1 - math.exp(-passed / seconds))

    def _bounded(self, rate: float) -> float:
        return min(max(rate, self.rates.least), self.rates.most)


@dataclass
class Classic(_Saved):
    """The token bucket of the chunked OCR description (seed 004), to the letter.

    Starts with 5 tokens and 3 per second; ten successes in a row add 1 and 0.5; every refusal takes 2 and 1 away and
    stops everything for 1 s times 2 to the power of the refusals in a row, at most a minute.
    """

    rates: Rates
    tokens: float = 5.0
    max_tokens: float = 5.0
    refill_rate: float = 0.0  #: 0: not begun
    last_refill: float = 0.0
    consecutive_successes: int = 0
    consecutive_429s: int = 0
    backoff_until: float = 0.0
    epoch: int = 0

    LEAST_TOKENS, MOST_TOKENS = 2.0, 15.0

    def __post_init__(self) -> None:
        self.refill_rate = self.refill_rate or self.rates.start

    @property
    def speed(self) -> float:
        """Calls per second at this moment, pauses aside."""
        return self.refill_rate

    def grant(self, now: float, want: int) -> list[float]:
        """As many slots as there are whole tokens, good at once; none during a pause."""
        if now < self.backoff_until:
            return []
        self._refill(now)
        count = min(want, int(self.tokens))
        self.tokens -= count
        return [now] * count

    def next_slot(self, now: float) -> float:
        """When the pause is over and a token is there."""
        missing = max(0.0, 1.0 - self.tokens) / self.refill_rate
        return max(now, self.backoff_until, self.last_refill + missing)

    def succeeded(self, now: float, count: int) -> None:
        """Speeds up after ten in a row."""
        for _ in range(count):
            self.consecutive_successes += 1
            self.consecutive_429s = 0
            if self.consecutive_successes >= 10:
                self.max_tokens = min(self.MOST_TOKENS, self.max_tokens + 1)
                self.refill_rate = min(self.rates.most, self.refill_rate + 0.5)
                self.consecutive_successes = 0

    def throttled(self, now: float, hint: float | None, epoch: int) -> None:
        """Slows down and stops everything for a while; the server's hint is not asked for."""
        self.consecutive_429s += 1
        self.consecutive_successes = 0
        self.max_tokens = max(self.LEAST_TOKENS, self.max_tokens - 2)
        self.refill_rate = max(self.rates.least, self.refill_rate - 1)
        self.backoff_until = now + min(60.0, 1.0 * 2**self.consecutive_429s)
        self.epoch += 1

    def rewind(self, now: float) -> None:
        """Tokens that are out are lost, as in the description."""

    def set_rate(self, now: float, rate: float) -> None:
        """Goes at this rate from now on."""
        self.refill_rate, self.backoff_until = min(max(rate, self.rates.least), self.rates.most), 0.0
        self.epoch += 1

    def _refill(self, now: float) -> None:
        passed = now - (self.last_refill or now)
        self.tokens = min(self.max_tokens, self.tokens + passed * self.refill_rate)
        self.last_refill = now


PROFILES: dict[str, type[Adaptive] | type[Classic]] = {"adaptive": Adaptive, "classic": Classic}
DEFAULT_RATES = {"adaptive": Rates(5.0, 0.05, 1000.0), "classic": Rates(3.0, 1.0, 10.0)}
