"""Runs a Chromium whose every request passes the guard, and restarts it when it dies.

    async with Chromium(Rules.of(config.allow)) as chromium:
        async with chromium.open_session(folder, state=folder / "account.json") as session:
            page = await session.new_page()
            await session.visit(page, "https://registry.example/")

It never outlives the block: a small parent process kills it if this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tabellion.errors import ConfigurationError, TabellionError
from tabellion.extras import explain_missing, require
from tabellion.messages import Message
from tabellion.net import browser_parent
from tabellion.net.browsing import BrowserDied, BrowserFailed, BrowserSession, create_session, limit_session
from tabellion.net.guard import Rules
from tabellion.net.proxy import GuardProxy, ProxyLimits

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

__all__ = ["BrowserDied", "BrowserFailed", "BrowserSession", "Chromium", "check_installed", "find_program"]

VARIABLE = "TABELLION_CHROMIUM"
#: The first is Chromium without windows: the same engine, with two thirds of the processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_SECONDS = 60.0
CLOSE_SECONDS = 15.0
#: The environment variables that the browser needs; it must not see credentials.
KEPT = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "FONTCONFIG_FILE", "FONTCONFIG_PATH")
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-first-run",
    "--no-pings",
    # WebRTC would send UDP past the proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # A request that bypasses the proxy nevertheless cannot resolve a name.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def find_program() -> str:
    """The path of Chromium; raises a ConfigurationError with the command that installs it."""
    configured = os.environ.get(VARIABLE)
    if configured:
        found = shutil.which(configured)
        if found is None:
            raise ConfigurationError(f"{VARIABLE} names {configured}, which is not a program on this machine")
        return found
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise ConfigurationError(
        f"Chromium is not installed. Run apt-get install {NAMES[1]}, or set {VARIABLE} to the path of its program"
    )


def check_installed() -> None:
    """Raises a ConfigurationError if Playwright or Chromium is missing: at the start, not in the middle of a job."""
    require("browser")
    find_program()


class Chromium:
    """One browser for the sessions of many accounts; it starts on first use, and again after it has died."""

    def __init__(
        self,
        rules: Rules | None = None,
        *,
        program: str | None = None,
        sandbox: bool | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        """`sandbox`: Chromium's own (default: unless running as root); `arguments` are added to its command line."""
        self._rules = rules or Rules()
        self._program = program
        self._sandbox = os.geteuid() != 0 if sandbox is None else sandbox
        self._arguments = arguments
        self._starting = asyncio.Lock()
        self._running: _Running | None = None

    async def __aenter__(self) -> Chromium:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def folder(self) -> Path | None:
        """The temporary folder of the running browser."""
        return self._running.folder if self._running else None

    async def start(self) -> None:
        """Starts the browser now, unless it is running."""
        await self._start()

    async def close(self) -> None:
        """Closes the browser and its sessions."""
        async with self._starting:
            running, self._running = self._running, None
            if running is not None:
                await running.close()

    @asynccontextmanager
    async def open_session(
        self,
        downloads: Path,
        *,
        state: Path | None = None,
        page_seconds: float = 30.0,
        seconds: float = 900.0,
        limits: ProxyLimits | None = None,
        rules: Rules | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[BrowserSession]:
        """Opens a session with its own cookies, or those that an earlier session stored in `state`.

        A page that does not answer within `page_seconds` raises Playwright's TimeoutError; the whole session may take
        `seconds`. Raises BrowserDied if the browser or its page dies; the next session gets a new browser. Files go to
        `downloads`; `rules` replace those of the browser; `options` are passed to Playwright's new_context, such as
        locale or http_credentials.
        """
        running, session = await self._begin(
            downloads, state=state, page_seconds=page_seconds, limits=limits, rules=rules, options=options or {}
        )
        try:
            async with limit_session(session, running.proxy, seconds):
                yield session
        finally:
            if session.is_lost:
                await running.close()

    async def _begin(self, downloads: Path, **options: Any) -> tuple[_Running, BrowserSession]:
        try:
            return await self._create(downloads, **options)
        except BrowserDied:  # the browser had died unnoticed before this session, which has lost nothing
            return await self._create(downloads, **options)

    async def _create(self, downloads: Path, **options: Any) -> tuple[_Running, BrowserSession]:
        running = await self._start()
        try:
            return running, await create_session(running.browser, running.proxy, downloads, **options)
        except Exception as error:
            if running.is_alive and type(error).__name__ != "TargetClosedError":
                raise
            await running.close()
            raise BrowserDied from error

    async def _start(self) -> _Running:
        async with self._starting:
            if self._running is not None and not self._running.is_alive:
                await self._running.close()
                self._running = None
            if self._running is None:
                self._running = await _launch(self._rules, self._program, self._sandbox, self._arguments)
            return self._running


class _Running:
    """A running browser with its driver, proxy and folder."""

    def __init__(self, driver: Playwright, browser: Browser, proxy: GuardProxy, folder: Path) -> None:
        self.browser = browser
        self.proxy = proxy
        self.folder = folder
        self._driver = driver
        self._closed = False

    @property
    def is_alive(self) -> bool:
        """Whether the browser can be used."""
        return not self._closed and self.browser.is_connected()

    async def close(self) -> None:
        """Closes everything, by force if necessary."""
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(Exception):  # any error: the browser is being discarded
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.browser.close()
        finally:
            await _dismiss(self._driver, self.proxy, self.folder)


async def _dismiss(driver: Playwright | None, proxy: GuardProxy, folder: Path) -> None:
    try:
        if driver is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await driver.stop()
    finally:
        await proxy.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _launch(rules: Rules, program: str | None, sandbox: bool, arguments: tuple[str, ...]) -> _Running:
    with explain_missing("browser"):
        from playwright.async_api import Error, async_playwright
    program = program or find_program()
    folder = Path(tempfile.mkdtemp(prefix="tabellion-browser-"))
    proxy = GuardProxy(rules)
    driver: Playwright | None = None
    try:
        await proxy.start()
        account = proxy.add_account()
        driver = await async_playwright().start()
        browser = await driver.chromium.launch(
            executable_path=_wrap_program(program, folder),
            args=[*ARGUMENTS, *arguments],
            chromium_sandbox=sandbox,
            env=_environment(folder),
            artifacts_dir=folder / "artifacts",
            downloads_path=folder / "downloads",
            # Loopback is named explicitly: an environment variable of Playwright can disable its default rule.
            proxy={
                "server": proxy.url,
                "bypass": "<-loopback>",
                "username": account.name,
                "password": account.password,
            },
            timeout=START_SECONDS * 1000,
        )
    except Error as error:
        await _dismiss(driver, proxy, folder)
        raise _explain_failure(program, str(error)) from error
    except BaseException:
        await _dismiss(driver, proxy, folder)
        raise
    return _Running(driver, browser, proxy, folder)


def _explain_failure(program: str, text: str) -> TabellionError:
    if "No usable sandbox" in text or "setuid_sandbox" in text or "zygote_host_impl" in text:
        return ConfigurationError(
            f"{program} cannot use its sandbox here. Run apt-get install chromium-sandbox, or allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1)"
        )
    first_line = text.strip().partition("\n")[0][:300]
    return BrowserFailed(Message("browser.not_started", program=program, detail=first_line or "unknown"))


def _wrap_program(program: str, folder: Path) -> str:
    """The program for Playwright to start: the browser's parent, or the browser itself if the system lacks pidfds."""
    if not hasattr(os, "pidfd_open") or not Path("/proc/self/stat").exists():
        return program
    owner = os.getpid()
    owner_started = browser_parent.read_start_time(owner)
    command = [sys.executable, "-I", "-S", browser_parent.__file__, str(owner), owner_started, str(folder), program]
    script = folder / "chromium"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o700)
    if not os.access(script, os.X_OK):
        raise ConfigurationError(f"no program may run in {folder.parent}: set TMPDIR to a folder where they may")
    return str(script)


def _environment(folder: Path) -> dict[str, str | float | bool]:
    home = folder / "home"
    home.mkdir()
    return {**{name: os.environ[name] for name in KEPT if name in os.environ}, "HOME": str(home)}
