"""The proxy of a browser: what it forwards, what it refuses, and what it records."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TypeVar

import pytest

from tabellion.net.guard import Rules
from tabellion.net.proxy import GuardProxy, ProxyAccount, ProxyLimits
from tabellion.net.relay import make_request, parse_head

Value = TypeVar("Value")
ALLOWED, REFUSED = "127.0.0.2", "127.0.0.3"
RULES = Rules.of([f"{ALLOWED}/32", "127.0.0.1/32"])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Counting:
    """A server that gives every connection the same answer, and records what it received."""

    host: str
    answer: bytes = OK
    received: list[bytes] = field(default_factory=list)
    port: int = 0
    keeps: bool = False  #: whether it keeps connections open against what it is asked

    @property
    def authority(self) -> str:
        """Its host and port."""
        return f"{self.host}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self.received.append(b"")
        number = len(self.received) - 1
        try:
            while piece := await reader.read(65536):
                self.received[number] += piece
                if self.received[number].endswith((b"\r\n\r\n", b"end")):
                    writer.write(self.answer)
                    await writer.drain()
                    if not self.keeps:
                        break
        except ConnectionError:
            pass
        finally:
            writer.close()


def run(
    story: Callable[[GuardProxy, ProxyAccount, Counting, Counting], Awaitable[Value]],
    *,
    rules: Rules = RULES,
    limits: ProxyLimits | None = None,
    answer: bytes = OK,
    keeps: bool = False,
) -> Value:
    """Run a story with a proxy, an account, an allowed server and a forbidden one."""

    async def go() -> Value:
        good, bad = Counting(ALLOWED, answer, keeps=keeps), Counting(REFUSED)
        servers = [await asyncio.start_server(one.serve, one.host, 0) for one in (good, bad)]
        for one, server in zip((good, bad), servers, strict=True):
            one.port = server.sockets[0].getsockname()[1]
        try:
            async with GuardProxy(rules) as proxy:
                return await story(proxy, proxy.add_account(limits), good, bad)
        finally:
            for server in servers:
                server.close()

    return asyncio.run(go())


def authorization(account: ProxyAccount) -> str:
    token = base64.b64encode(f"{account.name}:{account.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {token}\r\n"


async def ask(proxy: GuardProxy, request: str | bytes, more: bytes = b"") -> bytes:
    """Return everything that the proxy answers to these bytes, until it closes; `more` follows its first answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        async with asyncio.timeout(30):
            writer.write(request if isinstance(request, bytes) else request.encode())
            first = await reader.readuntil(b"\r\n\r\n") if more else b""
            writer.write(more)
            return first + await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def get(account: ProxyAccount, url: str, headers: str = "", method: str = "GET") -> str:
    return f"{method} {url} HTTP/1.1\r\nHost: elsewhere\r\n{authorization(account)}{headers}\r\n"


def test_a_request_reaches_an_allowed_server_without_the_secret() -> None:
    """The server gets the path, its own name as Host, and no headers meant for the proxy."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        answer = await ask(proxy, get(account, f"http://{good.authority}/a?b=1", "Proxy-Connection: keep-alive\r\n"))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"ok")
        [received] = good.received
        assert received.startswith(f"GET /a?b=1 HTTP/1.1\r\nHost: {good.authority}\r\n".encode())
        assert b"roxy" not in received
        assert account.refused == []
        assert account.used >= 2

    run(story)


def test_an_account_with_its_own_rules_uses_only_those() -> None:
    """Accounts share a proxy, not what they may reach."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, bad: Counting) -> None:
        own = proxy.add_account(rules=Rules(services=frozenset({(ip_address(REFUSED), bad.port)})))
        for one, server, status in ((account, good, 200), (account, bad, 403), (own, good, 403), (own, bad, 200)):
            answer = await ask(proxy, get(one, f"http://{server.authority}/"))
            assert answer.startswith(f"HTTP/1.1 {status}".encode())

    run(story)


@pytest.mark.parametrize(
    "more",
    ["GET http://{good}/second HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nProxy-Authorization: Basic x\r\n\r\n"],
)
def test_a_second_request_on_a_connection_is_not_passed_on(more: str) -> None:
    """A second request on the same connection would go to the first server, including the secret."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        body = get(account, f"http://{good.authority}/", "Content-Length: 3\r\n", "POST") + "end"
        await ask(proxy, body + more.format(good=good.authority))
        assert len(good.received) == 1
        assert good.received[0].endswith(b"\r\n\r\nend")

    run(story)


def test_a_body_in_chunks_is_passed_on_whole() -> None:
    """Chunk by chunk, to the last one."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        chunks = "4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n"
        request = get(account, f"http://{good.authority}/", "Transfer-Encoding: chunked\r\n", "POST") + chunks
        assert (await ask(proxy, request)).startswith(b"HTTP/1.1 200")
        assert good.received[0].endswith(chunks.encode())

    run(story)


