"""Visits a website: its home page, a sample of its pages, and what they say about it.

    info = await visit("https://example.com/", VisitSettings(chromium=chromium), folder, print)

The home page is fetched as any program would fetch it. A browser shows it if its scripts write its content
(`script_need`), or for a screenshot. Whatever else fails, the home page is reported: what is missing is in `issues`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tabellion.errors import ConfigurationError, Permanent
from tabellion.messages import Message
from tabellion.net.browsing import BrowserFailed
from tabellion.net.guard import Blocked
from tabellion.net.page_fetching import FetchedPage, PageFailed
from tabellion.pipelines.websites.site import assembly, check_installed
from tabellion.pipelines.websites.site.errors import PAGES, SiteFailed, check_page, check_parsed, explain_failure
from tabellion.pipelines.websites.site.fetcher import RobotsDenied, SiteFetcher
from tabellion.pipelines.websites.site.info import PageInfo, Robots, WebsiteInfo
from tabellion.pipelines.websites.site.rendering import RenderedPage, RenderingFailed, render_page
from tabellion.pipelines.websites.site.robots import RobotsFile, parse_robots
from tabellion.pipelines.websites.site.sampling import choose_pages
from tabellion.pipelines.websites.site.sandbox import ParsedPage, parse_page, redraw_icon
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.pipelines.websites.site.sitemaps import list_pages
from tabellion.pipelines.websites.site.urls import join_url, normalize_url, site_of

SCREENSHOT, FAVICON = "screenshot.jpg", "favicon.png"
SCRIPT_NEEDS = frozenset({"nothing_visible", "empty_root", "asks_for_scripts"})
FORWARDED_WITHIN = 200  #: visible characters of a page that only forwards to another one
FORWARDS = 3
ICON_BYTES = 500_000
MOST_ISSUES = 50

Note = Callable[[Message], None]


async def visit(url: str, settings: VisitSettings, folder: Path, note: Note) -> WebsiteInfo:
    """Visits a website and returns what it found; the screenshot and the favicon are stored in `folder`.

    `note` is called with each step. Raises Permanent if the site can never be read (not a URL, a private address, no
    such host, denied by robots.txt, not a web page), and SiteFailed if a later visit may succeed.
    """
    check_installed()
    try:
        requested = normalize_url(url)
    except ValueError as error:
        raise Permanent(Message("visit.url_invalid", url=url[:200], detail=str(error))) from error
    one = _Visit(settings, folder, note)
    try:
        async with asyncio.timeout_at(one.deadline):
            home = await one.read_home(requested)
    except TimeoutError:
        raise SiteFailed(Message("visit.timed_out", n=settings.seconds)) from None
    except (Blocked, PageFailed) as error:
        raise explain_failure(requested, error) from error
    async with one.within_time():
        await one.show_home(home)
    info = one.describe_home(url, home)
    async with one.within_time():
        info = replace(info, favicon=await one.read_favicon(info.final_url, home.parsed))
    pages = list(info.pages)
    async with one.within_time():
        await one.read_sample(info, pages)
    return one.summarize(info, pages)


@dataclass(slots=True)
class _Home:
    """The home page as it was fetched, and as it was read: from the server's answer, or from the browser."""

    page: FetchedPage
    parsed: ParsedPage
    redirects: tuple[str, ...]
    url: str
    rendered: bool = False
    reason: str = ""
    screenshot: str = ""


