"""Passes HTTP/1.1 messages and tunnels between a client and a server, counting bytes against an account's limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from dataclasses import dataclass, field

log = logging.getLogger("tabellion.net")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Headers = list[tuple[str, str]]

LONGEST_HEAD = 64 * 1024
PIECE = 64 * 1024
KEPT = 100  #: refused addresses that an account remembers

_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})\b")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\r\n]*)?\r\n")
#: Headers between a client and its proxy, which the server behind it must not see.
_BETWEEN = frozenset(
    {
        "connection", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
        "trailer", "upgrade",
    }
)  # fmt: skip
_REASONS = {
    400: "Bad Request", 403: "Forbidden", 407: "Proxy Authentication Required", 502: "Bad Gateway",
    503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """What one account of a proxy may use."""

    connections: int = 96  #: at a time
    bytes: int = 1_000_000_000  #: in both directions, over the life of the account
    seconds: float = 900.0  #: of one connection
    idle: float = 120.0  #: seconds without a byte in either direction


@dataclass(frozen=True, slots=True)
class RefusedAddress:
    """A host that was asked for and not reached, with the reason."""

    host: str
    port: int
    reason: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port} was refused: {self.reason}"


@dataclass(eq=False, slots=True)
class ProxyAccount:
    """One user of a proxy: its name and password, what it has used and what it was refused."""

    name: str
    password: str = field(repr=False)
    limits: ProxyLimits
    used: int = 0  #: bytes
    refused: list[RefusedAddress] = field(default_factory=list)  #: each one once, the first hundred
    latest: RefusedAddress | None = None
    refusals: int = 0  #: how often something was refused
    tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)  #: its open connections

    def refuse(self, host: str, port: int, reason: str) -> None:
        """Remembers that something was refused."""
        one = self.latest = RefusedAddress(host, port, reason)
        self.refusals += 1
        if one not in self.refused and len(self.refused) < KEPT:
            self.refused.append(one)
            log.warning("browser: %s", one)

    @property
    def is_spent(self) -> bool:
        """Whether it has used all its bytes."""
        return self.used >= self.limits.bytes


class ProxyAnswer(Exception):  # noqa: N818 - what the client is told instead of what it asked for
    """Ends a request with a status and a text of the proxy's own."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class BytesSpent(Exception):  # noqa: N818 - a state, not a failure
    """The account has no bytes left: the connection is cut."""


async def read_head(reader: asyncio.StreamReader, seconds: float) -> bytes:
    """A message up to its empty line; nothing when the connection ends before it."""
    try:
        async with asyncio.timeout(seconds):
            return (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def parse_head(head: bytes) -> tuple[str, Headers]:
    """The first line and the headers; ValueError where two programs could read them in two ways."""
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = []
    for one in rest:
        name, colon, value = one.partition(":")
        if not colon or not name or name != name.strip() or "\n" in one or "\r" in one:
            raise ValueError("a header that can be read in two ways")
        headers.append((name, value.strip()))
    return line, headers


def has_body(headers: Headers) -> bool:
    """Whether more than the head belongs to a request."""
    return any(name.lower() in ("content-length", "transfer-encoding") and value != "0" for name, value in headers)


def make_request(line: str, authority: str, headers: Headers) -> bytes:
    """A request as the server behind a proxy gets it: for one answer, and without what was meant for the proxy."""
    named = {one.strip().lower() for name, value in headers if name.lower() == "connection" for one in value.split(",")}
    named -= {"content-length", "transfer-encoding"}  # a body without them would be read as a second request
    kept = [(name, value) for name, value in headers if name.lower() not in _BETWEEN | named]
    lines = [f"{line} HTTP/1.1", f"Host: {authority}", *(f"{name}: {value}" for name, value in kept)]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


async def answer(writer: asyncio.StreamWriter, status: int, text: str, headers: Headers | None = None) -> None:
    """A short answer of the proxy's own. The connection is kept for 407, which the client answers on it."""
    body = f"{text}\n".encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}", "Content-Type: text/plain; charset=utf-8", "Cache-Control: no-store",
        f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers or []),
        f"Connection: {'keep-alive' if status == 407 else 'close'}", "", "",
    ]  # fmt: skip
    await write(writer, "\r\n".join(lines).encode() + body)


