"""Connections: clients that come to the point are served, whatever others do to theirs."""

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
    """An application that waits a fifth of a second for headers, on five connections."""
    monkeypatch.setattr(Connection, "seconds", 0.2)
    monkeypatch.setattr(Connection, "most", 5)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as one:
        yield one


@contextlib.contextmanager
def connected(web: Live, data: bytes = b"") -> Iterator[socket.socket]:
    """A connection on which so much was sent."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as one:
        one.sendall(data)
        yield one


def rest(one: socket.socket) -> bytes:
    """Everything until the other side hangs up."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := one.recv(65536):
            found += chunk
    return found


def test_half_a_header_is_not_waited_for_for_ever(quick: Live) -> None:
    """408 and the end; who says nothing at all is told nothing."""
    with connected(quick, HALF) as one, connected(quick) as silent:
        told = rest(one)
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in told
        assert b'"code": "request_timeout"' in told
        assert rest(silent) == b""


def test_bytes_that_drip_put_nothing_off(quick: Live) -> None:
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


def test_a_body_that_nobody_reads_is_not_waited_for_for_ever(quick: Live) -> None:
    """The answer is given at its head, and the connection does not stay for the rest."""
    with connected(quick, b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\nabc") as one:
        one.sendall(b"d")
        assert b"200 OK" in rest(one)


def test_a_request_that_is_at_work_has_its_time(quick: Live) -> None:
    """The deadline is for headers: a body may come later than that."""
    content = bill("slowly")
    head = f"POST /api/documents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {quick.key()}\r\nConnection: close\r\n"
    head += f"Content-Type: application/pdf\r\nContent-Length: {len(content)}\r\n\r\n"
    with connected(quick, head.encode() + content[:10]) as one:
        with connected(quick, HALF) as other:
            assert b"408" in rest(other)
        one.sendall(content[10:])
        assert rest(one).startswith(b"HTTP/1.1 202 ")


def test_headers_are_bounded(quick: Live) -> None:
    """431, whether they come at once or in pieces, are many or large; the address counts too."""
    whole = HALF + b"a" * 100_000 + b"\r\n\r\n"
    many = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-A: %s\r\n" % (b"a" * 500) * 80 + b"\r\n"
    path = b"GET /healthz?%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 40_000)
    for data in (whole, many, path, whole[:60_000]):
        with connected(quick, data) as one:
            told = one.recv(65536)
            assert told.startswith(b"HTTP/1.1 431 "), told[:200]
            assert b"problem+json" in told
    with connected(quick, HALF + b"a" * 20_000 + b"\r\n\r\n") as one:
        assert one.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_a_problem(quick: Live) -> None:
    """As every other refusal."""
    with connected(quick, b"hello\r\n\r\n") as one:
        told = rest(one)
        assert told.startswith(b"HTTP/1.1 400 ")
        assert b'"code": "request_invalid"' in told


def test_too_many_connections_make_room_for_new_ones(quick: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that ask for nothing go first: nobody keeps others out by doing nothing."""
    monkeypatch.setattr(Connection, "seconds", 60.0)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(quick, WHOLE + HALF)) for _ in range(5)]
        for one in held:
            assert b"200 OK" in one.recv(65536)  # the half that came with it has been read, too
        assert quick.get("/healthz", key=None).status_code == 200
        told = rest(held[0])
        assert b"HTTP/1.1 503 " in told
        assert b"too_many_connections" in told
