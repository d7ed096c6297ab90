"""Robots.txt: what it allows, by RFC 9309, and what a missing or failing one means."""

from __future__ import annotations

import asyncio
import time

import pytest

from tabellion.net.page_fetching import FetchedPage, PageFailed
from tabellion.pipelines.websites.site import robots
from tabellion.pipelines.websites.site.errors import SiteFailed
from tabellion.pipelines.websites.site.robots import RobotsCache, parse_robots, robots_url

URL = "https://shop.example/a/b?c"


def page(status: int = 200, body: bytes = b"", media: str = "text/plain") -> FetchedPage:
    return FetchedPage(robots_url(URL), status, (("content-type", media),), body, False, (), (), None, 0.0)


def read(answer: FetchedPage | Exception) -> robots.RobotsFile:
    async def fetch(url: str) -> FetchedPage:
        assert url == "https://shop.example/robots.txt"
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asyncio.run(RobotsCache().get(URL, fetch))


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/", True),
        ("User-agent: *\nDisallow: /", "/", False),
        ("User-agent: *\nDisallow:", "/", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b", False),
        ("User-agent: *\nDisallow: /*.php$", "/x/y.php", False),
        ("User-agent: *\nDisallow: /*.php$", "/x/y.php5", True),
        ("User-agent: other\nDisallow: /", "/", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Tabellion\nDisallow: /x", "/", True),
        ("User-agent: a\nUser-agent: tabellion\nDisallow: /", "/", False),
        ("\ufeffuser-agent : *  # all\ndisallow : /x", "/x", False),
        ("garbage\n\0\nDisallow: /", "/", True),
        ("User-agent: *\nDisallow: /é", "/%C3%A9", False),
    ],
)
def test_the_longest_rule_of_the_closest_group_counts(text: str, path: str, allowed: bool) -> None:
    """With wildcards, several groups and several names, whatever their case."""
    found = read(page(200, text.encode()))
    assert found.allows(f"https://shop.example{path}", "tabellion") is allowed


def test_delay_and_sitemaps_are_read() -> None:
    """Relative sitemaps are resolved; what is not a number or a URL is ignored."""
    text = "User-agent: *\nCrawl-delay: 2.5\nSitemap: /map.xml\nSitemap: https://cdn.example/m.xml\nSitemap: ftp://x/"
    found = parse_robots(text)
    assert found.crawl_delay("tabellion") == 2.5
    assert found.sitemaps(URL) == ["https://shop.example/map.xml", "https://cdn.example/m.xml"]
    assert parse_robots("User-agent: *\nCrawl-delay: soon").crawl_delay("tabellion") is None


def test_a_hostile_file_is_matched_at_once() -> None:
    """Wildcards that would keep a backtracking matcher busy for years do not."""
    rules = "User-agent: *\n" + "Disallow: /" + "*a" * 200 + "*b$\n" * 100
    assert read(page(200, rules.encode())).allows("https://shop.example/" + "a" * 2000, "tabellion")


@pytest.mark.parametrize(
    "answer",
    [page(404), page(401), page(410), page(200, b"<html>Disallow: /", "text/html"), PageFailed("redirects", "circle")],
    ids=["404", "401", "410", "html", "redirects"],
)
def test_a_missing_file_allows_everything(answer: FetchedPage | Exception) -> None:
    """Also one that redirects in a circle, or is a page for people."""
    found = read(answer)
    assert not found.exists
    assert found.allows(URL, "tabellion")


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_failing_server_allows_nothing_for_now(status: int) -> None:
    """The visit may be tried again."""
    with pytest.raises(SiteFailed):
        read(page(status))


def test_a_server_that_cannot_be_reached_fails_the_visit() -> None:
    """With the reason of the network."""
    with pytest.raises(PageFailed):
        read(PageFailed("unreachable", "down"))


def test_a_file_is_fetched_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the cache forgets the hosts that were not visited for longest."""
    asked: list[str] = []
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(robots, "KEPT_HOSTS", 2)

    async def fetch(url: str) -> FetchedPage:
        asked.append(url.split("/")[2])
        return page()

    async def story() -> None:
        cache = RobotsCache()
        for host in ("a", "a", "b", "c", "a"):
            await cache.get(f"https://{host}/", fetch)
        now[0] += robots.KEPT_SECONDS + 1
        await cache.get("https://a/", fetch)

    loop = asyncio.new_event_loop()
    loop.time = lambda: 0.0  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())
    assert asked == ["a", "b", "c", "a", "a"]
