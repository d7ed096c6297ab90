"""The pace of a queue: how many jobs one worker may start in how many seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Pace = Sequence[tuple[int, float]]


class PaceKeeper:
    """Counts the jobs that one worker took from a queue, and says how many more it may take now.

    >>> keeper = PaceKeeper([(3, 5.0), (10, 60.0)])  # 3 jobs in 5 seconds, 10 in a minute
    >>> keeper.take(2, now=0.0)
    >>> keeper.room(now=1.0)
    1
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = tuple(pace)
        self._longest = max(seconds for _, seconds in self._pace)
        self._taken: deque[tuple[float, int]] = deque()

    def room(self, now: float) -> int:
        """How many jobs may be taken now."""
        while self._taken and self._taken[0][0] <= now - self._longest:
            self._taken.popleft()
        return max(0, min(most - self._count(now - seconds) for most, seconds in self._pace))

    def take(self, count: int, now: float) -> None:
        """Counts jobs that were taken."""
        if count:
            self._taken.append((now, count))

    def _count(self, since: float) -> int:
        return sum(count for at, count in self._taken if at > since)
