"""Watches what a browser does on the pages: what no page of ours may do is recorded and fails the test."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response, WebSocket

Value = TypeVar("Value")
WITHIN = ("data:", "blob:", "about:")  #: addresses that ask nobody
OF_STATUS = re.compile(r"^Failed to load resource: the server responded with a status of (\d+)")
OF_CUT = re.compile(r"^Failed to load resource: net::ERR_(CONNECTION_\w+|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)")
#: Told to the console by the page itself, so that it is heard in the order it happened and from every frame.
TELL = """addEventListener("securitypolicyviolation", event =>
    console.error(`violates ${event.effectiveDirective}: ${event.blockedURI}`));"""


class Watch:
    """The violations in one browser context, and every address it requested."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.origin = origin
        self.wrongs: list[str] = []
        self.asked: list[str] = []
        self.refusals: set[int] = set()  #: answers of 400 and above that the test is about
        self.cut = False  #: whether the test takes the server away
        self._open: set[Request] = set()  #: not yet answered
        context.add_init_script(TELL)
        context.on("requestfinished", self._ended)
        context.on("requestfailed", self._ended)
        context.on("console", self._console)
        context.on("request", self._request)
        context.on("response", self._response)
        context.on("weberror", lambda error: self.wrongs.append(f"an exception on a page: {error.error}"))
        context.on("page", self._page)

    def expect(self, *statuses: int) -> None:
        """Allow these responses, which the test is about."""
        self.refusals |= set(statuses)

    def settle(self, page: Page) -> None:
        """Wait until the page has loaded and is no longer busy."""
        calm = 0
        while calm < 3:
            page.wait_for_load_state("load")
            page.wait_for_timeout(20)
            calm = calm + 1 if not self._open and page.locator("[aria-busy=true]").count() == 0 else 0

    def check(self) -> None:
        """Fail if there was a violation."""
        assert not self.wrongs, "\n".join(self.wrongs)

    def _page(self, page: Page) -> None:
        page.on("websocket", self._websocket)
        page.on("crash", lambda _: self.wrongs.append("a page crashed"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "assert"):
            return
        if OF_STATUS.match(message.text) or (self.cut and OF_CUT.match(message.text)):
            return  # answers are judged as answers
        self.wrongs.append(f"the console of {message.location.get('url', '?')} says: {message.text}")

    def _request(self, request: Request) -> None:
        self.asked.append(request.url)
        if request.resource_type != "eventsource":  # which stays open for as long as the page does
            self._open.add(request)
        if not request.url.startswith(WITHIN) and self._origin_of(request.url) != self.origin:
            self.wrongs.append(f"a request to somebody else: {request.url}")

    def _ended(self, request: Request) -> None:
        self._open.discard(request)

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.refusals:
            self.wrongs.append(f"{response.request.method} {response.url} was answered {response.status}")

    def _websocket(self, socket: WebSocket) -> None:
        self.wrongs.append(f"a connection of its own: {socket.url}")

    @staticmethod
    def _origin_of(url: str) -> str:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}"


def until(page: Page, condition: Callable[[], Value], within: float = 30.0) -> Value:
    """Return the condition's value as soon as it is true; the browser keeps running, unlike during a sleep."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {condition!r} still gives {value!r}"
        page.wait_for_timeout(20)
    return value
