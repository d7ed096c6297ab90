"""The HTTP client for one provider: many parallel calls, limited answers, no redirects, one deadline per call."""

from __future__ import annotations

import asyncio
import itertools
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

import httpx2

from tabellion.messages import Message
from tabellion.models.errors import BadOutput, ModelError, Rejected, Unavailable
from tabellion.models.refusal import clean

ANSWER_LIMIT = 16 * 1024 * 1024
POOLS = 32  # a pool checks all its connections for each call, so a thousand in one pool would cost milliseconds
IDLE = 64  # connections that each pool keeps: 2,048 in all
CONNECT = 15.0  # seconds
AT_ONCE = 32  # calls that are prepared and sent at the same time
LONGEST_TURN = 1.0  # seconds: a large file on a slow line must not delay the others


def client(base_url: str, headers: Mapping[str, str] | None = None, limit: int = ANSWER_LIMIT) -> httpx2.AsyncClient:
    """The HTTP client of a model; proxies come from the usual variables, certificates are verified."""
    transport = PooledTransport(limit, proxy_for(base_url))
    return httpx2.AsyncClient(
        transport=transport,
        headers={**(headers or {}), "accept-encoding": "identity"},  # a small packed answer may unpack to gigabytes
        follow_redirects=False,
        timeout=httpx2.Timeout(None, connect=CONNECT),
        trust_env=False,  # the proxy is set above; a .netrc must not change anything
    )


def proxy_for(base_url: str) -> str | None:
    """The proxy of the environment for this host."""
    url = httpx2.URL(base_url)
    proxies = urllib.request.getproxies()
    if url.host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(url.host):
        return None
    return proxies.get(url.scheme) or proxies.get("all")


class SendLimiter:
    """Starts only a few calls at a time.

    A thousand calls that start at once would each wait for all the others at every step, and all be sent at the very
    end; in turns, each is sent within milliseconds, and the answers arrive earlier.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Waits for a turn, which ends when the request is sent."""
        await self._free.acquire()
        turn = Turn(self._free)
        token = _turn.set(turn)
        try:
            yield
        finally:
            _turn.reset(token)
            turn.end()


class Turn:
    """Permission to prepare and send a request, which expires after `LONGEST_TURN`."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free: asyncio.Semaphore | None = free
        self._timer = asyncio.get_running_loop().call_later(LONGEST_TURN, self.end)

    def end(self) -> None:
        """Ends the turn; further calls have no effect."""
        if self._free is not None:
            self._timer.cancel()
            self._free.release()
            self._free = None

    async def watch(self, event: str, info: object) -> None:
        """Ends the turn when the connection has sent the request."""
        if event == "http11.send_request_body.complete":
            self.end()


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


class PooledTransport(httpx2.AsyncBaseTransport):
    """Several connection pools used in turn, with a limit on the size of each answer."""

    def __init__(self, limit: int, proxy: str | None = None) -> None:
        certificates = httpx2.create_ssl_context()
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE, keepalive_expiry=30.0)
        self._pools = [httpx2.AsyncHTTPTransport(verify=certificates, limits=limits, proxy=proxy) for _ in range(POOLS)]
        self._next_pool = itertools.cycle(self._pools)
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request through the next pool."""
        if turn := _turn.get():
            request.extensions = {**request.extensions, "trace": turn.watch}
        response = await next(self._next_pool).handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - for the type checker
        encoding = response.headers.get("content-encoding", "identity")
        length = response.headers.get("content-length", "")
        if encoding != "identity" or (length.isdigit() and int(length) > self._limit):
            await stream.aclose()
            if encoding != "identity":
                raise Unavailable(Message("model.encoding", text=encoding[:20]))
            raise too_large(self._limit)
        response.stream = Counted(stream, self._limit)
        return response

    async def aclose(self) -> None:
        """Closes every pool."""
        for pool in self._pools:
            await pool.aclose()


class Counted(httpx2.AsyncByteStream):
    """An answer whose reading stops when it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = self._limit
        async for chunk in self._stream:
            remaining -= len(chunk)
            if remaining < 0:
                raise too_large(self._limit)
            yield chunk

    async def aclose(self) -> None:
        """Releases the connection."""
        await self._stream.aclose()


def too_large(limit: int) -> BadOutput:
    """The error for an answer beyond the limit."""
    return BadOutput(Message("model.too_large", n=limit), "too_large")


@asynccontextmanager
async def deadline(name: str, seconds: float) -> AsyncIterator[None]:
    """Limits the whole call to this many seconds: connecting, sending, waiting and a slow answer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(Message("model.incomplete_in_time", model=name, n=seconds)) from None


@contextmanager
def translate_errors(name: str, secret: str = "") -> Iterator[None]:
    """Turns errors of an SDK or its HTTP library into ours, without their cause, which may quote keys or documents."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise _classify_error(name, error, secret) from None


def _classify_error(name: str, error: BaseException, secret: str) -> Exception:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    for found in chain:
        if isinstance(found, ModelError):
            return found
    for found in chain:
        if isinstance(found, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            return Unavailable(Message("model.unreachable", model=name, text=clean(str(found), secret)[:200]))
        if isinstance(found, httpx2.TimeoutException | TimeoutError):
            return Unavailable(Message("model.no_answer_in_time", model=name))
        if isinstance(found, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return Rejected(Message("model.request_invalid", model=name, error=type(found).__name__))
        if isinstance(found, httpx2.TransportError | httpx2.StreamError | OSError):
            return Unavailable(Message("model.connection_broken", model=name, error=type(found).__name__))
    if isinstance(error, ValueError | TypeError | KeyError | RecursionError):
        return Rejected(Message("model.not_sent", model=name, error=type(error).__name__))
    return Unavailable(f"{name}: {type(error).__name__}")
