"""Fetching: from the vetted address, with few redirects, within limits of bytes and seconds."""

from __future__ import annotations

import ast
import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import httpx2
import pytest

import tabellion
from tabellion.net.fetching import SMALL, Fetched, FetchFailed, Pinned, client, fetch, file_name
from tabellion.net.guard import Blocked, Rules
from tests.models.scripted import Answer, RecordedRequest, ScriptedServer, scripted

Value = TypeVar("Value")
HOME = Rules.of(["127.0.0.0/8"])
PDF = {"content-type": "application/pdf"}


def visit(script: Callable[[RecordedRequest], Answer], story: Callable[[ScriptedServer], Awaitable[Value]]) -> Value:
    """Run a story with a server that answers by this function."""

    async def go() -> Value:
        async with scripted(script) as server:
            return await story(server)

    return asyncio.run(go())


def fetch_url(
    script: Callable[[RecordedRequest], Answer], path: str = "/a.pdf", **options: object
) -> tuple[bytes, Fetched]:
    """Return the result of a fetch."""

    async def story(server: ScriptedServer) -> tuple[bytes, Fetched]:
        async with fetch(server.url + path, HOME, **options) as found:  # type: ignore[arg-type]
            return b"".join([chunk async for chunk in found.chunks]), found

    return visit(script, story)


def test_a_document_is_fetched_with_its_name_and_kind() -> None:
    """The name is what the server sent, or else the end of the path."""
    content, found = fetch_url(lambda _: Answer(b"%PDF-1", 200, PDF), "/x/my%20bill.pdf?token=1")
    assert (content, found.media, found.name) == (b"%PDF-1", "application/pdf", "my bill.pdf")
    named = PDF | {"content-disposition": 'attachment; filename="b.pdf"'}
    assert fetch_url(lambda _: Answer(b"%PDF-1", 200, named))[1].name == "b.pdf"


def test_the_host_name_is_kept_though_the_address_is_pinned() -> None:
    """The request goes to the vetted address with the host's own name."""
    asked_names = []

    async def resolve(host: str, _port: int) -> list[str]:
        asked_names.append(host)
        return ["127.0.0.1"]

    async def story(server: ScriptedServer) -> None:
        port = httpx2.URL(server.url).port
        async with fetch(f"http://bills.example:{port}/a", Rules(HOME.allow, resolver=resolve)) as found:
            assert [chunk async for chunk in found.chunks] == [b"x"]
        assert server.asked[0].headers["host"] == f"bills.example:{port}"

    visit(lambda _: Answer(b"x"), story)
    assert asked_names == ["bills.example"]


def test_a_name_that_changes_to_a_private_address_is_not_followed() -> None:
    """The name is resolved once: a second DNS answer is never used."""
    answers = iter([["93.184.216.34", "127.0.0.1"], ["127.0.0.1"]])

    async def resolve(_host: str, _port: int) -> list[str]:
        return next(answers)

    async def story() -> None:
        async with fetch("http://rebind.example/", Rules(resolver=resolve)):
            pass

    with pytest.raises(Blocked, match="not a public address"):
        asyncio.run(story())
    assert next(answers) == ["127.0.0.1"]


def test_redirects_are_limited_and_checked_each_time() -> None:
    """Three redirects are fine, four are not, and one to a forbidden address is blocked."""

    def hops(count: int) -> Callable[[RecordedRequest], Answer]:
        def answer(request: RecordedRequest) -> Answer:
            number = int(request.path.strip("/") or 0)
            return Answer(b"there") if number == count else Answer(b"", 302, {"location": f"/{number + 1}"})

        return answer

    assert fetch_url(hops(3), "/")[0] == b"there"
    with pytest.raises(FetchFailed, match=r"too many redirects \(more than 3\)"):
        fetch_url(hops(4), "/")
    for place in (
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://10.0.0.1/",
        "http://u@127.0.0.1/",
        "//0x7f.1",
    ):
        with pytest.raises(Blocked):
            fetch_url(lambda _, place=place: Answer(b"", 302, {"location": place}))  # type: ignore[misc]


def test_a_redirect_to_the_same_url_with_a_cookie_is_followed() -> None:
    """Some sites answer only after they have set a cookie."""

    def script(asked: RecordedRequest) -> Answer:
        if "cookie" in asked.headers:
            return Answer(b"in")
        return Answer(b"", 302, {"location": "/", "set-cookie": "seen=1"})

    assert fetch_url(script, "/")[0] == b"in"


