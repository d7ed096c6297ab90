"""Fetching pages: any status, decompressed and cut, with every redirect checked; what fails, and why."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest

from tabellion.net.guard import Blocked, Rules
from tabellion.net.page_fetching import FetchedPage, PageFailed, fetch_page, quote_url
from tests.models.scripted import Answer, RecordedRequest, ScriptedServer, scripted
from tests.net.serving import raw_server, tls_server

HOME = Rules.of(["127.0.0.0/8"])
HTML = {"content-type": "text/html; charset=utf-8"}


async def get(url: str, **options: Any) -> FetchedPage:
    return await fetch_page(url, HOME, **{"user_agent": "test/1", "limit": 1000, "seconds": 10.0, **options})


def fetched(
    script: Callable[[RecordedRequest], Answer], path: str = "/", **options: Any
) -> tuple[FetchedPage, ScriptedServer]:
    async def story() -> tuple[FetchedPage, ScriptedServer]:
        async with scripted(script) as server:
            return await get(server.url + path, **options), server

    return asyncio.run(story())


def test_a_page_comes_with_its_status_headers_and_cookies() -> None:
    """An error page is a page too."""
    answer = Answer(b"<p>gone", 404, {**HTML, "X-Powered-By": "PHP/8", "set-cookie": "PHPSESSID=1; path=/"})
    page, server = fetched(lambda _: answer)
    assert (page.status, page.body, page.is_cut, page.media) == (404, b"<p>gone", False, "text/html")
    assert (page.header("x-powered-by"), page.cookies, page.certificate) == ("PHP/8", ("PHPSESSID",), None)
    sent = server.asked[0].headers
    assert (sent["user-agent"], sent["accept-encoding"]) == ("test/1", "gzip, deflate")


def test_a_compressed_page_is_decoded_up_to_the_limit() -> None:
    """A gzip bomb costs what the limit allows."""
    headers = {**HTML, "content-encoding": "gzip"}
    page, _ = fetched(lambda _: Answer(gzip.compress(b"small"), 200, headers))
    assert (page.body, page.is_cut) == (b"small", False)
    page, _ = fetched(lambda _: Answer(gzip.compress(b"0" * 10_000_000), 200, headers))
    assert (page.body, page.is_cut) == (b"0" * 1000, True)


def test_redirects_are_followed_and_listed() -> None:
    """Each URL is announced before it is requested; accents in a Location are encoded."""
    announced = []

    async def before(url: str) -> None:
        announced.append(url.partition("//")[2].partition("/")[2])

    def script(asked: RecordedRequest) -> Answer:
        target = {"/": "/é à", "/%C3%A9%20%C3%A0": "/end"}.get(asked.path)
        return Answer(b"", 302, {"location": target}) if target else Answer(b"end", 200, HTML)

    page, server = fetched(script, before_request=before)
    assert page.url == f"{server.url}/end"
    assert page.redirects == (f"{server.url}/", f"{server.url}/%C3%A9%20%C3%A0")
    assert announced == ["", "%C3%A9%20%C3%A0", "end"]


def test_a_redirect_to_the_same_url_with_a_cookie_is_followed() -> None:
    """Some sites answer only after they have set a cookie."""

    def script(asked: RecordedRequest) -> Answer:
        if "cookie" in asked.headers:
            return Answer(b"in", 200, HTML)
        return Answer(b"", 302, {"location": "/", "set-cookie": "seen=1"})

    assert fetched(script)[0].body == b"in"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (lambda asked: Answer(b"", 302, {"location": "/b" if asked.path == "/a" else "/a"}), "fetch.redirect_loop"),
        (lambda asked: Answer(b"", 302, {"location": f"{asked.path}x"}), "fetch.too_many_redirects"),
        (lambda asked: Answer(b"", 302, {"location": "http://[oops"}), "fetch.redirect_invalid"),
        (lambda asked: Answer(b"xx", 200, {"content-encoding": "gzip"}), "fetch.body_unreadable"),
        (lambda asked: Answer(b"xx", 200, {"content-encoding": "br"}), "fetch.body_unreadable"),
    ],
    ids=["loop", "endless", "invalid", "damaged", "unrequested"],
)
def test_a_page_that_cannot_be_fetched_says_why(script: Callable[[RecordedRequest], Answer], code: str) -> None:
    """Each cause has its own code."""
    with pytest.raises(PageFailed) as failure:
        fetched(script)
    assert failure.value.args[0].code == code


@pytest.mark.parametrize(
    ("closes", "seconds", "code"), [(True, 10.0, "fetch.connection_lost"), (False, 0.3, "fetch.timed_out")]
)
def test_a_page_that_ends_early_says_why(closes: bool, seconds: float, code: str) -> None:
    """A server that closes before the announced end, and one that stays silent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nxx")
        await writer.drain()
        if not closes:
            await reader.read()

    async def story() -> None:
        async with raw_server(serve) as url:
            await get(url, seconds=seconds)

    with pytest.raises(PageFailed) as failure:
        asyncio.run(story())
    assert failure.value.args[0].code == code


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/", "http://169.254.169.254/", "file:///etc/passwd"])
def test_a_redirect_to_a_refused_address_is_blocked(target: str) -> None:
    """The guard checks every hop."""

    async def story() -> None:
        async with scripted(lambda _: Answer(b"", 302, {"location": target})) as server:
            port = int(server.url.rpartition(":")[2])
            rules = Rules(services=frozenset({(ip_address("127.0.0.1"), port)}))
            await fetch_page(server.url, rules, user_agent="test/1", limit=10, seconds=5.0)

    with pytest.raises(Blocked):
        asyncio.run(story())


