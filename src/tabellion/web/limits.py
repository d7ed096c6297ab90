"""Bodies while they arrive: counted, and given up on when they stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from tabellion.web.problems import Problem

HEADER_BYTES = 32_768  #: of a request before its body, its first line included


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request may cost."""

    upload_bytes: int = 100_000_000  #: of one file
    files: int = 100  #: in one request
    parts: int = 1000  #: of one form, files and fields together
    field_bytes: int = 1_000_000  #: of one field of a form
    json_bytes: int = 1_000_000
    open_bytes: int = 10_000  #: of a JSON body from a caller who is not signed in
    silence: float = 30.0  #: seconds without a byte
    slowest: int = 500  #: bytes a second, once a body has taken a minute: a drip is no upload
    patience: float = 60.0
    wait: float = 60.0  #: seconds that `?wait=` may ask for
    streams: int = 200  #: event streams in this process
    streams_per_key: int = 20
    fetch_seconds: float = 60.0
    rate: float = 200.0  #: requests a second of one key or person; 0: as many as they like
    burst: float = 2.0  #: seconds' worth of them that may come at once

    @property
    def request_bytes(self) -> int:
        """Of one request with files."""
        return self.upload_bytes * 10 + self.parts * 2000


def too_large(limit: int, got: int | None, what: str, field: str | None = None) -> Problem:
    """The problem of a body, file or field beyond its limit."""
    known = f"; it has {got:,}" if got is not None else ""
    return Problem(
        413, "too_large", f"{what} may have at most {limit:,} bytes{known}", field=field, limit=limit, got=got,
    )  # fmt: skip


async def chunks(request: Request, limits: RequestLimits, limit: int, what: str = "a body") -> AsyncIterator[bytes]:
    """The body in pieces; a Problem when it is too large, stops arriving, or never ends."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit, int(length), what)
    stream = request.stream()
    count, began = 0, time.monotonic()
    while True:
        try:
            async with asyncio.timeout(limits.silence):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _build_timeout(f"no byte of the body was received for {limits.silence:g} s") from None
        except ClientDisconnect:
            raise Problem(400, "request_incomplete") from None
        count += len(chunk)
        if count > limit:
            raise too_large(limit, None, what)
        took = time.monotonic() - began
        if took > limits.patience and count < took * limits.slowest:
            raise _build_timeout(f"the body arrives at less than {limits.slowest} bytes per second")
        yield chunk


def _build_timeout(detail: str) -> Problem:
    return Problem(408, "request_timeout", detail, headers={"Connection": "close"})


async def body(request: Request, limits: RequestLimits) -> bytes:
    """A small body, whole; a smaller one on routes that are open to everybody."""
    limit = limits.json_bytes if hasattr(request.state, "holder") else limits.open_bytes
    return b"".join([chunk async for chunk in chunks(request, limits, limit)])
