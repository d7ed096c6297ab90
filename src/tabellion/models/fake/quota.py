"""Quotas: how many requests pass, counted by a token bucket, by fixed windows or by a sliding window."""

from __future__ import annotations

from collections import deque
from typing import Literal, Protocol, get_args

from tabellion.errors import ConfigurationError

Kind = Literal["bucket", "fixed", "sliding"]
Window = tuple[Kind, float]  #: how a quota is counted, and the seconds it is counted over
BUCKET: Window = ("bucket", 1.0)
SLACK = 1e-6  # tokens: rounding must not refuse a request that comes exactly in time
SOONEST = 0.001  # seconds: a refusal never says "now"


class Quota(Protocol):
    """Lets requests pass, `rate` a second on the average; the rate may be changed at any time."""

    rate: float

    def take(self, now: float) -> float:
        """Zero when the request may pass; else the seconds until one may."""


class TokenBucket:
    """R tokens a second, in store at most so many seconds' worth, and never fewer than two.

    It starts full. A request takes one token; a refused request takes none. A client that sends evenly at R or below
    is never refused, however the network shifts single requests within the seconds that are in store.
    """

    def __init__(self, rate: float, now: float, seconds: float = 1.0) -> None:
        self.rate = rate
        self.seconds = seconds
        self._tokens = self.capacity
        self._at = now

    @property
    def capacity(self) -> float:
        """The most tokens that are in store."""
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
    """So many requests in each window; windows begin at multiples of their length, whenever the first request comes."""

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
    """So many requests in any stretch of time of the window's length."""

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
    """How many requests a window lets pass: at least one."""
    return max(1, round(rate * seconds))


def quota_of(rate: float, window: Window, now: float) -> Quota:
    """The quota of a rate, counted by a window of this kind and length."""
    kind, seconds = window
    if kind == "bucket":
        return TokenBucket(rate, now, seconds)
    return FixedWindow(rate, seconds) if kind == "fixed" else SlidingWindow(rate, seconds)


def window_of(text: str) -> Window:
    """The window that a text means: `fixed:20`, `sliding:60`, `bucket:1`."""
    kind, _, length = text.partition(":")
    try:
        seconds = float(length or 1)
    except ValueError:
        seconds = 0.0
    if kind not in get_args(Kind) or not 0 < seconds < 1e6:
        raise ConfigurationError(
            f"window={text}: write {', '.join(get_args(Kind))} and a length in seconds, e.g. fixed:60"
        )
    return kind, seconds  # type: ignore[return-value]
