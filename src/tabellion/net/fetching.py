"""Fetches URLs given by users: from the vetted IP address, with few redirects, limited in bytes and seconds.

async with fetch("https://example.com/invoice.pdf", rules, limit=10_000_000) as found:
    async for chunk in found.chunks: ...
"""

from __future__ import annotations

import asyncio
import email.message
import functools
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urljoin

import httpx2

from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Blocked, HostUnreachable, IpAddress, ResolvedUrl, Rules, parse, vet_url

LIMIT = 100_000_000
DEADLINE = 60.0
CONNECT = 10.0
REDIRECTS = 3
TRIES = 3  #: addresses of one host that are tried
IDLE = 3.0  #: seconds that a connection is kept; servers close theirs after five or more
MOST_IDLE = 16  #: connections that are kept for one host
HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "tabellion"}
SMALL = 16 * 1024  #: bytes of a body that nobody needs and that is read, because its connection can then be kept
SMALL_WAIT = 1.0  #: seconds for reading it
BROKEN = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
MOVED = (301, 302, 303, 307, 308)


class FetchFailed(TabellionError):  # noqa: N818 - what happened
    """The URL returned no document."""

    def __init__(
        self, message: str, code: str = "url_failed", status: int | None = None, retry_after: str = ""
    ) -> None:
        self.code = code
        self.status = status  #: of the response, if there was one
        self.retry_after = retry_after  #: the header of the response
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response that is being read."""

    url: str
    media: str  #: in lower case, without parameters; empty if the server sent none
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes] = field(repr=False)

    @property
    def name(self) -> str:
        """The file name that the server sent, or else the last part of the URL's path."""
        return file_name(self.headers.get("content-disposition", "")) or unquote(
            self.url.partition("?")[0].rpartition("/")[2]
        )


@functools.cache
def _trust() -> ssl.SSLContext:
    """The certificates that are trusted: reading them takes 20 ms, and clients are made for each request."""
    return httpx2.create_ssl_context(trust_env=False)


class Host:
    """The connections to one scheme, host and port: a connection verified for one host name must not serve another."""

    def __init__(self, kept: bool) -> None:
        self.transport = httpx2.AsyncHTTPTransport(
            verify=_trust(),
            trust_env=False,
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=MOST_IDLE if kept else 0, keepalive_expiry=IDLE
            ),
        )
        self.active = 0  #: responses that are being read
        self.timer: asyncio.TimerHandle | None = None  #: closes idle connections


