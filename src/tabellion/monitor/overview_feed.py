"""One look at an environment for everybody who watches, and none when nobody does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import TypedDict

from tabellion.errors import StoreError
from tabellion.monitor.overview import Overview, OverviewPicture

logger = logging.getLogger("tabellion.monitor")
EVERY = 1.0  #: seconds between two looks
SHARE = 4  #: one look may take up one part in so many of the time
KNOWN = 60.0  #: seconds for which an old picture is better than none
RESTLESS = ("at",)  #: what changes without anything having happened


class Trouble(TypedDict):
    """What watchers are told while the database is away."""

    problem: str


News = OverviewPicture | Trouble


class Subscription:
    """One watcher: it is told the newest, and whatever lay between does not wait for it."""

    def __init__(self) -> None:
        self._newest: News | None = None
        self._told: News | None = None
        self._news = asyncio.Event()

    def see(self, told: News) -> None:
        """Takes what is new to it."""
        if told != self._told:
            self._newest = self._told = told
            self._news.set()

    async def next(self, within: float) -> News | None:
        """The newest; None when nothing changed for so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        newest, self._newest = self._newest, None
        return newest


class OverviewFeed:
    """Whoever watches one environment."""

    def __init__(self, overview: Overview, every: float = EVERY) -> None:
        self.overview = overview
        self._every = every
        self._watches: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._last: tuple[float, OverviewPicture] | None = None  #: the last picture, and until when it is good
        self._changes = 0

    async def picture(self) -> OverviewPicture:
        """The overview as it is, or as it was a moment ago."""
        async with self._looking:
            if self._last is not None and time.monotonic() < self._last[0]:
                return self._last[1]
            began, changes = time.monotonic(), self._changes
            found = await self.overview.look()
            took = time.monotonic() - began
            if changes == self._changes:
                self._last = (began + took + max(self._every * 0.9, took * SHARE), found)
            return found

    def get_recent(self) -> OverviewPicture | None:
        """The last picture, where somebody has looked lately; it is not waited for."""
        fresh = self._last is not None and time.monotonic() < self._last[0] + KNOWN
        return self._last[1] if fresh and self._last is not None else None

    def forget(self, queue: str) -> None:
        """Looks anew at the next question: somebody has just changed this queue."""
        self._last = None
        self._changes += 1  # a look that is under way may have seen it as it was before
        self.overview.forget(queue)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[Subscription]:
        """A watch, which begins with how things stand."""
        one = Subscription()
        self._watches.add(one)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield one
        finally:
            self._watches.discard(one)

    async def close(self) -> None:
        """Ends looking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _look_on(self) -> None:
        shown: News = {"problem": ""}
        while self._watches:
            found: News
            try:
                found = await self.picture()
            except StoreError as error:
                logger.warning("looking at %s: %s", self.overview.environment, type(error).__name__)
                found = {"problem": type(error).__name__}
            if _drop_volatile(found) != _drop_volatile(shown):
                shown = found
            for watch in list(self._watches):
                watch.see(shown)
            await asyncio.sleep(self._every)


def _drop_volatile(told: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in told.items() if name not in RESTLESS}
