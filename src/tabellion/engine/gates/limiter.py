"""Rate limits: the interface of a policy, and the classic one; plain numbers, without a clock or database.

A *slot* is the right to make one call at a certain time or later. A policy hands out slots and learns from the outcomes
of calls. Its fields are all it knows: they are saved as JSON and shared by every process that calls the same upstream.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, Self, TypedDict, cast

HORIZON = 1.0  # seconds ahead for which slots are handed out: once handed out, they cannot be slowed down
BURST = 0.1  # seconds' worth of unused slots that may be used at once


@dataclass(frozen=True, slots=True)
class Rates:
    """Calls per second: where to start, and the bounds."""

    start: float
    least: float
    most: float


class SavedLimiter(TypedDict, total=False):
    """What every policy saves."""

    epoch: int


class Limiter(Protocol):
    """The interface of a policy. Times are seconds since 1970, by the database's clock."""

    epoch: int  #: counts the decreases; a refusal of a call made before the last one is ignored

    def grant(self, now: float, want: int) -> list[float]:
        """Up to `want` slots, as the times from which they are valid."""

    def next_slot(self, now: float) -> float:
        """When the next slot can be granted."""

    def record_success(self, now: float, count: int) -> None:
        """Records that `count` calls were answered."""

    def record_throttle(self, now: float, hint: float | None, epoch: int, age: float = 0.0) -> None:
        """Records a rate-limit refusal of a call made `age` seconds ago; `hint`: seconds to wait, by the server."""

    def rewind(self, now: float) -> None:
        """Makes slots void that were handed out: their times may be granted again."""

    def set_rate(self, now: float, rate: float) -> None:
        """Sets the rate, as a person decided."""

    def as_dict(self) -> SavedLimiter:
        """Its fields for saving."""

    @property
    def speed(self) -> float:
        """The current rate in calls per second."""


class Saved:
    """Converts a policy's fields to and from JSON."""

    def as_dict(self) -> SavedLimiter:
        """Its fields for saving, without the bounds: those come from the configuration."""
        # asdict() would copy every list, and a gate is saved at every turn.
        names = (field.name for field in fields(self) if field.name != "rates")  # type: ignore[arg-type]
        return cast("SavedLimiter", {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, rates: Rates, saved: SavedLimiter) -> Self:
        """The policy with its saved fields; fields of another version are ignored."""
        known = {field.name for field in fields(cls)} - {"rates"}  # type: ignore[arg-type]
        return cls(rates, **{name: value for name, value in saved.items() if name in known})  # type: ignore[call-arg]


@dataclass
class Classic(Saved):
    """The token bucket of the chunked OCR description (seed 004), to the letter.

    Starts with 5 tokens and 3 per second; ten successes in a row add 1 and 0.5; every refusal takes 2 and 1 away and
    stops everything for 1 s times 2 to the power of the refusals in a row, at most a minute.
    """

    rates: Rates
    tokens: float = 5.0
    max_tokens: float = 5.0
    refill_rate: float = 0.0  #: 0: not started
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
        """The current rate in calls per second, pauses aside."""
        return self.refill_rate

    def grant(self, now: float, want: int) -> list[float]:
        """As many slots as there are whole tokens, valid at once; none during a pause."""
        if now < self.backoff_until:
            return []
        self._refill(now)
        count = min(want, int(self.tokens))
        self.tokens -= count
        return [now] * count

    def next_slot(self, now: float) -> float:
        """When the pause is over and a token is available."""
        missing = max(0.0, 1.0 - self.tokens) / self.refill_rate
        return max(now, self.backoff_until, self.last_refill + missing)

    def record_success(self, now: float, count: int) -> None:
        """Speeds up after ten in a row."""
        for _ in range(count):
            self.consecutive_successes += 1
            self.consecutive_429s = 0
            if self.consecutive_successes >= 10:
                self.max_tokens = min(self.MOST_TOKENS, self.max_tokens + 1)
                self.refill_rate = min(self.rates.most, self.refill_rate + 0.5)
                self.consecutive_successes = 0

    def record_throttle(self, now: float, hint: float | None, epoch: int, age: float = 0.0) -> None:
        """Slows down and stops everything for a while; the server's hint is ignored."""
        self.consecutive_429s += 1
        self.consecutive_successes = 0
        self.max_tokens = max(self.LEAST_TOKENS, self.max_tokens - 2)
        self.refill_rate = max(self.rates.least, self.refill_rate - 1)
        self.backoff_until = now + min(60.0, 1.0 * 2**self.consecutive_429s)
        self.epoch += 1

    def rewind(self, now: float) -> None:
        """Does nothing: tokens that were handed out are lost, as in the description."""

    def set_rate(self, now: float, rate: float) -> None:
        """Sets the rate and ends a pause."""
        self.refill_rate, self.backoff_until = min(max(rate, self.rates.least), self.rates.most), 0.0
        self.epoch += 1

    def _refill(self, now: float) -> None:
        elapsed = now - (self.last_refill or now)
        self.tokens = min(self.max_tokens, self.tokens + elapsed * self.refill_rate)
        self.last_refill = now
