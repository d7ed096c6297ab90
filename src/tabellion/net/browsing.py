"""A session in a guarded browser: its pages, downloads, stored cookies, and refused addresses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Blocked, Rules, parse
from tabellion.net.proxy import GuardProxy, ProxyAccount, ProxyLimits, RefusedAddress

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Download, Page, Response, Route

log = logging.getLogger("tabellion.net")

CLOSE_SECONDS = 10.0
ERROR_PAGE_SECONDS = 5.0
LONGEST_NAME = 120
#: URLs outside the web: files of this machine, and internal pages of the browser.
_ELSEWHERE = re.compile(r"^(?!https?:|wss?:|data:|blob:|about:)", re.IGNORECASE)


class BrowserFailed(TabellionError):  # noqa: N818 - what happened
    """The browser failed; a retry may succeed."""


class BrowserDied(BrowserFailed):
    """The browser or its page crashed. Retry: the next session gets a new browser."""

    def __init__(self) -> None:
        super().__init__(Message("browser.died"))


class BrowserSession:
    """A browser context with its own cookies, proxy account and download folder."""

    def __init__(self, context: BrowserContext, account: ProxyAccount, downloads: Path, state: Path | None) -> None:
        self.context = context
        self.downloads = downloads
        self.state = state
        self.account = account
        self.is_lost = False  #: whether its browser no longer answers and must be closed
        self._crashed = False
        context.on("page", self._watch)

    @property
    def refused_addresses(self) -> list[RefusedAddress]:
        """The hosts that pages of this session requested and the guard refused."""
        return list(self.account.refused)

    async def has_died(self) -> bool:
        """Whether the browser, its driver, or a page of this session has died."""
        browser = self.context.browser
        if browser is None or not browser.is_connected():
            self.is_lost = True
        elif not self._crashed:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.context.cookies(
                        []
                    )  # any request will do: Playwright does not notice that its driver is dead
            except Exception:
                self.is_lost = True
        return self.is_lost or self._crashed

    async def close(self) -> None:
        """Closes the session and its pages."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.context.close()
        except TimeoutError:
            self.is_lost = True
        except Exception as error:  # the browser is gone: there is nothing left to close
            log.debug("browser: a session was not closed: %s", type(error).__name__)

    async def new_page(self) -> Page:
        """An empty page."""
        return await self.context.new_page()

    async def visit(
        self, page: Page, url: str, *, until: Literal["commit", "domcontentloaded", "load", "networkidle"] = "load"
    ) -> Response | None:
        """Navigates to a URL; raises Blocked if the guard refuses it or a redirect target, and HostUnreachable if the
        proxy cannot reach its host.

        Use it instead of `page.goto`: after a failed navigation the browser loads its own error page, which would
        interrupt the next navigation. This method waits for it.
        """
        from playwright.async_api import Error

        parse(url)
        before = self.account.refusals
        self.account.unreachable = None
        try:
            response = await page.goto(url, wait_until=until)
        except Error as error:
            if "net::ERR_" in str(error) and "net::ERR_ABORTED" not in str(error):
                with contextlib.suppress(Error):
                    await page.wait_for_url("chrome-error://**", wait_until="commit", timeout=ERROR_PAGE_SECONDS * 1000)
            if "ERR_TUNNEL_CONNECTION_FAILED" in str(error):
                self._check_refusals(before, error)
                self._check_unreachable()
            raise
        if response is not None and response.status == 403:
            self._check_refusals(before, host=urlsplit(response.url).hostname or "")
        if response is not None and response.status == 502:
            self._check_unreachable(urlsplit(response.url).hostname or "")
        return response

    def _check_refusals(self, before: int, error: Exception | None = None, host: str = "") -> None:
        """Raises Blocked if the guard has refused an address since `before`, of this host if one is given."""
        latest = self.account.latest
        if latest is not None and self.account.refusals > before and host in ("", latest.host):
            raise Blocked(latest.reason) from error

    def _check_unreachable(self, host: str = "") -> None:
        """Raises HostUnreachable if the proxy could not reach a host since the visit began, this one if it is given."""
        latest = self.account.unreachable
        if latest is not None and host in ("", latest.host):
            raise latest from None

    async def save_download(self, download: Download, name: str = "") -> Path:
        """Stores a finished download in this session's folder, numbered if the name is taken."""
        file_name = _file_name(name or download.suggested_filename)
        self.downloads.mkdir(parents=True, exist_ok=True)
        path = self.downloads / file_name
        number = 1
        while path.exists():
            number += 1
            path = self.downloads / f"{Path(file_name).stem}-{number}{Path(file_name).suffix}"
        from playwright.async_api import Error

        try:
            await download.save_as(path)
        except Error as error:
            if await self.has_died():
                raise
            raise BrowserFailed(Message("browser.download_failed", name=file_name)) from error
        return path

    async def save_state(self) -> None:
        """Stores cookies and local storage in the file `state` for later sessions, readable by its owner only."""
        if self.state is None:
            raise ValueError("open_session(state=…) names no file to store them in")
        text = json.dumps(await self.context.storage_state())
        self.state.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp creates it readable by its owner only; replacing it means that readers never see half a file.
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


async def create_session(
    browser: Browser,
    proxy: GuardProxy,
    downloads: Path,
    *,
    state: Path | None,
    page_seconds: float,
    limits: ProxyLimits | None,
    rules: Rules | None,
    options: Mapping[str, Any],
) -> BrowserSession:
    """Opens a session in a running browser."""
    account = proxy.add_account(limits, rules)
    try:
        context = await browser.new_context(
            **{"accept_downloads": True, "service_workers": "block", **options},
            storage_state=_read_state(state),
            proxy={
                "server": proxy.url, "bypass": "<-loopback>", "username": account.name, "password": account.password,
            },
        )  # fmt: skip
        context.set_default_timeout(page_seconds * 1000)
        context.set_default_navigation_timeout(page_seconds * 1000)
        await context.route(_ELSEWHERE, _abort)
    except BaseException:
        await proxy.remove_account(account)
        raise
    return BrowserSession(context, account, downloads, state)


@asynccontextmanager
async def limit_session(session: BrowserSession, proxy: GuardProxy, seconds: float) -> AsyncIterator[None]:
    """Closes a session after the block or after `seconds`; raises BrowserDied if an error was due to a crash."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(seconds) as deadline:
            yield
    except Error:
        if await session.has_died():
            raise BrowserDied from None  # the cause lists what was being typed, perhaps a password
        raise
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise BrowserFailed(Message("browser.session_timed_out", n=seconds)) from error
    finally:
        await session.close()
        await proxy.remove_account(session.account)


async def _abort(route: Route) -> None:
    await route.abort("accessdenied")


def _read_state(state: Path | None) -> Any:
    if state is None:
        return None
    try:
        stored = json.loads(state.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict):
        log.warning("browser: %s is not a stored session and is ignored", state.name)
        return None
    return stored


def _file_name(name: str) -> str:
    """A safe file name: without path separators and unprintable characters."""
    safe = "".join(letter if letter.isprintable() and letter not in '/\\:*?"<>|' else "_" for letter in name).strip(
        " ."
    )
    stem, dot, suffix = safe.rpartition(".")
    if not dot or len(suffix) > 10:
        return safe[:LONGEST_NAME] or "download"
    return f"{stem[: LONGEST_NAME - len(suffix) - 1] or 'download'}.{suffix}"
