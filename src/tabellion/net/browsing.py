"""One session in a guarded browser: its pages, its files, its stored sign-in, and what it was refused."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tabellion.errors import TabellionError
from tabellion.net.guard import Blocked, parse
from tabellion.net.proxy import GuardProxy, ProxyAccount, ProxyLimits, RefusedAddress

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Download, Page, Response, Route

log = logging.getLogger("tabellion.net")

CLOSE_SECONDS = 10.0
LONGEST_NAME = 120
#: Everything that is not the web: files of this machine, and pages of the browser itself.
_ELSEWHERE = re.compile(r"^(?!https?:|wss?:|data:|blob:|about:)", re.IGNORECASE)


class BrowserFailed(TabellionError):  # noqa: N818 - what happened
    """The browser did not do what it was asked to; trying again later may succeed."""


class BrowserDied(BrowserFailed):
    """The browser or its page died in the middle of the work. Try again: the next session gets a new one."""


class BrowserSession:
    """A browser context: its own cookies, its own account at the proxy, a folder for what it downloads."""

    def __init__(self, context: BrowserContext, account: ProxyAccount, downloads: Path, state: Path | None) -> None:
        self.context = context
        self.downloads = downloads
        self.state = state
        self.is_stuck = False  #: whether it could not be closed: its browser must go
        self._account = account
        self._crashed = False
        context.on("page", self._watch)

    @property
    def refused(self) -> list[RefusedAddress]:
        """The hosts that pages of this session asked for and did not reach."""
        return list(self._account.refused)

    @property
    def used(self) -> int:
        """The bytes that went to and fro."""
        return self._account.used

    @property
    def has_died(self) -> bool:
        """Whether the browser, or a page of this session, is no longer there."""
        browser = self.context.browser
        return self._crashed or browser is None or not browser.is_connected()

    async def new_page(self) -> Page:
        """An empty page."""
        return await self.context.new_page()

    async def visit(
        self, page: Page, url: str, *, until: Literal["commit", "domcontentloaded", "load", "networkidle"] = "load"
    ) -> Response | None:
        """Goes to a URL; raises Blocked where the guard does not let it, or the last of its redirects."""
        from playwright.async_api import Error

        parse(url)
        before = len(self._account.refused)
        failure: Error | None = None
        response: Response | None = None
        try:
            response = await page.goto(url, wait_until=until)
        except Error as error:
            failure = error
        if failure is not None or (response is not None and response.status == 403):
            host = parse(response.url if response is not None else url).host
            new = self._account.refused[before:]
            mine = [one for one in self._account.refused if one.host == host] or (new if failure is not None else [])
            if mine:
                raise Blocked(mine[-1].reason) from failure
        if failure is not None:
            raise failure
        return response

    async def save_download(self, download: Download, name: str = "") -> Path:
        """Stores a finished download in this session's folder; under a name of its own if the name is taken."""
        wanted = _file_name(name or download.suggested_filename)
        self.downloads.mkdir(parents=True, exist_ok=True)
        path = self.downloads / wanted
        number = 1
        while path.exists():
            number += 1
            path = self.downloads / f"{Path(wanted).stem}-{number}{Path(wanted).suffix}"
        from playwright.async_api import Error

        try:
            await download.save_as(path)
        except Error as error:
            if self.has_died:
                raise
            raise BrowserFailed(f"the download of {wanted} did not finish") from error
        return path

    async def save_state(self) -> None:
        """Stores cookies and local storage in the file `state`, for later sessions; only its owner may read it."""
        if self.state is None:
            raise ValueError("open_session(state=…) names no file to store them in")
        text = json.dumps(await self.context.storage_state())
        self.state.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp makes it readable for its owner only; and a reader finds the old one or the new one, whole.
        number, path = tempfile.mkstemp(dir=self.state.parent, prefix=f".{self.state.name}.")
        try:
            with os.fdopen(number, "w") as file:
                file.write(text)
            os.replace(path, self.state)
        except BaseException:
            os.unlink(path)
            raise

    def _watch(self, page: Page) -> None:
        page.on("crash", self._note_crash)

    def _note_crash(self, _page: Page) -> None:
        self._crashed = True


@asynccontextmanager
async def open_context(
    browser: Browser,
    proxy: GuardProxy,
    downloads: Path,
    *,
    state: Path | None,
    page_seconds: float,
    seconds: float,
    limits: ProxyLimits | None,
    options: Mapping[str, Any],
) -> AsyncIterator[BrowserSession]:
    """A session of a running browser, which ends with the block."""
    from playwright.async_api import Error

    account = proxy.add_account(limits)
    session: BrowserSession | None = None
    try:
        async with asyncio.timeout(seconds) as deadline:
            context = await browser.new_context(
                **{"accept_downloads": True, "service_workers": "block", **options},
                storage_state=_read_state(state),
                proxy={
                    "server": proxy.url, "bypass": "<-loopback>", "username": account.name,
                    "password": account.password,
                },
            )  # fmt: skip
            session = BrowserSession(context, account, downloads, state)
            context.set_default_timeout(page_seconds * 1000)
            context.set_default_navigation_timeout(page_seconds * 1000)
            await context.route(_ELSEWHERE, _abort)
            yield session
    except Error as error:
        if (session is None and not browser.is_connected()) or (session is not None and session.has_died):
            raise BrowserDied from error
        raise
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise BrowserFailed(f"the browser session took longer than {seconds:g} s") from error
    finally:
        if session is not None:
            await _close(session)
        await proxy.remove_account(account)


async def _close(session: BrowserSession) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await session.context.close()
    except TimeoutError:
        session.is_stuck = True
    except Exception as error:  # of a browser that is gone: there is nothing left to close
        log.debug("browser: a session was not closed: %s", type(error).__name__)


async def _abort(route: Route) -> None:
    await route.abort("accessdenied")


def _read_state(state: Path | None) -> Any:
    if state is None:
        return None
    try:
        found = json.loads(state.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        log.warning("browser: %s is not a stored session and is ignored", state.name)
        return None
    return found


def _file_name(name: str) -> str:
    """A name that stays in its folder and can be shown."""
    kept = "".join(letter if letter.isprintable() and letter not in '/\\:*?"<>|' else "_" for letter in name).strip(
        " ."
    )
    stem, dot, suffix = kept.rpartition(".")
    if not dot or len(suffix) > 10:
        return kept[:LONGEST_NAME] or "download"
    return f"{stem[: LONGEST_NAME - len(suffix) - 1] or 'download'}.{suffix}"
