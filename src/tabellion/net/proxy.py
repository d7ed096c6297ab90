"""A forward proxy on loopback that checks every address a browser requests, and connects only to checked ones.

    async with GuardProxy(Rules.of(["10.0.0.0/8"])) as proxy:
        account = proxy.add_account()
        ...  # a browser that uses proxy.url with account.name and account.password
        print(account.refused)

Each connection resolves its host once, and every address of the host must pass the guard. The connection goes to one of
these addresses, so a name that resolves differently a moment later has no effect.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from types import TracebackType

from tabellion.messages import Message
from tabellion.net.guard import Blocked, HostUnreachable, ResolvedUrl, Rules, vet_url
from tabellion.net.relay import (
    LONGEST_HEAD,
    BytesSpent,
    Headers,
    ProxyAccount,
    ProxyAnswer,
    ProxyLimits,
    RefusedAddress,
    StreamPair,
    answer,
    cancel,
    close,
    exchange,
    has_body,
    log,
    make_request,
    parse_head,
    read_head,
    relay,
    write,
)

__all__ = ["GuardProxy", "ProxyAccount", "ProxyLimits", "RefusedAddress"]

CONNECT_SECONDS = 10.0
WAITING_SECONDS = 120.0  #: to wait for a request on an open connection
TRIES = 3  #: addresses of one host that are tried
MOST_CONNECTIONS = 512  #: at a time, of all accounts together and before authentication
CHALLENGE = ("Proxy-Authenticate", 'Basic realm="tabellion"')

_REQUEST = re.compile(r"([A-Z][A-Z-]{0,30}) ([!-~]+) HTTP/1\.[01]")
_ABSOLUTE = re.compile(r"http://([^/?#]+)(.*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?P<host>[^/?#]+?)(?::(?P<port>[0-9]{1,5}))?")


class GuardProxy:
    """The proxy. Accounts have secrets, so that other users of this machine cannot use it."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or Rules()
        self._accounts: dict[str, ProxyAccount] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> GuardProxy:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Starts listening on a free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=LONGEST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stops listening and ends every connection."""
        if self._server is not None:
            self._server.close()
            await cancel(self._tasks)
            await self._server.wait_closed()
            self._server = None

    def add_account(self, limits: ProxyLimits | None = None, rules: Rules | None = None) -> ProxyAccount:
        """A new account with its own secret, and its own rules if they are given."""
        account = ProxyAccount(
            secrets.token_hex(8), secrets.token_urlsafe(32), limits or ProxyLimits(), rules or self._rules
        )
        self._accounts[account.name] = account
        return account

    async def remove_account(self, account: ProxyAccount) -> None:
        """Removes an account and ends its connections."""
        self._accounts.pop(account.name, None)
        await cancel(account.tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio starts one for each connection
        self._tasks.add(task)
        try:
            if len(self._tasks) <= MOST_CONNECTIONS:
                await self._serve((reader, writer), task)
        except asyncio.CancelledError:
            pass  # by `close` or `remove_account`; asyncio would log it as a failure
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError) as error:
            log.debug("browser: a connection ended: %s", type(error).__name__)
        finally:
            self._tasks.discard(task)
            await close(writer)

    async def _serve(self, client: StreamPair, task: asyncio.Task[None]) -> None:
        """Answers requests on one connection until one has been forwarded."""
        while head := await read_head(client[0], WAITING_SECONDS):
            line, headers = parse_head(head)
            account = self._authenticate(headers)
            if account is not None:
                account.tasks.add(task)
                try:
                    await self._answer(client, account, line, headers)
                finally:
                    account.tasks.discard(task)
                return
            await answer(client[1], 407, "this proxy needs a name and a password", [CHALLENGE])
            if has_body(headers):
                return

    def _authenticate(self, headers: Headers) -> ProxyAccount | None:
        header = next((value for name, value in headers if name.lower() == "proxy-authorization"), "")
        scheme, _, token = header.partition(" ")
        try:
            name, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        account = self._accounts.get(name)
        if scheme.lower() != "basic" or account is None:
            return None
        return account if hmac.compare_digest(password.encode(), account.password.encode()) else None

    async def _answer(self, client: StreamPair, account: ProxyAccount, line: str, headers: Headers) -> None:
        try:
            async with asyncio.timeout(account.limits.seconds):
                await self._forward(client, account, line, headers)
        except ProxyAnswer as reply:
            await answer(client[1], reply.status, str(reply))
        except BytesSpent:
            log.warning("browser: a connection was cut: its session has used %s bytes", f"{account.limits.bytes:,}")

    async def _forward(self, client: StreamPair, account: ProxyAccount, line: str, headers: Headers) -> None:
        match = _REQUEST.fullmatch(line)
        if match is None:
            raise ProxyAnswer(400, "this is not a request that a proxy understands")
        method, target = match.groups()
        if method == "CONNECT":
            async with self._reach(account, "https", target) as server:
                await write(client[1], b"HTTP/1.1 200 Connection established\r\n\r\n")
                await relay(client, server, account)
            return
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise ProxyAnswer(400, "only http URLs and CONNECT are supported")
        authority, rest = absolute.groups()
        async with self._reach(account, "http", authority) as server:
            # Only the host decides the destination. The path is not checked: it may exceed the guard's length limit.
            path = rest if rest.startswith("/") else f"/{rest}"
            await write(server[1], make_request(f"{method} {path}", authority, headers))
            await exchange(client, server, account, headers)

    @asynccontextmanager
    async def _reach(self, account: ProxyAccount, scheme: str, authority: str) -> AsyncIterator[StreamPair]:
        """A connection to a checked address of this host."""
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            raise ProxyAnswer(400, "its host is not valid")
        host, port = match["host"].strip("[]")[:255], int(match["port"] or (443 if scheme == "https" else 80))
        if len(account.tasks) > account.limits.connections:
            raise ProxyAnswer(503, f"there are more than {account.limits.connections} connections at a time")
        try:
            if account.is_spent:
                raise Blocked(Message("net.session_used_up", n=account.limits.bytes))
            target = await vet_url(f"{scheme}://{authority}/", account.rules)
            if target.port == self.port and not all(address.is_global for address in target.addresses):
                raise Blocked(Message("net.this_proxy"))
        except Blocked as refusal:
            account.refuse(host, port, refusal.reason)
            raise ProxyAnswer(
                403, f"tabellion refused to connect to {host}: {refusal.reason} (server.allow opens your own networks)"
            ) from None
        except HostUnreachable as error:
            raise _unreachable(account, error) from None
        server = await _connect(target, account)
        try:
            yield server
        finally:
            await close(server[1])


async def _connect(target: ResolvedUrl, account: ProxyAccount) -> StreamPair:
    for address in target.addresses[:TRIES]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                streams = await asyncio.open_connection(str(address), target.port, limit=LONGEST_HEAD)
        except (OSError, TimeoutError):
            continue
        peer = streams[1].get_extra_info("peername")
        if peer is not None and ip_address(str(peer[0]).partition("%")[0]) == address:
            return streams
        await close(streams[1])
    # One message for all causes: the cause would reveal what listens where.
    raise _unreachable(account, HostUnreachable(target.host, Message("net.no_answer")))


def _unreachable(account: ProxyAccount, error: HostUnreachable) -> ProxyAnswer:
    account.unreachable = error
    return ProxyAnswer(502, str(error))