def test_an_endless_page_is_cut_and_its_connection_closed() -> None:
    """Ten gigabytes are announced; the server gets to send little more than the limit."""
    sent = []

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 10000000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent.append(65536)
        except ConnectionError:
            pass

    async def story() -> FetchedPage:
        async with raw_server(pour) as url:
            return await get(url, limit=500_000)

    page = asyncio.run(story())
    assert (len(page.body), page.is_cut) == (500_000, True)
    assert sum(sent) < 50_000_000  # what the buffers of two sockets hold


def test_a_slow_body_ends_at_the_deadline() -> None:
    """A byte now and then does not extend it."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 1000\r\n\r\n")
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            pass

    async def story() -> None:
        async with raw_server(drip) as url:
            await get(url, seconds=0.5)

    with pytest.raises(PageFailed) as failure:
        asyncio.run(story())
    assert failure.value.code == "timed_out"


def test_a_certificate_that_nobody_signed_is_a_tls_failure() -> None:
    """The message has the reason of the TLS library."""

    async def story() -> None:
        async with tls_server() as (url, _certificate):
            await get(url)

    with pytest.raises(PageFailed) as failure:
        asyncio.run(story())
    assert failure.value.code == "tls"
    assert "self-signed certificate" in str(failure.value)


def test_the_certificate_of_a_page_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names and times, for a reader of the report."""

    async def story() -> FetchedPage:
        async with tls_server() as (url, certificate):
            trusting = ssl.create_default_context(cadata=certificate)
            monkeypatch.setattr("tabellion.net.fetching._trust", lambda: trusting)
            return await get(url)

    certificate = asyncio.run(story()).certificate
    assert certificate is not None
    assert (certificate.subject, certificate.issuer, certificate.names) == (
        "Deeds Ltd",
        "Deeds Ltd",
        ("deeds.example",),
    )
    assert certificate.version.startswith("TLSv1.")
    assert certificate.valid_from < certificate.valid_until
    assert certificate.valid_until.endswith("+00:00")


def test_nothing_listening_is_unreachable() -> None:
    """Which a later attempt may find otherwise."""
    with pytest.raises(PageFailed) as failure:
        asyncio.run(get("http://127.0.0.1:9/"))
    assert failure.value.code == "unreachable"


@pytest.mark.parametrize(
    ("url", "quoted"),
    [
        ("http://exämple.de/ä ö?q=é#part", "http://xn--exmple-cua.de/%C3%A4%20%C3%B6?q=%C3%A9"),
        ("https://example.com/a%20b", "https://example.com/a%20b"),
    ],
)
def test_a_url_is_written_in_ascii(url: str, quoted: str) -> None:
    """As the guard wants it, without its fragment."""
    assert quote_url(url) == quoted


def test_a_url_that_cannot_be_written_in_ascii_is_a_value_error() -> None:
    """Not an error of the HTTP library."""
    with pytest.raises(ValueError, match=r"."):
        quote_url("http://a:b/")
