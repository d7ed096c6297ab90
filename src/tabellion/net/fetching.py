"""Fetches URLs given by users: from the vetted IP address, with few redirects, limited in bytes and seconds.

async with fetch("https://example.com/invoice.pdf", rules, limit=10_000_000) as found:
    async for chunk in found.chunks: ...
"""

from __future__ import annotations

import asyncio
import email.message
import functools
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import unquote, urljoin

import httpx2

from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Address, Blocked, HostUnreachable, ResolvedUrl, Rules, parse, vet_url

LIMIT = 100_000_000
DEADLINE = 60.0
CONNECT = 10.0
REDIRECTS = 3
TRIES = 3  #: addresses of one host that are tried
MOVED = (301, 302, 303, 307, 308)


class FetchFailed(TabellionError):  # noqa: N818 - what happened
    """The URL returned no document."""

    def __init__(self, message: str, code: str = "url_failed", status: int | None = None) -> None:
        self.code = code
        self.status = status  #: of the response, if there was one
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


class Pinned(httpx2.AsyncBaseTransport):
    """Sends each request to an address that the guard has vetted for it, under the host's own name."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or Rules()
        self._inner = httpx2.AsyncHTTPTransport(
            verify=_trust(),
            trust_env=False,
            # A reused connection would go to the address that was vetted earlier, and the name may have moved since.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Vets the URL, then sends the request to the address that was vetted."""
        target = await vet_url(str(request.url), self._rules)
        failure: httpx2.TransportError = httpx2.ConnectError("no address")
        for address in target.addresses[:TRIES]:
            try:
                return await self._ask(request, target, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _ask(self, request: httpx2.Request, target: ResolvedUrl, address: Address) -> httpx2.Response:
        literal = f"[{address}]" if address.version == 6 else str(address)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        response = await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                f"{target.scheme}://{literal}:{target.port}{target.rest}",
                headers=[(b"Host", target.authority.encode()), *headers],
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": target.host},
            )
        )
        stream = response.extensions.get("network_stream")
        peer = stream.get_extra_info("server_addr") if stream is not None else None
        if peer is None or ip_address(str(peer[0]).partition("%")[0]) != address:
            await response.aclose()
            raise Blocked(Message("net.another_address"))
        return response

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._inner.aclose()


def client(rules: Rules | None = None, *, timeout: float = DEADLINE) -> httpx2.AsyncClient:
    """An HTTP client for addresses that the guard allows; it follows no redirects and uses no proxy."""
    return httpx2.AsyncClient(
        transport=Pinned(rules),
        headers={"accept-encoding": "identity", "user-agent": "tabellion"},
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
) -> AsyncIterator[Fetched]:
    """The response of a URL, to be read in the block; raises `Blocked` or `FetchFailed`, which users may see."""
    try:
        async with asyncio.timeout(deadline), client(rules, timeout=deadline) as http:
            response, final_url = await _follow_redirects(http, url, redirects)
            try:
                found = _check_response(response, final_url, limit, media)
                yield found
            finally:
                await response.aclose()
    except TimeoutError:
        raise FetchFailed(Message("fetch.too_slow", seconds=deadline)) from None
    except HostUnreachable as error:
        raise FetchFailed(str(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
        # One message for all: the kind of error would reveal what listens at the address.
        raise FetchFailed(Message("fetch.no_answer")) from None


async def _follow_redirects(http: httpx2.AsyncClient, url: str, redirects: int) -> tuple[httpx2.Response, str]:
    current = parse(url).url
    for remaining in range(redirects, -1, -1):
        response = await http.send(http.build_request("GET", current), stream=True)
        if response.status_code not in MOVED:
            return response, current
        await response.aclose()
        location = response.headers.get("location", "")
        if not location:
            raise FetchFailed(Message("fetch.no_location", status=str(response.status_code)))
        if not remaining:
            break
        target = parse(urljoin(current, location)).url
        if current.startswith("https:") and not target.startswith("https:"):
            raise Blocked(Message("net.https_to_http"))
        current = target
    raise FetchFailed(Message("fetch.too_many_redirects", n=redirects))


def _check_response(response: httpx2.Response, url: str, limit: int, media: Collection[str] | None) -> Fetched:
    if response.status_code != 200:
        status = response.status_code
        raise FetchFailed(Message("fetch.status", status=str(status)), status=status)
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("", "identity"):
        raise FetchFailed(Message("fetch.compressed"))
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
