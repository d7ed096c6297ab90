"""Fetches the pages of one visit: at a polite pace, and only where robots.txt allows it."""

from __future__ import annotations

from urllib.parse import urlsplit

from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.net.pacing import PACING, HostPacing
from tabellion.net.page_fetching import BeforeRequest, FetchedPage, fetch_page
from tabellion.pipelines.websites.site.robots import LONGEST, REDIRECTS, ROBOTS, RobotsCache, RobotsFile
from tabellion.pipelines.websites.site.settings import VisitSettings


class RobotsDenied(Permanent):
    """The site's robots.txt asks this program not to read the page."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(Message("visit.robots_denied", url=url, name=name))


class SiteFetcher:
    """Fetches pages for one visit. Visits of a process share the pace and the known robots.txt files."""

    def __init__(self, settings: VisitSettings, pacing: HostPacing = PACING, robots: RobotsCache = ROBOTS) -> None:
        self.settings = settings
        self._pacing = pacing
        self._robots = robots

    async def fetch(self, url: str, *, limit: int | None = None) -> FetchedPage:
        """A page; raises Blocked, PageFailed, RobotsDenied, or SiteFailed if robots.txt cannot be read."""
        return await self._get(url, limit or self.settings.page_bytes, self.settings.redirects, self._check)

    async def robots_for(self, url: str) -> RobotsFile:
        """The robots.txt of the host of a URL."""
        return await self._robots.get(url, self._fetch_robots)

    async def check(self, url: str) -> None:
        """Raises RobotsDenied if robots.txt asks this program not to read the URL."""
        if not self.settings.respect_robots:
            return
        robots = await self.robots_for(url)
        if not robots.allows(url, self.settings.robots_name):
            raise RobotsDenied(url, self.settings.robots_name)

    async def wait_turn(self, url: str) -> None:
        """Waits until the host of the URL may be asked again."""
        pause = self.settings.pause
        if self.settings.respect_robots:
            robots = await self.robots_for(url)
            pause = max(pause, min(robots.crawl_delay(self.settings.robots_name) or 0.0, self.settings.longest_pause))
        await self._pace(url, pause)

    async def _check(self, url: str) -> None:
        await self.check(url)
        await self.wait_turn(url)

    async def _fetch_robots(self, url: str) -> FetchedPage:
        return await self._get(url, LONGEST, REDIRECTS, self._pace_robots)

    async def _pace_robots(self, url: str) -> None:
        await self._pace(url, self.settings.pause)

    async def _pace(self, url: str, pause: float) -> None:
        await self._pacing.wait((urlsplit(url).hostname or "").lower(), pause)

    async def _get(self, url: str, limit: int, redirects: int, before: BeforeRequest) -> FetchedPage:
        return await fetch_page(
            url, self.settings.guard, user_agent=self.settings.user_agent, limit=limit,
            seconds=self.settings.page_seconds, redirects=redirects, before_request=before,
        )  # fmt: skip
