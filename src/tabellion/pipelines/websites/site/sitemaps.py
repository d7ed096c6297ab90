"""Lists the pages that a site's sitemaps name: a few sitemaps, however many there are."""

from __future__ import annotations

from collections import deque

from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.net.decoding import DecodingFailed, decompress
from tabellion.net.guard import Blocked
from tabellion.net.page_fetching import PageFailed
from tabellion.pipelines.websites.site.errors import SiteFailed
from tabellion.pipelines.websites.site.fetcher import SiteFetcher
from tabellion.pipelines.websites.site.sandbox import parse_sitemap
from tabellion.pipelines.websites.site.urls import join_url, site_of

MOST_SITEMAPS = 4  #: that are fetched in a visit
MOST_PAGES = 5000
SITEMAP_BYTES = 5_000_000  #: decompressed; the protocol allows ten times as much, a sample needs less


async def list_pages(fetcher: SiteFetcher, home: str, stated: list[str]) -> tuple[list[str], list[Message]]:
    """The pages of the site in its sitemaps, those that robots.txt names or /sitemap.xml; and what was left out."""
    waiting = deque(stated or [join_url(home, "/sitemap.xml")])
    seen = set(waiting)
    pages: dict[str, None] = {}
    fetched = 0
    while waiting and fetched < MOST_SITEMAPS and len(pages) < MOST_PAGES:
        fetched += 1
        found, further = await _read(fetcher, waiting.popleft())
        pages.update(dict.fromkeys(url for url in found if site_of(url) == site_of(home)))
        # Sitemaps of pages are more useful than those of posts, tags or images.
        further = [url for url in sorted(further, key=lambda url: "page" not in url.lower()) if url not in seen]
        seen.update(further)
        waiting.extend(further)
    issues = [Message("visit.sitemaps_left_out", n=len(waiting), read=fetched)] if waiting else []
    return list(pages)[:MOST_PAGES], issues


async def _read(fetcher: SiteFetcher, url: str) -> tuple[list[str], list[str]]:
    """The pages and further sitemaps of a sitemap; none if it cannot be read: a visit does not depend on it."""
    try:
        page = await fetcher.fetch(url, limit=SITEMAP_BYTES)
        if page.status != 200:
            return [], []
        data, _is_cut = decompress(page.body, SITEMAP_BYTES)
    except (Blocked, PageFailed, SiteFailed, Permanent, DecodingFailed):
        return [], []
    return await parse_sitemap(data, page.url)