def test_a_server_that_keeps_its_connection_is_not_used_twice() -> None:
    """The client is told that the connection ends, whatever the server says."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(account, f"http://{good.authority}/").encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        writer.close()
        assert b"Connection: close" in head
        assert b"keep-alive" not in head

    kept = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=99\r\nContent-Length: 2\r\n\r\nok"
    run(story, answer=kept, keeps=True)


def test_a_tunnel_passes_bytes_both_ways() -> None:
    """CONNECT opens it, and its bytes are forwarded unchanged."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        request = get(account, good.authority, method="CONNECT")
        answer = await ask(proxy, request, more=b"\x00\x01 anything end")
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + OK
        assert good.received == [b"\x00\x01 anything end"]

    run(story)


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_private_address_is_refused_and_recorded(method: str) -> None:
    """Nothing arrives there; the answer says why, and the account records it."""

    async def story(proxy: GuardProxy, account: ProxyAccount, _good: Counting, bad: Counting) -> None:
        url = bad.authority if method == "CONNECT" else f"http://{bad.authority}/"
        for _ in range(2):
            answer = await ask(proxy, get(account, url, method=method))
            assert answer.startswith(b"HTTP/1.1 403 Forbidden")
            assert f"refused to connect to {REFUSED}: its host is not a public address".encode() in answer
        assert bad.received == []
        assert [str(one) for one in account.refused] == [
            f"{bad.authority} was refused: its host is not a public address"
        ]

    run(story)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data", "metadata server"),
        ("http://0x7f.3/", "obfuscated number"),
        ("http://user:secret@127.0.0.2/", "user name or password"),
        ("http://[::1]/", "not a public address"),
        ("http://[::ffff:127.0.0.2]:80/", "not a public address"),
        ("http://93.184.216.34:25/", "its port is not one of"),
    ],
)
def test_the_rules_are_those_of_the_guard(url: str, reason: str) -> None:
    """What may not be fetched may not be browsed either."""

    async def story(proxy: GuardProxy, account: ProxyAccount, _good: Counting, _bad: Counting) -> None:
        answer = await ask(proxy, get(account, url))
        assert answer.startswith(b"HTTP/1.1 403")
        assert reason in account.refused[0].reason

    run(story)


def test_a_name_is_resolved_once_and_its_addresses_are_the_ones_connected_to() -> None:
    """A name of a private address is refused; one that changes after the check is still contacted where it was."""
    answers = {"good.example": [[ALLOWED], [REFUSED]], "bad.example": [[REFUSED]], "both.example": [[ALLOWED, REFUSED]]}

    async def resolve(host: str, _port: int) -> list[str]:
        return answers[host].pop(0)

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, bad: Counting) -> None:
        assert (await ask(proxy, get(account, f"http://good.example:{good.port}/"))).startswith(b"HTTP/1.1 200")
        assert answers["good.example"] == [[REFUSED]]
        assert f"Host: good.example:{good.port}".encode() in good.received[0]
        for host in ("good", "bad", "both"):
            refused = await ask(proxy, get(account, f"{host}.example:{bad.port}", method="CONNECT"))
            assert refused.startswith(b"HTTP/1.1 403")
        assert bad.received == []
        assert [one.host for one in account.refused] == ["good.example", "bad.example", "both.example"]

    run(story, rules=replace(RULES, resolver=resolve))


def test_it_does_not_connect_to_itself() -> None:
    """Even if loopback is allowed: a page could reach the proxy through the proxy."""

    async def story(proxy: GuardProxy, account: ProxyAccount, _good: Counting, _bad: Counting) -> None:
        answer = await ask(proxy, get(account, f"127.0.0.1:{proxy.port}", method="CONNECT"))
        assert answer.startswith(b"HTTP/1.1 403")
        assert account.refused[0].reason == "it is the address of this proxy"

    run(story)


