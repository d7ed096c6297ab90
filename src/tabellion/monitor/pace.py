"""Questions that pace themselves: what took long is asked again only after many times as long."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

SHARE = 20  #: a question may take up one part in so many of the time
T = TypeVar("T")


class AnswerCache:
    """Remembers answers for as long as getting them again would be a burden."""

    def __init__(self, share: float = SHARE, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}  #: until when each holds

    async def answer(self, name: tuple[str, ...], question: Callable[[], Awaitable[T]]) -> T:
        """The answer as it is, or as it was when it was last due."""
        began = self._clock()
        known = self._known.get(name)
        if known is not None and began < known[0]:
            remembered: T = known[1]
            return remembered
        found = await question()
        ended = self._clock()
        self._known[name] = (ended + (ended - began) * self._share, found)
        return found

    def forget(self, *start: str) -> None:
        """Asks anew for every name that starts so: somebody has just changed it."""
        for name in [name for name in self._known if name[: len(start)] == start]:
            del self._known[name]
