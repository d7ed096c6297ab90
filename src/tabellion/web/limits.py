"""Limits of requests: bodies are counted while they arrive, and rejected when they stall."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from starlette.requests import ClientDisconnect, Request

from tabellion.messages import Message, quote_value
from tabellion.web.problems import Problem

LimitSubject = Literal["body", "request", "file", "form_field"]  #: what a limit is of
HEADER_BYTES = 32_768  #: of a request before its body, including the request line


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of one request."""

    upload_bytes: int = 100_000_000  #: of one file
    files: int = 100  #: in one request
    parts: int = 1000  #: of one form, files and fields together
    field_bytes: int = 1_000_000  #: of one field of a form
    json_bytes: int = 1_000_000
    open_bytes: int = 10_000  #: of a JSON body from a caller who is not signed in
    silence: float = 30.0  #: seconds without a byte
    slowest: int = 500  #: bytes per second that a body must reach once it has taken `patience` seconds
    patience: float = 60.0
    wait: float = 60.0  #: the largest `?wait=`, in seconds
    streams: int = 200  #: event streams in this process
    streams_per_key: int = 20
    fetch_seconds: float = 60.0
    rate: float = 200.0  #: requests per second of one key or person; 0: no limit
    burst: float = 2.0  #: seconds' worth of them that may arrive at once

    @property
    def request_bytes(self) -> int:
        """The limit of a request with files."""
        return self.upload_bytes * 10 + self.parts * 2000


def too_large(limit: int, got: int | None, subject: LimitSubject, field: str | None = None) -> Problem:
    """The problem of a body, file or field beyond its limit."""
    detail = Message(f"problem.{subject}_bytes", n=limit)
    if got is not None:
        detail = Message("problem.it_has", detail=detail, n=got)
    return Problem(413, "too_large", detail, field=field, limit=limit, got=got)


async def chunks(
    request: Request, limits: RequestLimits, limit: int, subject: LimitSubject = "body"
) -> AsyncIterator[bytes]:
    """The body in chunks; raises a Problem if it is compressed, too large, stalls, or arrives too slowly."""
    if encoding := request.headers.get("content-encoding", "").lower().replace("identity", ""):
        raise Problem(
            415, "media_unsupported", Message("problem.body_encoding", value=quote_value(encoding[:100])),
            fix=Message("fix.send_uncompressed"), headers={"Accept-Encoding": "identity"},
        )  # fmt: skip
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit, int(length), subject)
    stream = request.stream()
    count, started_at = 0, time.monotonic()
    while True:
        try:
            async with asyncio.timeout(limits.silence):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _build_timeout(Message("problem.body_silent", n=limits.silence)) from None
        except ClientDisconnect:
            raise Problem(400, "request_incomplete") from None
        count += len(chunk)
        if count > limit:
            raise too_large(limit, None, subject)
        seconds = time.monotonic() - started_at
        if seconds > limits.patience and count < seconds * limits.slowest:
            raise _build_timeout(Message("problem.body_slow", n=limits.slowest))
        yield chunk


def _build_timeout(detail: str) -> Problem:
    return Problem(408, "request_timeout", detail, headers={"Connection": "close"})


async def body(request: Request, limits: RequestLimits) -> bytes:
    """A complete small body; the limit is lower on routes without sign-in."""
    limit = limits.json_bytes if hasattr(request.state, "holder") else limits.open_bytes
    return b"".join([chunk async for chunk in chunks(request, limits, limit)])
