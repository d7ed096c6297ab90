"""The browser that walks registry sites: one Chromium for a worker process, started when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion import extras
from tabellion.errors import ConfigurationError
from tabellion.net.guard import Rules

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--disable-background-networking", "--disable-component-update", "--disable-gpu", "--disable-quic",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
GOODBYE = 5.0  #: seconds for a browser to close


def find_chromium() -> str:
    """The program to start; raises a ConfigurationError that says how to get one."""
    named = os.environ.get("TABELLION_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if not found:
        raise ConfigurationError(
            "registries need Chromium: install the package chromium, or name its program in TABELLION_CHROMIUM"
        )
    return found


class OpenBrowser:
    """A running Chromium."""

    def __init__(self, playwright: Playwright, browser: Browser) -> None:
        self._playwright, self._browser = playwright, browser

    @property
    def is_alive(self) -> bool:
        """Whether it still answers."""
        return self._browser.is_connected()

    async def new_context(self, state: Mapping[str, Any] | None = None) -> BrowserContext:
        """A browser session of its own, with the cookies of an earlier one."""
        return await self._browser.new_context(
            storage_state=dict(state) if state else None,  # type: ignore[arg-type]
            accept_downloads=True, locale="fr-CA", service_workers="block",
        )  # fmt: skip

    async def close(self) -> None:
        """Ends it."""
        for end in (self._browser.close, self._playwright.stop):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(GOODBYE):
                    await end()


async def open_browser(rules: Rules) -> OpenBrowser:
    """Starts Chromium."""
    with extras.explain_missing("registries"):
        from playwright.async_api import async_playwright

    arguments = [*ARGUMENTS, "--no-sandbox"] if os.geteuid() == 0 else [*ARGUMENTS]  # its sandbox refuses root
    playwright = await async_playwright().start()
    try:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
    except BaseException:
        await playwright.stop()
        raise
    return OpenBrowser(playwright, browser)
