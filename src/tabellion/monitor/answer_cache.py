"""A cache of query results: a query that took long is repeated only after many times as long."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

SHARE = 20  #: a query may take up one part in so many of the time
T = TypeVar("T")


class AnswerCache:
    """Caches results in proportion to the time they took."""

    def __init__(self, share: float = SHARE, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}  #: until when each is valid

    async def answer(self, name: tuple[str, ...], question: Callable[[], Awaitable[T]]) -> T:
        """The result of a query, or its cached one."""
        began = self._clock()
        cached = self._known.get(name)
        if cached is not None and began < cached[0]:
            value: T = cached[1]
            return value
        result = await question()
        ended = self._clock()
        self._known[name] = (ended + (ended - began) * self._share, result)
        return result

    def forget(self, *start: str) -> None:
        """Drops the results whose name starts with these parts: they have just changed."""
        for name in [name for name in self._known if name[: len(start)] == start]:
            del self._known[name]