class _Visit:
    """One visit: what it has found so far."""

    def __init__(self, settings: VisitSettings, folder: Path, note: Note) -> None:
        self.settings = settings
        self.folder = folder
        self.note = note
        self.fetcher = SiteFetcher(settings)
        self.started = time.monotonic()
        self.deadline = asyncio.get_running_loop().time() + settings.seconds
        self.issues: list[str] = []
        self.timings: dict[str, float] = {}
        self.read: list[assembly.Read] = []
        self.robots = parse_robots("", exists=False)

    @contextmanager
    def _measure(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = round(self.timings.get(name, 0.0) + time.monotonic() - started, 3)

    @asynccontextmanager
    async def within_time(self) -> AsyncIterator[None]:
        """Ends the block when the time of the visit is over, with an issue."""
        try:
            async with asyncio.timeout_at(self.deadline):
                yield
        except TimeoutError:
            self._add_issue(Message("visit.cut_short", n=self.settings.seconds))

    def _add_issue(self, issue: str) -> None:
        if issue not in self.issues and len(self.issues) < MOST_ISSUES:
            self.issues.append(issue)

    async def read_home(self, url: str) -> _Home:
        """The home page, after redirects and pages that forward to another."""
        self.note(Message("visit.step_home", url=url))
        redirects: list[str] = []
        for _ in range(FORWARDS + 1):
            with self._measure("home"):
                page = await self.fetcher.fetch(url)
                check_page(page)
                parsed = await parse_page(page)
                check_parsed(page, parsed)
            redirects += page.redirects
            target = parsed.text("refresh")
            if not target or target == page.url or parsed.visible_characters > FORWARDED_WITHIN:
                break
            forward = normalize_or_blank(target)
            if not forward:
                break
            redirects.append(page.url)
            url = forward
        self.robots = await self._read_robots(page.url)
        return _Home(page, parsed, tuple(redirects), page.url)

    async def show_home(self, home: _Home) -> None:
        """Shows the home page in the browser, if it needs scripts, the settings want it, or for a screenshot."""
        settings, need = self.settings, str(home.parsed.signs.get("script_need") or "")
        need = need if need in SCRIPT_NEEDS else ""
        wants_text = settings.browser == "always" or (settings.browser == "auto" and bool(need))
        if settings.browser == "never" or not (wants_text or (settings.screenshot and settings.chromium)):
            return
        reason = Message(f"visit.script_{need}") if need else Message("visit.browser_always")
        shown = await self._render(home.url, screenshot=settings.screenshot, wanted=reason if wants_text else "")
        if shown is None:
            home.reason = reason if wants_text else ""
            return
        if shown.screenshot:
            await asyncio.to_thread(_write, self.folder / SCREENSHOT, shown.screenshot)
            home.screenshot = SCREENSHOT
        if not wants_text:
            return
        with self._measure("home"):
            parsed = await parse_page(_as_fetched(home.page, shown))
        if parsed.fields and (
            settings.browser == "always" or parsed.visible_characters >= home.parsed.visible_characters
        ):
            home.parsed, home.url, home.rendered, home.reason = parsed, shown.url, True, reason

    async def _render(self, url: str, *, screenshot: bool, wanted: str) -> RenderedPage | None:
        """The page in the browser; None, with an issue, if that fails. `wanted` says why its text is needed."""
        if self.settings.chromium is None:
            if wanted:
                self._add_issue(Message("visit.no_browser", reason=wanted))
            return None
        self.note(Message("visit.step_rendering", url=url))
        try:
            with self._measure("rendering"):
                await self.fetcher.wait_turn(url)
                shown = await render_page(
                    self.settings.chromium, self.settings, self.folder, url, screenshot=screenshot
                )  # fmt: skip
            if site_of(shown.url) != site_of(url):  # scripts have gone to another site, which has rules of its own
                await self.fetcher.check(shown.url)
        except Blocked as error:
            self._add_issue(Message("visit.not_rendered", detail=error.reason))
            return None
        except (BrowserFailed, ConfigurationError, PageFailed, SiteFailed, RobotsDenied) as error:
            self._add_issue(Message("visit.not_rendered", detail=str(error)))
            return None
        except RenderingFailed as error:
            self._add_issue(str(error))
            return None
        if shown.refused:
            self._add_issue(Message("visit.requests_refused", n=len(shown.refused), hosts=list(shown.refused[:5])))
        return shown

    def describe_home(self, url: str, home: _Home) -> WebsiteInfo:
        """What the home page says."""
        page, parsed = home.page, home.parsed
        self._add_page_issues(page, parsed, home.url)
        if home.url.startswith("http:"):
            self._add_issue(Message("visit.no_tls"))
        first = assembly.page_info(home.url, "home", page.status, parsed, rendered=home.rendered)
        if not first.text:
            self._add_issue(Message("visit.no_text"))
        self.read.append((home.url, parsed))
        name = self.settings.robots_name
        return WebsiteInfo(
            url, home.url, datetime.now(UTC).isoformat(timespec="seconds"), page.status, home.redirects,
            home.rendered, home.reason, first.title, first.description, first.language, first.canonical,
            first.site_name, assembly.open_graph_of(parsed), assembly.json_ld_of(parsed), first.headings, first.text,
            assembly.links_of(parsed), pages=(first,), headers=assembly.headers_of(page), tls=assembly.tls_of(page),
            robots=Robots(
                self.robots.exists, self.robots.allows(home.url, name), self.settings.respect_robots,
                self.robots.crawl_delay(name), tuple(self.robots.sitemaps(home.url)),
            ),
            screenshot=home.screenshot, page_title=first.page_title,
        )  # fmt: skip

    async def _read_robots(self, url: str) -> RobotsFile:
        with self._measure("robots"):
            try:
                return await self.fetcher.robots_for(url)
            except (Blocked, PageFailed, SiteFailed):  # only if the settings ignore it: otherwise the visit has failed
                return self.robots

    async def read_favicon(self, url: str, parsed: ParsedPage) -> str:
        """The name of the stored favicon; empty if the site has none that can be drawn."""
        icons = parsed.fields.get("icons")
        stated = [icon for icon in icons if isinstance(icon, str)] if isinstance(icons, list) else []
        with self._measure("favicon"):
            for target in dict.fromkeys([*stated[:1], join_url(url, "/favicon.ico")]):
                try:
                    page = await self.fetcher.fetch(target, limit=ICON_BYTES)
                except (Blocked, PageFailed, SiteFailed, Permanent):
                    continue
                if page.status == 200 and not page.is_cut and (drawn := await redraw_icon(page.body)):
                    await asyncio.to_thread(_write, self.folder / FAVICON, drawn)
                    return FAVICON
        return ""

    def _add_page_issues(self, page: FetchedPage, parsed: ParsedPage, url: str) -> None:
        if page.is_cut:
            self._add_issue(Message("visit.page_cut", url=url, n=self.settings.page_bytes))
        if parsed.error:
            self._add_issue(Message("visit.page_unreadable", url=url, detail=parsed.error))
        if declared := parsed.signs.get("wrongly_declared"):
            used = str(parsed.signs.get("charset"))
            self._add_issue(Message("visit.charset_wrong", url=url, declared=str(declared), used=used))

    def summarize(self, info: WebsiteInfo, pages: list[PageInfo]) -> WebsiteInfo:
        """The information with what all pages say."""
        self.timings["total"] = round(time.monotonic() - self.started, 3)
        return replace(
            info, pages=tuple(pages), contacts=assembly.contacts_of(self.read), social=assembly.social_of(self.read),
            technologies=assembly.technologies_of(self.read), timings=self.timings, issues=tuple(self.issues),
        )  # fmt: skip

    async def read_sample(self, info: WebsiteInfo, pages: list[PageInfo]) -> None:
        """Adds the pages of the sample one by one: those that were read count if the time is over."""
        if self.settings.pages <= 1:
            return
        if self.settings.respect_robots and (info.robots.crawl_delay or 0) > self.settings.longest_pause:
            self._add_issue(Message("visit.crawl_delay_long", n=info.robots.crawl_delay))
            return
        self.note(Message("visit.step_sitemap"))
        with self._measure("sitemap"):
            listed, issues = await list_pages(self.fetcher, info.final_url, list(info.robots.sitemaps))
        for issue in issues:
            self._add_issue(issue)
        chosen = choose_pages(info.final_url, info.links.internal, listed, self.settings.pages * 2, info.redirects)
        for url, origin in chosen:
            if len(pages) >= self.settings.pages:
                break
            self.note(Message("visit.step_page", n=len(pages) + 1, total=self.settings.pages, url=url))
            with self._measure("pages"):
                if page := await self._read_page(url, info, known={one.url for one in pages}):
                    pages.append(replace(page, found=origin))

    async def _read_page(self, url: str, info: WebsiteInfo, known: set[str]) -> PageInfo | None:
        """A page of the sample; None if it is missing, denied or known already."""
        try:
            page = await self.fetcher.fetch(normalize_or_blank(url))
        except RobotsDenied:
            return None
        except (Blocked, PageFailed, SiteFailed, Permanent) as error:
            self._add_issue(Message("visit.page_skipped", url=url, detail=str(error)))
            return None
        if page.status >= 400:
            self._add_issue(Message("visit.page_missing", url=url, status=page.status))
        if page.status != 200 or page.media not in PAGES or page.url in known:
            return None
        parsed = await parse_page(page, info.language)
        is_rendered = False
        if info.rendered and parsed.signs.get("script_need"):
            shown = await self._render(page.url, screenshot=False, wanted="")
            if shown is not None and site_of(shown.url) == site_of(page.url):
                parsed, is_rendered = await parse_page(_as_fetched(page, shown), info.language), True
        self._add_page_issues(page, parsed, page.url)
        self.read.append((page.url, parsed))
        return assembly.page_info(page.url, "link", page.status, parsed, rendered=is_rendered)


def normalize_or_blank(url: str) -> str:
    """A URL of a page as it is fetched; empty if it is not valid."""
    try:
        return normalize_url(url)
    except ValueError:
        return ""


def _as_fetched(page: FetchedPage, shown: RenderedPage) -> FetchedPage:
    """A page from the browser, with the headers that the server sent."""
    headers = [(name, value) for name, value in page.headers if name != "content-type"]
    return replace(
        page, url=shown.url, body=shown.body, is_cut=shown.is_cut,
        headers=(("content-type", "text/html; charset=utf-8"), *headers),
    )  # fmt: skip


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
