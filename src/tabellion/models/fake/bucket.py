"""The quota: a token bucket that lets R requests a second pass."""

from __future__ import annotations

SLACK = 1e-6  # tokens: rounding must not refuse a request that comes exactly in time


class Bucket:
    """R tokens a second, in store at most one second's worth, and never fewer than two.

    It starts full. A request takes one token; a refused request takes none. Whoever sends evenly at R or below is
    never refused, however the network shifts single requests within that second.
    """

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self.capacity = max(2.0, rate)
        self._tokens = self.capacity
        self._at = now

    def take(self, now: float) -> float:
        """Zero when the request may pass; else the seconds until one may."""
        self._tokens = min(self.capacity, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = max(self._at, now)
        if self._tokens >= 1 - SLACK:
            self._tokens -= 1
            return 0.0
        return max(0.001, (1 - self._tokens) / self.rate)
