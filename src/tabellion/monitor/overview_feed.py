"""Reads the overview once for all subscribers of an environment, and not at all without subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import TypedDict

from tabellion.errors import StoreError
from tabellion.monitor.overview import Overview, OverviewPicture
from tabellion.monitor.watching import PolledFeed

logger = logging.getLogger("tabellion.monitor")
EVERY = 1.0  #: seconds between two readings
SHARE = 4  #: a reading may take up one part in so many of the time
KNOWN = 60.0  #: seconds for which an old overview is better than none
RESTLESS = ("at",)  #: keys that change although nothing has happened


class Trouble(TypedDict):
    """What subscribers get while the overview cannot be read."""

    problem: str


News = OverviewPicture | Trouble


class Subscription:
    """One subscriber: it gets the newest overview; those it missed are dropped."""

    def __init__(self) -> None:
        self._newest: News | None = None
        self._last_seen: News | None = None
        self._news = asyncio.Event()

    def see(self, news: News) -> None:
        """Publishes an overview to the subscriber, if it differs from the last one."""
        if news != self._last_seen:
            self._newest = self._last_seen = news
            self._news.set()

    async def next(self, within: float) -> News | None:
        """The newest overview; None if nothing changed for so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        newest, self._newest = self._newest, None
        return newest


class OverviewFeed(PolledFeed):
    """The subscribers of one environment, and the task that reads for them."""

    def __init__(self, overview: Overview, every: float = EVERY) -> None:
        super().__init__(every)
        self.overview = overview
        self._watches: set[Subscription] = set()
        self._published: News = {"problem": ""}
        self._looking = asyncio.Lock()
        self._last: tuple[float, OverviewPicture] | None = None  #: when it expires, and the overview
        self._changes = 0

    async def picture(self) -> OverviewPicture:
        """The current overview, or the one from a moment ago."""
        async with self._looking:
            if self._last is not None and time.monotonic() < self._last[0]:
                return self._last[1]
            started_at, changes = time.monotonic(), self._changes
            picture = await self.overview.look()
            seconds = time.monotonic() - started_at
            if changes == self._changes:
                self._last = (started_at + seconds + max(self._every * 0.9, seconds * SHARE), picture)
            return picture

    def get_recent(self) -> OverviewPicture | None:
        """The last overview if it is recent; does not wait."""
        fresh = self._last is not None and time.monotonic() < self._last[0] + KNOWN
        return self._last[1] if fresh and self._last is not None else None

    def forget(self, queue: str) -> None:
        """Drops the cached overview: this queue has just been changed."""
        self._last = None
        self._changes += 1  # a reading in progress may have the state from before
        self.overview.forget(queue)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[Subscription]:
        """A subscription, which starts with the current overview."""
        subscription = Subscription()
        if not self._watches:
            self._published = {"problem": ""}
        self._watches.add(subscription)
        try:
            async with self.poll():
                yield subscription
        finally:
            self._watches.discard(subscription)

    async def _look(self) -> None:
        news: News
        try:
            news = await self.picture()
        except StoreError as error:
            logger.warning("looking at %s: %s", self.overview.environment, type(error).__name__)
            news = {"problem": type(error).__name__}
        except Exception as error:  # e.g. of a pipeline's figure: subscribers must hear of it, and of its end
            news = {"problem": type(error).__name__}
            if news != self._published:  # not once a second
                logger.exception("looking at %s", self.overview.environment)
        if _drop_volatile(news) != _drop_volatile(self._published):
            self._published = news
        for watch in list(self._watches):
            watch.see(self._published)


def _drop_volatile(news: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in news.items() if name not in RESTLESS}
