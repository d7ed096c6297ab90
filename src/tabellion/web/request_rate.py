"""Rate limiting of each key or person, as a token bucket."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tabellion.messages import Message
from tabellion.web.limits import RequestLimits
from tabellion.web.problems import Problem

MOST = 10_000  #: callers that are remembered; those who paused have a full bucket anyway


class RequestLimiter:
    """The token buckets of this process; each process counts separately."""

    def __init__(self, limits: RequestLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = limits.rate, max(1.0, limits.rate * limits.burst), clock
        self._left: dict[str, tuple[float, float]] = {}  #: by caller: requests left at a time

    def check(self, holder: str) -> None:
        """Counts one request; raises a Problem with `Retry-After` if there are too many."""
        if not self._rate:
            return
        now = self._clock()
        left, at = self._left.get(holder, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            seconds = math.ceil((1 - left) / self._rate)
            raise Problem(
                429, "too_many_requests", Message("problem.requests_per_second", n=self._rate), limit=self._rate,
                fix=Message("fix.fewer_requests"), headers={"Retry-After": str(seconds)},
            )  # fmt: skip
        if len(self._left) >= MOST and holder not in self._left:
            self._forget(now)
        self._left[holder] = (left - 1, now)

    def _forget(self, now: float) -> None:
        active = {
            caller: (left, at)
            for caller, (left, at) in self._left.items()
            if left + (now - at) * self._rate < self._burst
        }
        self._left = active if len(active) < MOST else {}
