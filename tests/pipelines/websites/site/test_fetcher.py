"""The fetcher: one pace and one robots.txt for all visits of a process."""

from __future__ import annotations

import asyncio

import pytest

from tabellion.net.pacing import HostPacing
from tabellion.pipelines.websites.site.fetcher import RobotsDenied, SiteFetcher
from tabellion.pipelines.websites.site.robots import RobotsCache
from tests.models.scripted import Answer
from tests.pipelines.websites.site.sites import article, settings, site

ROBOTS = Answer(b"User-agent: *\nCrawl-delay: 3\nDisallow: /no\n", 200, {"content-type": "text/plain"})


class RecordedPacing(HostPacing):
    """Records the pauses instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[tuple[str, float]] = []

    async def wait(self, host: str, pause: float) -> None:
        """Records it."""
        self.pauses.append((host, pause))


def test_every_request_waits_its_turn_as_long_as_the_site_asks() -> None:
    """The crawl delay counts once it is known, up to the longest pause."""

    async def story() -> tuple[list[tuple[str, float]], list[str]]:
        pacing, cache = RecordedPacing(), RobotsCache()
        async with site({"/": article("Home"), "/robots.txt": ROBOTS}) as server:
            for changes in ({"pause": 1.0}, {"pause": 5.0}, {"longest_pause": 2.0}, {"respect_robots": False}):
                await SiteFetcher(settings(**changes), pacing, cache).fetch(server.url)
            return pacing.pauses, [asked.path for asked in server.asked]

    pauses, asked = asyncio.run(story())
    assert pauses == [("127.0.0.1", pause) for pause in (1.0, 3.0, 5.0, 2.0, 0.0)]
    assert asked == ["/robots.txt", "/", "/", "/", "/"]


def test_a_redirect_to_a_denied_page_is_not_followed() -> None:
    """Each hop is checked."""

    async def story() -> list[str]:
        async with site({"/": Answer(b"", 302, {"location": "/no"}), "/robots.txt": ROBOTS}) as server:
            with pytest.raises(RobotsDenied):
                await SiteFetcher(settings(), RecordedPacing(), RobotsCache()).fetch(server.url)
            return [asked.path for asked in server.asked]

    assert asyncio.run(story()) == ["/robots.txt", "/"]
