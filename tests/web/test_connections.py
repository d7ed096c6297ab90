"""Connections: clients that send requests are served, whatever other connections do."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.web.connections import Connection
from tests.models.bills import bill
from tests.waiting import eventually
from tests.web.live import Live, live

WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """An application that waits 0.2 s for headers, on five connections."""
    monkeypatch.setattr(Connection, "seconds", 0.2)
    monkeypatch.setattr(Connection, "most", 5)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as one:
        yield one


@contextlib.contextmanager
def connected(web: Live, data: bytes = b"") -> Iterator[socket.socket]:
    """Open a connection and send this."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as one:
        one.sendall(data)
        yield one


def rest(one: socket.socket) -> bytes:
    """Read until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := one.recv(65536):
            found += chunk
    return found


def test_an_incomplete_header_times_out(quick: Live) -> None:
    """408 and the connection is closed; a client that sent nothing gets no answer."""
    with connected(quick, HALF) as one, connected(quick) as silent:
        answer = rest(one)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in answer
        assert b'"code": "request_timeout"' in answer
        assert rest(silent) == b""


def test_trickling_bytes_do_not_extend_the_deadline(quick: Live) -> None:
    """Neither before the first request nor after an answer."""
    for begin in (b"", WHOLE):
        with connected(quick, begin + HALF) as one:
            one.settimeout(0.02)
            found = b""

            def ended(one: socket.socket = one) -> bool:
                nonlocal found
                try:
                    one.sendall(b"a")
                    found += (chunk := one.recv(65536))
                    return not chunk
                except TimeoutError:
                    return False
                except (ConnectionResetError, BrokenPipeError):
                    return True

            eventually(ended)
            assert (b"200 OK" in found) == bool(begin)


def test_an_unread_body_does_not_keep_the_connection(quick: Live) -> None:
    """The answer is sent after the headers, and the connection does not wait for the rest."""
    with connected(quick, b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\nabc") as one:
        one.sendall(b"d")
        assert b"200 OK" in rest(one)


def test_a_running_request_is_not_cut_off(quick: Live) -> None:
    """The deadline is for headers: a body may come later."""
    content = bill("slowly")
    head = f"POST /api/documents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {quick.key()}\r\nConnection: close\r\n"
    head += f"Content-Type: application/pdf\r\nContent-Length: {len(content)}\r\n\r\n"
    with connected(quick, head.encode() + content[:10]) as one:
        with connected(quick, HALF) as other:
            assert b"408" in rest(other)
        one.sendall(content[10:])
        assert rest(one).startswith(b"HTTP/1.1 202 ")


def test_headers_are_limited(quick: Live) -> None:
    """431, whether they come at once or in pieces, are many or large; the path counts too."""
    whole = HALF + b"a" * 100_000 + b"\r\n\r\n"
    many = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-A: %s\r\n" % (b"a" * 500) * 80 + b"\r\n"
    path = b"GET /healthz?%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 40_000)
    for data in (whole, many, path, whole[:60_000]):
        with connected(quick, data) as one:
            answer = one.recv(65536)
            assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
            assert b"problem+json" in answer
    with connected(quick, HALF + b"a" * 20_000 + b"\r\n\r\n") as one:
        assert one.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_invalid_http_is_a_problem(quick: Live) -> None:
    """It has the same shape as every other error."""
    with connected(quick, b"hello\r\n\r\n") as one:
        answer = rest(one)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"code": "request_invalid"' in answer


def test_idle_connections_make_room_for_new_ones(quick: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without a request are closed first: nobody can block others by idling."""
    monkeypatch.setattr(Connection, "seconds", 60.0)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(quick, WHOLE + HALF)) for _ in range(5)]
        for one in held:
            assert b"200 OK" in one.recv(65536)  # the half that came with it has been read, too
        assert quick.get("/healthz", key=None).status_code == 200
        answer = rest(held[0])
        assert b"HTTP/1.1 503 " in answer
        assert b"too_many_connections" in answer
