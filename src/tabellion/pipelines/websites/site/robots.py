"""Reads robots.txt as RFC 9309 says: missing means allowed, an error of the server means not now."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from protego import Protego

from tabellion.messages import Message
from tabellion.net.page_fetching import FetchedPage, PageFailed
from tabellion.pipelines.websites.site.cleaning import clean_line
from tabellion.pipelines.websites.site.errors import SiteFailed
from tabellion.pipelines.websites.site.urls import join_url

LONGEST = 500_000  #: bytes that are read; RFC 9309 asks for at least 500 KiB
REDIRECTS = 5
KEPT_SECONDS = 3600.0  #: RFC 9309 allows a day
KEPT_HOSTS = 1000
MOST_SITEMAPS = 20

Fetch = Callable[[str], Awaitable[FetchedPage]]


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """The rules of one host."""

    rules: Protego
    exists: bool

    def allows(self, url: str, name: str) -> bool:
        """Whether a program of this name may read the URL."""
        return bool(self.rules.can_fetch(url, name))

    def crawl_delay(self, name: str) -> float | None:
        """The seconds between requests that the site asks for, if it does."""
        delay = self.rules.crawl_delay(name)
        return float(delay) if delay is not None else None

    def sitemaps(self, url: str) -> list[str]:
        """The sitemaps that it names."""
        found: dict[str, None] = {}
        for number, sitemap in enumerate(self.rules.sitemaps):
            if number >= MOST_SITEMAPS:
                break
            if target := join_url(url, clean_line(sitemap, 2000)):
                found.setdefault(target)
        return list(found)


def parse_robots(text: str, *, exists: bool = True) -> RobotsFile:
    """The rules of a text."""
    return RobotsFile(Protego.parse(text), exists)


class RobotsCache:
    """The rules of the hosts that this process has visited lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, RobotsFile]] = OrderedDict()
        self._lock = threading.Lock()

    async def get(self, url: str, fetch: Fetch) -> RobotsFile:
        """The rules for the host of a URL, from the cache or by `fetch`; raises SiteFailed if they cannot be read."""
        location = robots_url(url)
        with self._lock:
            read_at, known = self._known.get(location, (0.0, None))
        if known is not None and time.monotonic() - read_at < KEPT_SECONDS:
            return known
        robots = await _read(location, fetch)
        with self._lock:
            self._known[location] = (time.monotonic(), robots)
            self._known.move_to_end(location)
            while len(self._known) > KEPT_HOSTS:
                self._known.popitem(last=False)
        return robots

    def clear(self) -> None:
        """Forgets every host."""
        with self._lock:
            self._known.clear()


async def _read(location: str, fetch: Fetch) -> RobotsFile:
    try:
        page = await fetch(location)
    except PageFailed as error:
        if error.code == "redirects":
            return parse_robots("", exists=False)  # RFC 9309: after five redirects it counts as missing
        raise
    # 429 is a client error by its number, but says what 503 says: not now.
    if page.status >= 500 or page.status == 429:
        raise SiteFailed(Message("visit.robots_unavailable", url=location, status=page.status))
    if page.status >= 400 or page.status < 200 or "html" in page.media:
        return parse_robots("", exists=False)
    return parse_robots(page.body.decode("utf-8", "replace").removeprefix("\ufeff"))


def robots_url(url: str) -> str:
    """The URL of robots.txt on the host of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/robots.txt"


#: The cache of this process.
ROBOTS = RobotsCache()
