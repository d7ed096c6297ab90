"""Fetches web pages of any status: decompressed, cut at a limit of bytes, every redirect checked by the guard.

    page = await fetch_page("https://example.com/", rules, user_agent="tabellion/0.1", limit=5_000_000)

`fetching.fetch` is for documents: it refuses what is too large or compressed. A page is still useful without its end.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urljoin

import httpx2

from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.net.decoding import ACCEPTED, BodyDecoder, DecodingFailed
from tabellion.net.fetching import MOVED, client
from tabellion.net.guard import HostUnreachable, Rules, parse

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.5"
MOST_NAMES = 20  #: hosts of a certificate that are kept
MOST_COOKIES = 100
#: Called with each URL before it is requested; raises to stop.
BeforeRequest = Callable[[str], Awaitable[None]]


class PageFailed(TabellionError):  # noqa: N818 - what happened
    """A page could not be fetched; `code` is `host_unknown`, `host_unresolved`, `timed_out`, `unreachable`, `tls`,
    `redirects`, `body` or `url`."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A TLS connection and the server's certificate."""

    version: str
    subject: str
    issuer: str
    valid_from: str  #: ISO 8601, in UTC
    valid_until: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as the server sent it."""

    url: str  #: after redirects
    status: int
    headers: tuple[tuple[str, str], ...]  #: names in lower case
    body: bytes
    is_cut: bool  #: whether the body was longer than the limit
    redirects: tuple[str, ...]  #: the URLs that redirected, in order
    cookies: tuple[str, ...]  #: names of the cookies that were set on the way
    certificate: Certificate | None
    seconds: float  #: without the waits of `before_request`

    def header(self, name: str) -> str:
        """The first header of this name; empty if there is none."""
        return next((value for known, value in self.headers if known == name), "")

    @property
    def media(self) -> str:
        """The media type in lower case, without parameters; empty if the server sent none."""
        return self.header("content-type").partition(";")[0].strip().lower()


async def fetch_page(
    url: str,
    rules: Rules | None = None,
    *,
    user_agent: str,
    limit: int,
    seconds: float,
    redirects: int = 10,
    before_request: BeforeRequest | None = None,
) -> FetchedPage:
    """The page of a URL, after at most `redirects` redirects; raises Blocked or PageFailed.

    `seconds` are for the whole page with its redirects, not counting `before_request`, which may wait for its turn.
    """
    headers = {"user-agent": user_agent, "accept": ACCEPT, "accept-encoding": ACCEPTED}
    spent = 0.0
    current, passed, cookies = parse(url).url, list[str](), dict[str, None]()
    async with client(rules, timeout=seconds) as http:
        while True:
            if before_request is not None:
                await before_request(current)
            started = time.monotonic()
            try:
                async with asyncio.timeout(max(0.001, seconds - spent)):
                    response = await http.send(http.build_request("GET", current, headers=headers), stream=True)
                    try:
                        target = _redirect_target(response, current)
                        decoder = None if target else await _read(response, limit)
                    finally:
                        await response.aclose()
            except (TimeoutError, httpx2.TimeoutException):
                raise PageFailed("timed_out", Message("fetch.timed_out", n=seconds)) from None
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                raise _explain(error) from error
            except HostUnreachable as error:
                is_unknown = error.reason.code == "net.no_such_host"
                raise PageFailed("host_unknown" if is_unknown else "host_unresolved", str(error)) from None
            except DecodingFailed as error:
                raise PageFailed("body", Message("fetch.body_unreadable", detail=str(error))) from error
            spent += time.monotonic() - started
            cookies.update(dict.fromkeys(_cookie_names(response)))
            if decoder is not None:
                return FetchedPage(
                    current, response.status_code, _headers(response), bytes(decoder.body), decoder.is_cut,
                    tuple(passed), tuple(cookies)[:MOST_COOKIES], read_certificate(response), round(spent, 3),
                )  # fmt: skip
            passed.append(current)
            if target in passed and not cookies:  # with cookies, the same URL may answer differently
                raise PageFailed("redirects", Message("fetch.redirect_loop", url=target))
            if len(passed) > redirects:
                raise PageFailed("redirects", Message("fetch.too_many_redirects", n=redirects))
            current = target


async def _read(response: httpx2.Response, limit: int) -> BodyDecoder:
    decoder = BodyDecoder(response.headers.get("content-encoding", ""), limit)
    async for piece in response.aiter_raw():
        if not decoder.feed(piece):
            break
    return decoder


def _redirect_target(response: httpx2.Response, current: str) -> str:
    """The URL that a response redirects to; empty for a page. A redirect without a valid target is a page."""
    location = response.headers.get("location", "").strip()
    if response.status_code not in MOVED or not location:
        return ""
    try:
        # Browsers accept spaces and accents in Location; the guard does not.
        return parse(quote_url(urljoin(current, location))).url
    except ValueError as error:
        raise httpx2.InvalidURL(str(error)) from error


def quote_url(url: str) -> str:
    """A URL in ASCII, without its fragment: its host in Punycode, its path percent-encoded; raises ValueError."""
    try:
        return str(httpx2.URL(url).copy_with(fragment=None))
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise ValueError(str(error)) from error


def _explain(error: Exception) -> PageFailed:
    """The failure by its cause. The address has passed the guard, so the cause reveals nothing about our network."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "verify_message", "") or str(cause.reason or "handshake failed").lower()
            return PageFailed("tls", Message("fetch.tls_failed", detail=reason.replace("_", " ")))
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.InvalidURL):
        return PageFailed("url", Message("fetch.redirect_invalid"))
    if isinstance(error, httpx2.ConnectError):
        return PageFailed("unreachable", Message("fetch.no_connection"))
    return PageFailed("unreachable", Message("fetch.connection_lost"))


def _headers(response: httpx2.Response) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in response.headers.multi_items())


def _cookie_names(response: httpx2.Response) -> list[str]:
    names: list[str] = []
    for value in response.headers.get_list("set-cookie"):
        try:
            names += SimpleCookie(value.partition(";")[0])
        except CookieError:
            continue
    return names


def read_certificate(response: httpx2.Response) -> Certificate | None:
    """The TLS connection of a response; None over plain HTTP."""
    stream = response.extensions.get("network_stream")
    secured = stream.get_extra_info("ssl_object") if stream is not None else None
    if secured is None:
        return None
    stated: dict[str, Any] = secured.getpeercert() or {}
    names = [str(value) for kind, value in stated.get("subjectAltName", ()) if kind == "DNS"]
    return Certificate(
        str(secured.version() or ""), _name(stated.get("subject", ())), _name(stated.get("issuer", ())),
        _time(stated.get("notBefore")), _time(stated.get("notAfter")), tuple(names[:MOST_NAMES]),
    )  # fmt: skip


def _name(parts: Any) -> str:
    known = {key: value for part in parts for key, value in part}
    return str(known.get("organizationName") or known.get("commonName") or "")


def _time(text: str | None) -> str:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC).isoformat() if text else ""