class Pinned(httpx2.AsyncBaseTransport):
    """Sends each request to an address that the guard has vetted for it, under the host's own name.

    With `keep` a connection serves further requests of its host, as long as their vetting names its address.
    """

    def __init__(self, rules: Rules | None = None, *, keep: bool = False) -> None:
        self._rules = rules or Rules()
        self._keep = keep
        self._hosts: dict[tuple[str, str], Host] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Vets the URL, then sends the request to the address that was vetted."""
        target = await vet_url(str(request.url), self._rules)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        return await self._send(target, request.method, headers, request.extensions, request.stream)

    async def get(self, url: str, seconds: float, cookies: str = "") -> httpx2.Response:
        """Requests a URL with this Cookie header; the response is to be closed, or discarded."""
        target = await vet_url(url, self._rules)
        timeouts = {"connect": min(CONNECT, seconds), "read": seconds, "write": seconds, "pool": seconds}
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        if cookies:
            headers.append((b"Cookie", cookies.encode()))
        return await self._send(target, "GET", headers, {"timeout": timeouts})

    async def discard(self, response: httpx2.Response) -> None:
        """Closes a response whose body nobody needs; reads a small one first, as its connection is only then kept."""
        length = response.headers.get("content-length", "")
        try:
            if self._keep and length.isdecimal() and len(length) < 10 and int(length) <= SMALL:
                async with asyncio.timeout(SMALL_WAIT):
                    async for _ in _limit_chunks(response, SMALL):
                        pass
        except (TimeoutError, FetchFailed, httpx2.HTTPError, httpx2.StreamError):
            pass  # the connection is closed with the response
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Closes every connection."""
        hosts = list(self._hosts.values())
        self._hosts.clear()
        for host in hosts:
            if host.timer is not None:
                host.timer.cancel()
            await host.transport.aclose()

    async def _send(
        self, target: ResolvedUrl, method: str, headers: list[tuple[bytes, bytes]], extensions: Mapping[str, Any],
        stream: httpx2.SyncByteStream | httpx2.AsyncByteStream | None = None,
    ) -> httpx2.Response:  # fmt: skip
        failure: httpx2.TransportError = httpx2.ConnectError("no address")
        for address in target.addresses[:TRIES]:
            literal = f"[{address}]" if address.version == 6 else str(address)
            request = httpx2.Request(
                method,
                f"{target.scheme}://{literal}:{target.port}{target.rest}",
                headers=[(b"Host", target.authority.encode()), *headers],
                stream=stream,
                extensions={**extensions, "sni_hostname": target.host},
            )
            try:
                return await self._ask(request, target, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _ask(self, request: httpx2.Request, target: ResolvedUrl, address: IpAddress) -> httpx2.Response:
        key = (target.scheme, target.authority)
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = Host(self._keep)
        self._begin(host)
        try:
            try:
                response = await host.transport.handle_async_request(request)
            except BROKEN:
                if not self._keep or request.method != "GET":
                    raise
                # The server may have closed a kept connection in the moment in which it was used again.
                response = await host.transport.handle_async_request(request)
            network = response.extensions.get("network_stream")
            peer = network.get_extra_info("server_addr") if network is not None else None
            if peer is None or ip_address(str(peer[0]).partition("%")[0]) != address:
                await response.aclose()
                raise Blocked(Message("net.another_address"))
        except BaseException:
            self._end(key, host)
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - for the type checker
        response.stream = TrackedStream(response.stream, lambda: self._end(key, host))
        return response

    def _begin(self, host: Host) -> None:
        host.active += 1
        if host.timer is not None:
            host.timer.cancel()
            host.timer = None

    def _end(self, key: tuple[str, str], host: Host) -> None:
        """Closes a host's connections when it was not used for a while: nothing else would, if no request follows."""
        host.active -= 1
        if not host.active and self._hosts.get(key) is host:
            host.timer = asyncio.get_running_loop().call_later(IDLE, self._forget, key)

    def _forget(self, key: tuple[str, str]) -> None:
        task = asyncio.get_running_loop().create_task(self._hosts.pop(key).transport.aclose())
        self._closing.add(task)  # the loop itself keeps no reference
        task.add_done_callback(self._closing.discard)


class TrackedStream(httpx2.AsyncByteStream):
    """A response's body. Calls `closed` once when it is closed."""

    def __init__(self, stream: httpx2.AsyncByteStream, closed: Callable[[], None]) -> None:
        self._stream = stream
        self._closed: Callable[[], None] | None = closed

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        """Releases the connection."""
        closed, self._closed = self._closed, None
        try:
            await self._stream.aclose()
        finally:
            if closed is not None:
                closed()


def client(rules: Rules | None = None, *, timeout: float = DEADLINE) -> httpx2.AsyncClient:
    """An HTTP client for addresses that the guard allows; it follows no redirects and uses no proxy."""
    return httpx2.AsyncClient(
        transport=Pinned(rules),
        headers=HEADERS,
        follow_redirects=False,
        trust_env=False,
        timeout=httpx2.Timeout(timeout, connect=CONNECT),
    )


@asynccontextmanager
async def fetch(
    url: str,
    rules: Rules | None = None,
    *,
    limit: int = LIMIT,
    deadline: float = DEADLINE,
    redirects: int = REDIRECTS,
    media: Collection[str] | None = None,
    transport: Pinned | None = None,
) -> AsyncIterator[Fetched]:
    """The response of a URL, to be read in the block; raises `Blocked` or `FetchFailed`, which users may see.

    A `transport` keeps its connections and its own rules; without one, a connection is opened and closed.
    """
    sender = transport or Pinned(rules)
    try:
        async with asyncio.timeout(deadline):
            try:
                response, final_url = await _follow_redirects(sender, url, redirects, deadline)
                try:
                    found = _check_response(response, final_url, limit, media)
                except Exception:
                    await sender.discard(response)
                    raise
                try:
                    yield found
                finally:
                    await response.aclose()
            finally:
                if transport is None:
                    await sender.aclose()
    except TimeoutError:
        raise FetchFailed(Message("fetch.too_slow", seconds=deadline)) from None
    except HostUnreachable as error:
        raise FetchFailed(str(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
        # One message for all: the kind of error would reveal what listens at the address.
        raise FetchFailed(Message("fetch.no_answer")) from None


async def _follow_redirects(sender: Pinned, url: str, redirects: int, seconds: float) -> tuple[httpx2.Response, str]:
    current, cookies, cookie_header = parse(url).url, httpx2.Cookies(), ""
    for remaining in range(redirects, -1, -1):
        response = await sender.get(current, seconds, cookie_header)
        if response.status_code not in MOVED:
            return response, current
        await sender.discard(response)
        # Cookies belong to the URL's host, not to the address to which the request was sent.
        response.request = httpx2.Request("GET", current)
        cookies.extract_cookies(response)
        location = response.headers.get("location", "")
        if not location:
            raise FetchFailed(Message("fetch.no_location", status=str(response.status_code)))
        if not remaining:
            break
        target = parse(urljoin(current, location)).url
        if current.startswith("https:") and not target.startswith("https:"):
            raise Blocked(Message("net.https_to_http"))
        current, cookie_header = target, _cookie_header(cookies, target)
    raise FetchFailed(Message("fetch.too_many_redirects", n=redirects), "too_many_redirects")


def _cookie_header(cookies: httpx2.Cookies, url: str) -> str:
    """The Cookie header of a request; empty if no cookie is for its URL."""
    request = httpx2.Request("GET", url)
    cookies.set_cookie_header(request)
    return request.headers.get("cookie", "")


def _check_response(response: httpx2.Response, url: str, limit: int, media: Collection[str] | None) -> Fetched:
    if response.status_code != 200:
        status = response.status_code
        raise FetchFailed(
            Message("fetch.status", status=str(status)), status=status,
            retry_after=response.headers.get("retry-after", ""),
        )  # fmt: skip
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("", "identity"):
        raise FetchFailed(Message("fetch.compressed"), "compressed")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media is not None and kind and kind not in media:
        raise FetchFailed(Message("fetch.unsupported_type", media=_clean_media(kind)), "url_type")
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    return Fetched(url, kind, response.headers, _limit_chunks(response, limit))


async def _limit_chunks(response: httpx2.Response, limit: int) -> AsyncIterator[bytes]:
    remaining = limit
    async for chunk in response.aiter_raw():
        remaining -= len(chunk)
        if remaining < 0:
            raise _too_large(limit)
        yield chunk


def _too_large(limit: int) -> FetchFailed:
    return FetchFailed(Message("fetch.too_large", n=limit), "too_large")


def _clean_media(media: str) -> str:
    return "".join(char for char in media if char.isalnum() or char in "/+.-")[:60] or Message("fetch.unknown_type")


def file_name(disposition: str) -> str:
    """The file name in a Content-Disposition header; empty if it has none."""
    message = email.message.Message()
    try:
        message["content-disposition"] = disposition
        return message.get_filename() or ""
    except (ValueError, LookupError):
        return ""
