"""What the browser tests rely on: forbidden browser events are noticed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.watch import Watch, until

PAGES = {
    "/calm": "<p>nothing happens</p><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>",
    "/console": "<script>console.error('a complaint')</script>",
    "/exception": "<script>setTimeout(() => { throw new Error('a slip') })</script>",
    "/inline": "<p onclick='1'>x</p><script>document.querySelector('p').setAttribute('style', 'top: 0')</script>",
    "/image": "<img src='http://127.0.0.1:9/picture.png'>",
    "/fetch": "<script>fetch('https://elsewhere.example/').catch(() => 0)</script>",
    "/socket": "<script>new WebSocket('ws://127.0.0.1:9/')</script>",
    "/missing": "<link rel='stylesheet' href='/none.css'>",
    "/broken": "<script>fetch('/500')</script>",
}


class Pages(BaseHTTPRequestHandler):
    """Serves a page for each violation."""

    def do_GET(self) -> None:
        """Answer with the page, or with the error named by its path."""
        status = 200 if self.path in PAGES else 500 if self.path == "/500" else 404
        content = ("<!doctype html><link rel='icon' href='data:,'>" + PAGES.get(self.path, "")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if self.path == "/inline":
            self.send_header("Content-Security-Policy", "style-src 'self'")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Log nothing."""


@pytest.fixture
def origin() -> Iterator[str]:
    """A server of pages that misbehave."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


@pytest.fixture
def watched(chromium: Browser, origin: str) -> Iterator[tuple[Page, Watch]]:
    """A page that is watched."""
    with chromium.new_context() as context:
        watch = Watch(context, origin)
        yield context.new_page(), watch


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/console", "a complaint"),
        ("/exception", "a slip"),
        ("/inline", "violates style-src"),
        ("/image", "somebody else: http://127.0.0.1:9/picture.png"),
        ("/fetch", "somebody else: https://elsewhere.example/"),
        ("/socket", "a connection of its own: ws://127.0.0.1:9/"),
        ("/missing", "/none.css was answered 404"),
        ("/broken", "/500 was answered 500"),
    ],
)
def test_a_violation_is_recorded(watched: tuple[Page, Watch], origin: str, path: str, wrong: str) -> None:
    """A console error, an exception, a broken policy, a foreign address and an error response each fail the test."""
    page, watch = watched
    page.goto(origin + path)
    until(page, lambda: any(wrong in one for one in watch.wrongs))
    with pytest.raises(AssertionError, match=re.escape(wrong)):
        watch.check()


def test_a_clean_page_and_an_expected_response_are_no_violations(watched: tuple[Page, Watch], origin: str) -> None:
    """Nothing is recorded on a clean page, and a response the test expects is allowed."""
    page, watch = watched
    page.goto(f"{origin}/calm")
    watch.expect(404)
    with page.expect_response("**/none.css"):
        page.goto(f"{origin}/missing")
    page.wait_for_load_state("networkidle")
    watch.check()
    assert f"{origin}/none.css" in watch.asked