async def exchange(client: Streams, server: Streams, account: ProxyAccount, headers: Headers) -> None:
    """Sends the body of one request, exactly, and returns the whole of its answer.

    Bytes after the request would be another one, for another host perhaps and with the account's secret: they are not
    passed on.
    """
    sending = asyncio.create_task(_send_body(client[0], server[1], account, headers))
    try:
        head = await _read_answer(server[0], account)
        lines = [
            line
            for line in head.split(b"\r\n")
            if line.partition(b":")[0].strip().lower() not in (b"connection", b"keep-alive", b"proxy-connection")
        ]
        # A server may keep its connection open although it was asked not to; the client must not use it again.
        await write(client[1], b"\r\n".join([*lines, b"Connection: close", b"", b""]))
        await _pump(server[0], client[1], account)
    finally:
        await cancel({sending})


async def _read_answer(reader: asyncio.StreamReader, account: ProxyAccount) -> bytes:
    while True:
        head = await read_head(reader, account.limits.seconds)
        status = _STATUS.match(head)
        if status is None:
            raise ProxyAnswer(502, "the server gave no answer")
        if not status[1].startswith(b"1"):
            return head


async def _send_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, account: ProxyAccount, headers: Headers
) -> None:
    try:
        codings = [value.lower() for name, value in headers if name.lower() == "transfer-encoding"]
        lengths = {value for name, value in headers if name.lower() == "content-length"}
        if codings:
            if codings != ["chunked"] or lengths:
                raise ValueError("a body with two lengths")
            await _send_chunks(reader, writer, account)
        elif lengths:
            [length] = lengths
            await _copy(reader, writer, int(length), account)
        if await reader.read(1):
            return
    except (OSError, EOFError, ValueError, TimeoutError, BytesSpent, asyncio.LimitOverrunError):
        pass
    writer.close()  # the client is gone, or what it sent is not a body: no answer is waited for


async def _send_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, account: ProxyAccount) -> None:
    size = -1
    while size:
        line = await reader.readuntil(b"\r\n")
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise ValueError("a chunk without a length")
        size = int(match[1], 16)
        await _spend(account, writer, line)
        await _copy(reader, writer, size + 2, account)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int, account: ProxyAccount) -> None:
    while size > 0:
        async with asyncio.timeout(account.limits.idle):
            piece = await reader.read(min(size, PIECE))
        if not piece:
            raise EOFError
        size -= len(piece)
        await _spend(account, writer, piece)


async def relay(client: Streams, server: Streams, account: ProxyAccount) -> None:
    """Passes bytes both ways until both sides have ended, or one has failed."""
    ways = {
        asyncio.create_task(_pump(client[0], server[1], account)),
        asyncio.create_task(_pump(server[0], client[1], account)),
    }
    try:
        await asyncio.gather(*ways)
    finally:
        await cancel(ways)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, account: ProxyAccount) -> None:
    while True:
        before = account.used
        try:
            async with asyncio.timeout(account.limits.idle):
                piece = await reader.read(PIECE)
        except TimeoutError:
            if account.used > before:  # the other direction may be at work: a long upload, or a long download
                continue
            raise
        if not piece:
            break
        await _spend(account, writer, piece)
    if writer.can_write_eof():
        writer.write_eof()


async def _spend(account: ProxyAccount, writer: asyncio.StreamWriter, piece: bytes) -> None:
    account.used += len(piece)
    if account.used > account.limits.bytes:
        raise BytesSpent
    await write(writer, piece)


async def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Writes, and waits for a reader that is slower."""
    writer.write(data)
    await writer.drain()


async def close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection, whatever its peer does."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):  # a peer that reads nothing must not keep us
            await writer.wait_closed()


async def cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Ends tasks, and returns when they have ended."""
    pending = [task for task in tasks if task is not asyncio.current_task()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
