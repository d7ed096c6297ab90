"""Tasks that misbehave inside a sandbox, each in one way."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

from tabellion.reading.child import contents
from tabellion.reading.errors import Unreadable
from tabellion.reading.header import Header
from tabellion.reading.page import Page, serialize_page
from tabellion.reading.page_reading import read
from tabellion.reading.sniff import Kind

Items = Iterator[dict[str, Any]]


def echo(file: int | None, **arguments: Any) -> Items:
    yield {"said": arguments, "pid": os.getpid(), "content": contents(file).decode() if file is not None else None}


def count(file: int | None, to: int) -> Items:
    for number in range(to):
        yield {"number": number}


def crash(file: int | None) -> Items:
    yield {"pid": os.getpid()}
    ctypes.string_at(0)


def loop(file: int | None) -> Items:
    yield {"pid": os.getpid()}
    while True:
        pass


def hog(file: int | None) -> Items:
    yield {"pid": os.getpid()}
    kept = []
    while True:
        kept.append(bytes(64 << 20))


def swell(file: int | None) -> Items:
    kept = [os.urandom(1 << 20) for _ in range(300)]
    while kept:
        pass
    yield {}


def burn(file: int | None) -> Items:
    yield {"pid": os.getpid()}
    os.kill(os.getpid(), signal.SIGXCPU)


def write(file: int | None, path: str) -> Items:
    with open(path, "wb") as stream:
        stream.write(bytes(1 << 20))
    yield {"written": True}


def connect(file: int | None, port: int) -> Items:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        yield {"connected": True}


def fork(file: int | None) -> Items:
    started = os.fork()  # other programs are out of reach
    if not started:
        signal.pause()
    yield {"pid": started}
    signal.pause()


def flood(file: int | None) -> Items:
    yield {"text": "x" * (20 << 20)}


def garbage(file: int | None, body: str) -> Items:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.sendall(len(body).to_bytes(4, "big") + body.encode())
    control.detach()
    signal.pause()
    yield {}


def boast(file: int | None) -> Items:
    os.write(2, b"a library complains\n")
    os.abort()
    yield {}


def refuse(file: int | None) -> Items:
    raise Unreadable("pdf_empty")
    yield {}


def flaky(file: int | None) -> Items:
    """Is killed before its first message, the first time."""
    assert file is not None
    if not os.fstat(file).st_size:
        os.write(file, b"died")
        os.kill(os.getpid(), signal.SIGKILL)
    yield {"pid": os.getpid()}


def slip(file: int | None) -> Items:
    raise KeyError("a slip of ours")
    yield {}


def environment(file: int | None) -> Items:
    yield dict(os.environ)


def deadly(file: int, **arguments: Any) -> Items:
    """Reads like the real task, and dies on every second page."""
    for item in read(file, **arguments):
        if "page" in item and item["page"]["number"] % 2 == 0:
            ctypes.string_at(0)
        yield item


def mad(file: int, **arguments: Any) -> Items:
    yield {"document": {"kind": "pdf", "count": [], "bytes": 0, "notes": 7}}


def endless(file: int, *, count: int = 1, shift: int = 0, **arguments: Any) -> Items:
    """Announces some pages and sends pages without end."""
    yield {"document": Header(Kind.PDF, count, 10).as_dict()}
    first = arguments["first"]
    while True:
        yield {"page": serialize_page(Page(first + shift, 100.0, 100.0, "text"))}
        first += 1


def misnumbered(file: int, **arguments: Any) -> Items:
    yield from endless(file, count=9, shift=1 << 40, **arguments)


def boundless(file: int, **arguments: Any) -> Items:
    yield from endless(file, count=1 << 40, **arguments)


def dies_at_the_end(file: int, **arguments: Any) -> Items:
    yield from read(file, **arguments)
    ctypes.string_at(0)