def test_a_cookie_is_for_its_host_and_its_fetch() -> None:
    """It is not sent to another host at the same address, nor by the next fetch over the same transport."""

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    def script(asked: RecordedRequest) -> Answer:
        port = asked.headers["host"].partition(":")[2]
        if asked.path == "/":
            return Answer(b"", 302, {"location": f"http://b.example:{port}/b", "set-cookie": "seen=1"})
        return Answer(b"", 302, {"location": f"http://a.example:{port}/a"}) if asked.path == "/b" else Answer(b"x")

    async def story(server: ScriptedServer) -> list[tuple[str, str]]:
        port = httpx2.URL(server.url).port
        transport = Pinned(Rules(HOME.allow, resolver=resolve), keep=True)
        for path in ("/", "/a"):
            async with fetch(f"http://a.example:{port}{path}", transport=transport) as found:
                assert [chunk async for chunk in found.chunks] == [b"x"]
        await transport.aclose()
        return [(asked.path, asked.headers.get("cookie", "")) for asked in server.asked]

    assert visit(script, story) == [("/", ""), ("/b", ""), ("/a", "seen=1"), ("/a", "")]


def test_more_bytes_than_allowed_are_not_read() -> None:
    """Whether the server announces the length or not."""
    assert fetch_url(lambda _: Answer(b"x" * 100), limit=100)[0] == b"x" * 100
    with pytest.raises(FetchFailed) as caught:
        fetch_url(lambda _: Answer(b"x" * 101), limit=100)
    assert caught.value.code == "too_large"
    chunks = b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n"
    with pytest.raises(FetchFailed, match="larger than 100 bytes"):
        fetch_url(lambda _: Answer(chunks, 200, {"content-length": "101", "transfer-encoding": "chunked"}), limit=100)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(b"gone", 404), "HTTP 404"),
        (Answer(gzip.compress(b"x" * 9999), 200, {"content-encoding": "gzip"}), "compressed"),
        (Answer(b"<html>", 200, {"content-type": "Text/HTML; charset=x"}), "returned text/html"),
        (Answer(b"", 302, {}), "HTTP 302 without a Location header"),
    ],
)
def test_what_is_not_a_document_is_rejected(answer: Answer, message: str) -> None:
    """An error status, a compressed body, an unsupported type."""
    with pytest.raises(FetchFailed, match=message):
        fetch_url(lambda _: answer, media={"application/pdf"})


