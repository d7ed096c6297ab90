"""Reads pages in the guarded browser: what their scripts have written, and a screenshot."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.net.browsing import BrowserSession
from tabellion.net.chromium import Chromium
from tabellion.net.guard import Blocked, HostUnreachable
from tabellion.net.proxy import ProxyLimits
from tabellion.pipelines.websites.site.settings import VisitSettings

if TYPE_CHECKING:
    from playwright.async_api import Page

VIEWPORT = {"width": 1280, "height": 800}
QUALITY = 80  #: of the screenshot, a JPEG
AT_ONCE = 4  #: pages that one browser shows
QUIET_SECONDS = 4.0  #: to wait for the page's requests to end
PAGE_TRAFFIC = 60_000_000  #: bytes that the page and its requests may transfer
#: Read in a world of its own, where scripts of the page cannot replace the functions that this calls.
SOURCE = "document.documentElement ? document.documentElement.outerHTML.slice(0, {limit}) : ''"


class RenderingFailed(TabellionError):  # noqa: N818 - what happened
    """The browser could not show the page."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as the browser shows it."""

    url: str  #: scripts may have navigated
    status: int
    body: bytes  #: the document as HTML, in UTF-8
    is_cut: bool
    screenshot: bytes  #: JPEG; empty if none was wanted
    refused: tuple[str, ...]  #: hosts that the page requested and the guard refused


async def render_page(
    chromium: Chromium, settings: VisitSettings, folder: Path, url: str, *, screenshot: bool = False
) -> RenderedPage:
    """Shows a page in a session of its own; raises Blocked, BrowserFailed or RenderingFailed."""
    options = {
        "user_agent": settings.user_agent, "viewport": VIEWPORT, "accept_downloads": False, "device_scale_factor": 1,
    }  # fmt: skip
    limits = ProxyLimits(bytes=PAGE_TRAFFIC, seconds=settings.seconds, idle=settings.page_seconds)
    async with (
        _turns(chromium),
        chromium.open_session(
            folder / "downloads", page_seconds=settings.page_seconds, seconds=settings.page_seconds * 3, limits=limits,
            rules=settings.guard, options=options,
        ) as session,
    ):  # fmt: skip
        return await _show(session, settings, url, screenshot)


async def _show(session: BrowserSession, settings: VisitSettings, url: str, screenshot: bool) -> RenderedPage:
    from playwright.async_api import Error

    try:
        page = await session.new_page()
        response = await session.visit(page, url, until="domcontentloaded")
        with contextlib.suppress(Error):  # many pages never stop asking
            await page.wait_for_load_state("networkidle", timeout=QUIET_SECONDS * 1000)
        text = await read_source(page, settings.page_bytes + 1)
        picture = await _take_screenshot(page) if screenshot else b""
    except HostUnreachable as error:
        raise RenderingFailed(Message("visit.not_rendered", detail=str(error))) from None
    except Error as error:
        if await session.has_died():
            raise  # the session explains it
        detail = str(error.message).partition("\n")[0][:200]
        raise RenderingFailed(Message("visit.not_rendered", detail=detail)) from error
    # The proxy answers a refused navigation with a text of its own, which is not the page.
    if refusal := next((one for one in session.refused_addresses if one.host == urlsplit(page.url).hostname), None):
        raise Blocked(refusal.reason)
    body, limit = text.encode("utf-8", "replace"), settings.page_bytes
    return RenderedPage(
        page.url, response.status if response else 0, body[:limit], len(body) > limit, picture,
        tuple(dict.fromkeys(one.host for one in session.refused_addresses)),
    )  # fmt: skip


async def _take_screenshot(page: Page) -> bytes:
    """A JPEG of the page; empty if the browser cannot draw it: its text counts more."""
    from playwright.async_api import Error

    try:
        return await page.screenshot(type="jpeg", quality=QUALITY, animations="disabled")
    except Error:
        return b""


async def read_source(page: Page, limit: int) -> str:
    """The document as HTML, at most `limit` characters of it, whatever its scripts have done to the page."""
    client = await page.context.new_cdp_session(page)
    try:
        frame = (await client.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        world = await client.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "tabellion"})
        result = await client.send(
            "Runtime.evaluate",
            {
                "expression": SOURCE.format(limit=limit),
                "contextId": world["executionContextId"],
                "returnByValue": True,
                "timeout": 5000,
            },
        )
        return str(result.get("result", {}).get("value") or "")
    finally:
        await client.detach()


_rendering: WeakKeyDictionary[Chromium, asyncio.Semaphore] = WeakKeyDictionary()


def _turns(chromium: Chromium) -> asyncio.Semaphore:
    """The turns of a browser: pages that are shown at once slow each other down beyond their deadlines."""
    return _rendering.setdefault(chromium, asyncio.Semaphore(AT_ONCE))
