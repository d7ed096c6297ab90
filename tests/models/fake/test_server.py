"""The server: settings changed at run time, concurrency, and a port in use."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.fake.server import Options, _listen, run
from tabellion.testing import Serving, serving
from tests.models.fake.samples import BEARER, chat, generate, send


def test_settings_change_at_run_time() -> None:
    """A quota that shrinks, an outage that starts and ends; the counts show it."""
    with serving(rate=1000, latency=0) as fake:
        assert generate(fake.url, "x").status == 200
        assert fake.change(rate=1)["rate"] == 1
        assert [generate(fake.url, "x").status for _ in range(4)].count(429) >= 1
        fake.change(rate=None, knobs="503")
        assert [generate(fake.url, "x").status, chat(fake.url, "x").status] == [503, 503]
        fake.change(knobs="")
        assert chat(fake.url, "x").status == 200
        report = fake.report()
        assert report["requests"] == 8
        assert sum(report["statuses"].values()) == 8
        assert report["open"] == 0
        with pytest.raises(ValueError, match="unknown knob 'nonsense'"):
            fake.change(knobs="nonsense")


def test_hundreds_of_requests_wait_at_once(fake: Serving) -> None:
    """Five hundred requests of a second each are open together."""

    async def one() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(fake.url.rpartition(":")[2]))
        body = b'{"model":"m@latency=1","messages":[{"role":"user","content":"x"}]}'
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: f\r\nauthorization: Bearer k\r\ncontent-length: {len(body)}"
        )
        writer.write(head.encode() + b"\r\n\r\n" + body)
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*(one() for _ in range(500)))

    assert set(asyncio.run(all_of_them())) == {b"HTTP/1.1 200 OK\r\n"}
    assert fake.report()["most_open"] >= 250


def test_a_port_in_use_is_reported(fake: Serving) -> None:
    """With the address and what to do."""
    port = int(fake.url.rpartition(":")[2])
    with pytest.raises(ConfigurationError, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use; choose"):
        run(Options(port=port), lambda *_: None)


def test_responses_are_sent_at_once() -> None:
    """The socket says that it is TCP: otherwise asyncio leaves Nagle's algorithm on, and each response waits 40 ms."""
    with _listen(Options()) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_an_unwritable_log_is_reported(tmp_path: Path) -> None:
    """Before anything is served."""
    with pytest.raises(ConfigurationError, match="cannot be written"):
        run(Options(log=str(tmp_path / "nowhere" / "log")), lambda *_: None)


def test_a_client_that_disconnects_is_harmless(fake: Serving) -> None:
    """Half a request and a closed connection: the server continues."""
    port = int(fake.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: f\r\nauthorization: Bearer k\r\n")
        connection.sendall(b"content-length: 1000\r\n\r\nhalf")
    assert chat(fake.url, "still here").status == 200


def test_unknown_paths_and_methods(fake: Serving) -> None:
    """404 for another path, 405 for another method."""
    assert send(fake.url, "/v2/teapot", {}, BEARER).status == 404
    assert send(fake.url, "/v1/chat/completions", None, BEARER, "GET").status == 405