def test_a_server_that_does_not_answer_is_abandoned() -> None:
    """One deadline covers everything; the error does not reveal whether something listens."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async def silent() -> None:
        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with pytest.raises(FetchFailed, match=r"longer than 0\.2 s"):
                async with fetch(f"http://127.0.0.1:{port}/", HOME, deadline=0.2):
                    pass
        with pytest.raises(FetchFailed, match="did not respond, or closed the connection"):
            async with fetch(f"http://127.0.0.1:{port}/", HOME):
                pass

    asyncio.run(silent())


def test_the_client_is_guarded_for_every_caller() -> None:
    """POST requests are checked too."""

    async def story(server: ScriptedServer) -> int:
        async with client(HOME) as http:
            answer = await http.post(server.url, content=b"hello", headers={"x-a": "1"})
            with pytest.raises(Blocked):
                await http.post("http://10.0.0.1/", content=b"hello")
        assert (server.asked[0].body, server.asked[0].headers["x-a"]) == (b"hello", "1")
        return answer.status_code

    assert visit(lambda _: Answer(b"", 204), story) == 204


def test_a_kept_connection_serves_one_host_only() -> None:
    """Another name at the same address gets its own, as its certificate was not checked; each request is vetted."""
    asked_names: list[str] = []

    async def resolve(host: str, _port: int) -> list[str]:
        asked_names.append(host)
        return ["127.0.0.1"] if len(asked_names) < 5 else ["10.0.0.1"]

    async def story(server: ScriptedServer) -> int:
        port = httpx2.URL(server.url).port
        transport = Pinned(Rules(HOME.allow, resolver=resolve), keep=True)
        for name in ("a.example", "a.example", "b.example", "a.example"):
            async with fetch(f"http://{name}:{port}/", transport=transport) as found:
                assert [chunk async for chunk in found.chunks] == [b"x"]
        with pytest.raises(Blocked):
            async with fetch(f"http://a.example:{port}/", transport=transport):
                pass
        await transport.aclose()
        return server.connections

    assert visit(lambda _: Answer(b"x"), story) == 2
    assert asked_names == ["a.example", "a.example", "b.example", "a.example", "a.example"]


def test_a_kept_connection_that_breaks_is_replaced() -> None:
    """The request is sent again, on another connection; a new connection that breaks too is a failure."""
    answers = iter([Answer(b"x"), Answer(status=0), Answer(b"y"), Answer(status=0), Answer(status=0)])

    async def story(server: ScriptedServer) -> list[bytes]:
        transport, contents = Pinned(HOME, keep=True), []
        for _ in range(2):
            async with fetch(server.url, transport=transport) as found:
                contents += [chunk async for chunk in found.chunks]
        with pytest.raises(FetchFailed):
            async with fetch(server.url, transport=transport):
                pass
        await transport.aclose()
        return contents

    assert visit(lambda _: next(answers), story) == [b"x", b"y"]


@pytest.mark.parametrize(("size", "connections"), [(0, 1), (9, 1), (SMALL, 1), (SMALL + 1, 4)])
def test_a_connection_is_kept_after_an_answer_with_a_small_body(size: int, connections: int) -> None:
    """A redirect, an error or a document that is rejected; a larger body is not read, which ends its connection."""
    answers = {
        "/a": (302, {"location": "/missing"}), "/missing": (404, {}), "/b": (302, {"location": "/json"}),
        "/json": (200, {"content-type": "application/json"}),
    }  # fmt: skip

    def script(asked: RecordedRequest) -> Answer:
        return Answer(b"x" * size, *answers[asked.path])

    async def story(server: ScriptedServer) -> int:
        transport = Pinned(HOME, keep=True)
        for path in ("/a", "/b"):
            with pytest.raises(FetchFailed, match=r"HTTP 404|returned application/json"):
                async with fetch(server.url + path, transport=transport, media={"image/png"}):
                    pass
        await transport.aclose()
        return server.connections

    assert visit(script, story) == connections


@pytest.mark.parametrize("body", [b"", b"x" * 9], ids=["cut", "chunked"])
def test_a_body_that_cannot_be_read_hides_no_status(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never comes is not waited for, and one that is longer than announced is not read to its end."""
    monkeypatch.setattr("tabellion.net.fetching.SMALL_WAIT", 0.01)
    monkeypatch.setattr("tabellion.net.fetching.SMALL", 5)
    headers = {"content-length": "5"}
    if body:
        headers["transfer-encoding"] = "chunked"
        body = b"9\r\n" + body + b"\r\n"

    async def story(server: ScriptedServer) -> None:
        transport = Pinned(HOME, keep=True)
        with pytest.raises(FetchFailed, match="HTTP 404"):
            async with fetch(server.url, transport=transport):
                pass
        await transport.aclose()

    visit(lambda _: Answer(body, 404, headers), story)


def test_connections_are_closed_when_no_request_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that was not asked for a while has none; a request that comes later opens another."""
    monkeypatch.setattr("tabellion.net.fetching.IDLE", 0.01)

    async def story(server: ScriptedServer) -> int:
        transport = Pinned(HOME, keep=True)
        for _ in range(2):
            async with fetch(server.url, transport=transport) as found:
                assert [chunk async for chunk in found.chunks] == [b"x"]
            while transport._hosts:
                await asyncio.sleep(0.005)
        return server.connections

    assert visit(lambda _: Answer(b"x"), story) == 2


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("", ""), ("inline", ""), ("attachment; filename=a.pdf", "a.pdf"),
        ('attachment; filename="a b.pdf"', "a b.pdf"),
        ("attachment; filename*=UTF-8''%C3%A4.pdf", "ä.pdf"), ("attachment; filename*=nope''%FF", "ÿ"),
        ("a\nb: c", ""),
    ],
)  # fmt: skip
def test_the_name_in_a_disposition(header: str, name: str) -> None:
    """Plain, quoted, in another alphabet, or none."""
    assert file_name(header) == name


def test_no_other_module_sends_requests() -> None:
    """Only guarded modules create HTTP clients and browsers, and models and commands, whose URLs are configured."""
    root = Path(tabellion.__file__).parent
    makers = {"AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport", "urlopen", "HTTPConnection",
              "HTTPSConnection", "ClientSession", "Session", "open_connection", "create_connection",
              "async_playwright", "sync_playwright"}  # fmt: skip
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in makers:
                    found.add(path.relative_to(root).parts)
    commands = {parts for parts in found if parts[0] in ("models", "cli") or "commands" in parts}
    assert found - commands == {("net", name) for name in ("chromium.py", "fetching.py", "proxy.py")}