def test_nobody_uses_it_without_the_secret() -> None:
    """No name, a wrong password, another scheme, or a removed account: 407, and nothing arrives."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        wrong = replace(account, password="wrong")
        url = f"http://{good.authority}/"
        plain = f"GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        tries = [plain, get(wrong, url), get(account, url).replace("Basic", "Bearer"), get(account, url)]
        await proxy.remove_account(account)
        for request in tries:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(request.encode())
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            writer.close()
            assert answer.startswith(b"HTTP/1.1 407 ")
            assert b'Proxy-Authenticate: Basic realm="tabellion"' in answer
        assert good.received == []

    run(story)


def test_the_password_may_follow_on_the_same_connection() -> None:
    """Browsers send a request without it first, then again with it."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        url = f"http://{good.authority}/"
        answer = await ask(proxy, f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\n", more=get(account, url).encode())
        assert answer.startswith(b"HTTP/1.1 407")
        assert answer.endswith(b"ok")

    run(story)


def test_more_bytes_than_allowed_are_not_passed_on() -> None:
    """The connection is closed, and the account may open no other."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        answer = await ask(proxy, get(account, f"http://{good.authority}/"))
        assert len(answer) < 600_000
        assert (await ask(proxy, get(account, f"http://{good.authority}/"))).startswith(b"HTTP/1.1 403")
        assert account.refused[0].reason == "the session has used its 500,000 bytes"
        assert len(good.received) == 1

    long = b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000
    run(story, answer=long, limits=ProxyLimits(bytes=500_000))


def test_connections_are_limited_in_number() -> None:
    """One too many is rejected with a reason."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(account, good.authority, method="CONNECT").encode())
        assert b"200" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        assert (await ask(proxy, get(account, f"http://{good.authority}/"))).startswith(b"HTTP/1.1 503")
        writer.close()

    run(story, limits=ProxyLimits(connections=1))


@pytest.mark.parametrize("limits", [ProxyLimits(idle=0.1), ProxyLimits(seconds=0.1)], ids=["idle", "seconds"])
def test_connections_are_limited_in_time(limits: ProxyLimits) -> None:
    """A connection that is idle or open for too long is closed."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        assert await ask(proxy, get(account, good.authority, method="CONNECT")) in (
            b"", b"HTTP/1.1 200 Connection established\r\n\r\n",
        )  # fmt: skip
        assert account.tasks == set()

    run(story, limits=limits)


def test_an_account_that_ends_takes_its_connections_with_it() -> None:
    """A tunnel of a closed session cannot be used."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(account, good.authority, method="CONNECT").encode())
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        await proxy.remove_account(account)
        assert await asyncio.wait_for(reader.read(-1), 30) == b""
        writer.close()

    run(story)


@pytest.mark.parametrize(
    "line", ["GET /path HTTP/1.1", "GET ftp://127.0.0.2/ HTTP/1.1", "nonsense", "CONNECT 127.0.0.2:80/x HTTP/1.1"]
)
def test_an_invalid_request_to_the_proxy_is_rejected(line: str) -> None:
    """It gets 400, and no connection is made."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        answer = await ask(proxy, f"{line}\r\n{authorization(account)}\r\n")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request")
        assert good.received == []

    run(story)


def test_an_unreachable_server_is_reported_in_one_sentence() -> None:
    """Whether it refused, did not answer or closed the connection is not revealed."""

    async def story(proxy: GuardProxy, account: ProxyAccount, good: Counting, _bad: Counting) -> None:
        free = await asyncio.start_server(lambda *_: None, ALLOWED, 0)
        port = free.sockets[0].getsockname()[1]
        free.close()
        await free.wait_closed()
        answer = await ask(proxy, get(account, f"http://{ALLOWED}:{port}/"))
        assert answer.startswith(b"HTTP/1.1 502 Bad Gateway")
        assert answer.endswith(f"{ALLOWED} cannot be reached: it does not answer\n".encode())

    run(story)


def test_ambiguous_heads_are_rejected() -> None:
    """A header without a colon, with a space before it, or with a lone line feed."""
    for head in (b"GET / HTTP/1.1\r\nno colon", b"GET / HTTP/1.1\r\nA : 1", b"GET / HTTP/1.1\r\nA: 1\nB: 2"):
        with pytest.raises(ValueError, match="two ways"):
            parse_head(head)


def test_a_client_cannot_name_the_length_as_a_header_of_the_connection() -> None:
    """Without it the server would take the body for another request."""
    headers = [("Connection", "content-length, x-mine"), ("Content-Length", "3"), ("X-Mine", "1")]
    assert make_request("POST /", "h", headers) == (
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    )
