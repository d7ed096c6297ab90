"""Relays HTTP/1.1 messages and tunnels between a client and a server within an account's limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from dataclasses import dataclass, field

from tabellion.net.guard import HostUnreachable, Rules

log = logging.getLogger("tabellion.net")

StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Headers = list[tuple[str, str]]

LONGEST_HEAD = 64 * 1024
PIECE = 64 * 1024
KEPT = 100  #: distinct refused addresses that an account records

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
    """The limits of a proxy account."""

    connections: int = 96  #: at a time
    bytes: int = 1_000_000_000  #: in both directions, over the life of the account
    seconds: float = 900.0  #: of a connection
    idle: float = 120.0  #: seconds without a byte in either direction


@dataclass(frozen=True, slots=True)
class RefusedAddress:
    """A requested host that the guard refused, with the reason."""

    host: str
    port: int
    reason: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port} was refused: {self.reason}"


@dataclass(eq=False, slots=True)
class ProxyAccount:
    """A user of the proxy: its name and password, its usage, and the addresses it was refused."""

    name: str
    password: str = field(repr=False)
    limits: ProxyLimits
    rules: Rules
    used: int = 0  #: bytes
    refused: list[RefusedAddress] = field(default_factory=list)  #: without duplicates, the first hundred
    latest: RefusedAddress | None = None
    refusals: int = 0  #: number of refusals
    unreachable: HostUnreachable | None = None  #: the last failure to reach a host
    tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)  #: its open connections

    def refuse(self, host: str, port: int, reason: str) -> None:
        """Records a refusal."""
        address = self.latest = RefusedAddress(host, port, reason)
        self.refusals += 1
        if address not in self.refused and len(self.refused) < KEPT:
            self.refused.append(address)
            log.warning("browser: %s", address)

    @property
    def is_spent(self) -> bool:
        """Whether it has used all its bytes."""
        return self.used >= self.limits.bytes


class ProxyAnswer(Exception):  # noqa: N818 - an answer, not a failure
    """Ends a request with an answer of the proxy itself: a status and a text."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class BytesSpent(Exception):  # noqa: N818 - a state, not a failure
    """The account has no bytes left: the connection is closed."""


async def read_head(reader: asyncio.StreamReader, seconds: float) -> bytes:
    """The head of a message, up to its empty line; empty if the connection ends before it."""
    try:
        async with asyncio.timeout(seconds):
            return (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def parse_head(head: bytes) -> tuple[str, Headers]:
    """The first line and the headers; raises ValueError if programs could parse them differently."""
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = []
    for text in rest:
        name, colon, value = text.partition(":")
        if not colon or not name or name != name.strip() or "\n" in text or "\r" in text:
            raise ValueError("a header that can be read in two ways")
        headers.append((name, value.strip()))
    return line, headers


def has_body(headers: Headers) -> bool:
    """Whether a request has a body."""
    return any(name.lower() in ("content-length", "transfer-encoding") and value != "0" for name, value in headers)


def make_request(line: str, authority: str, headers: Headers) -> bytes:
    """The request as the server gets it: without headers meant for the proxy, and closing after one answer."""
    named = {
        option.strip().lower() for name, value in headers if name.lower() == "connection" for option in value.split(",")
    }
    named -= {"content-length", "transfer-encoding"}  # without them a body would be read as a second request
    forwarded = [(name, value) for name, value in headers if name.lower() not in _BETWEEN | named]
    lines = [f"{line} HTTP/1.1", f"Host: {authority}", *(f"{name}: {value}" for name, value in forwarded)]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


async def answer(writer: asyncio.StreamWriter, status: int, text: str, headers: Headers | None = None) -> None:
    """Sends a short answer of the proxy itself. A 407 keeps the connection, on which the client authenticates."""
    body = f"{text}\n".encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}", "Content-Type: text/plain; charset=utf-8", "Cache-Control: no-store",
        f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers or []),
        f"Connection: {'keep-alive' if status == 407 else 'close'}", "", "",
    ]  # fmt: skip
    await write(writer, "\r\n".join(lines).encode() + body)


async def exchange(client: StreamPair, server: StreamPair, account: ProxyAccount, headers: Headers) -> None:
    """Forwards the body of one request, and nothing after it, then the whole answer.

    Bytes after the body would be another request, perhaps for another host and with the account's secret: they are
    not forwarded.
    """
    sending = asyncio.create_task(_send_body(client[0], server[1], account, headers))
    try:
        head = await _read_answer(server[0], account)
        lines = [
            line
            for line in head.split(b"\r\n")
            if line.partition(b":")[0].strip().lower() not in (b"connection", b"keep-alive", b"proxy-connection")
        ]
        # A server may keep its connection open although it was told to close it; the client must not reuse it.
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
    writer.close()  # the client is gone or sent an invalid body: do not wait for an answer


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


async def relay(client: StreamPair, server: StreamPair, account: ProxyAccount) -> None:
    """Copies bytes in both directions until both sides have ended, or one has failed."""
    directions = {
        asyncio.create_task(_pump(client[0], server[1], account)),
        asyncio.create_task(_pump(server[0], client[1], account)),
    }
    try:
        await asyncio.gather(*directions)
    finally:
        await cancel(directions)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, account: ProxyAccount) -> None:
    while True:
        before = account.used
        try:
            async with asyncio.timeout(account.limits.idle):
                piece = await reader.read(PIECE)
        except TimeoutError:
            if account.used > before:  # the other direction is active: a long upload or download
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
    """Writes data, and waits if the reader is slower."""
    writer.write(data)
    await writer.drain()


async def close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection, whatever its peer does."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):  # a peer that reads nothing must not block us
            await writer.wait_closed()


async def cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Cancels tasks, and waits until they have ended."""
    pending = [task for task in tasks if task is not asyncio.current_task()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
