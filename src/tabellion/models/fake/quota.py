"""Quotas: limit requests by a token bucket, by fixed windows or by a sliding window."""

from __future__ import annotations

from collections import deque
from typing import Literal, Protocol, get_args

from tabellion.errors import ConfigurationError

QuotaKind = Literal["bucket", "fixed", "sliding"]
Window = tuple[QuotaKind, float]  #: how a quota is counted, and the length in seconds
BUCKET: Window = ("bucket", 1.0)
SLACK = 1e-6  # tokens: rounding must not reject a request that arrives exactly in time
SOONEST = 0.001  # seconds: the shortest delay of a rejection


class Quota(Protocol):
    """Admits requests, `rate` per second on average; the rate may be changed at any time."""

    rate: float

    def take(self, now: float) -> float:
        """Zero when the request may pass; else the seconds until one may."""


class TokenBucket:
    """R tokens per second, with a capacity of `seconds` and at least two tokens.

    It starts full. A request takes one token; a rejected request takes none. A client that sends evenly at R or below
    is never rejected, even when the network delays single requests by less than `seconds`.
    """

    def __init__(self, rate: float, now: float, seconds: float = 1.0) -> None:
        self.rate = rate
        self.seconds = seconds
        self._tokens = self.capacity
        self._at = now

    @property
    def capacity(self) -> float:
        """The most tokens in the bucket."""
        return max(2.0, self.rate * self.seconds)

    def take(self, now: float) -> float:
        """Zero when the request may pass; else the seconds until one may."""
        self._tokens = min(self.capacity, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = max(self._at, now)
        if self._tokens >= 1 - SLACK:
            self._tokens -= 1
            return 0.0
        return max(SOONEST, (1 - self._tokens) / self.rate)


class FixedWindow:
    """A number of requests per window; windows begin at multiples of their length, not at the first request."""

    def __init__(self, rate: float, seconds: float) -> None:
        self.rate = rate
        self.seconds = seconds
        self._window = 0.0
        self._passed = 0

    def take(self, now: float) -> float:
        """Zero when the request may pass; else the seconds until the window ends."""
        window = now // self.seconds
        if window != self._window:
            self._window, self._passed = window, 0
        if self._passed < requests_in(self.rate, self.seconds):
            self._passed += 1
            return 0.0
        return max(SOONEST, (window + 1) * self.seconds - now)


class SlidingWindow:
    """A number of requests in any period of the window's length."""

    def __init__(self, rate: float, seconds: float) -> None:
        self.rate = rate
        self.seconds = seconds
        self._passed: deque[float] = deque()

    def take(self, now: float) -> float:
        """Zero when the request may pass; else the seconds until enough earlier ones have left the window."""
        passed = self._passed
        while passed and passed[0] <= now - self.seconds:
            passed.popleft()
        allowed = requests_in(self.rate, self.seconds)
        if len(passed) < allowed:
            passed.append(now)
            return 0.0
        return max(SOONEST, passed[len(passed) - allowed] + self.seconds - now)


def requests_in(rate: float, seconds: float) -> int:
    """The number of requests per window: at least one."""
    return max(1, round(rate * seconds))


def quota_of(rate: float, window: Window, now: float) -> Quota:
    """The quota of a rate, counted by a window of this kind and length."""
    kind, seconds = window
    if kind == "bucket":
        return TokenBucket(rate, now, seconds)
    return FixedWindow(rate, seconds) if kind == "fixed" else SlidingWindow(rate, seconds)


def window_of(text: str) -> Window:
    """Parses a window: `fixed:20`, `sliding:60`, `bucket:1`."""
    kind, _, length = text.partition(":")
    try:
        seconds = float(length or 1)
    except ValueError:
        seconds = 0.0
    if kind not in get_args(QuotaKind) or not 0 < seconds < 1e6:
        raise ConfigurationError(
            f"window={text}: write {', '.join(get_args(QuotaKind))} and a length in seconds, e.g. fixed:60"
        )
    return kind, seconds  # type: ignore[return-value]
