"""Responses of every kind: whole, in pieces, cut off, dripping, or none at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

DRIP = 0.2  # seconds between two bytes
FILL = b"x" * (1024 * 1024)
MARK = "<<huge>>"  # where a huge reply's text goes

PAGE = (
    "<!DOCTYPE html>\n<html><head><title>{status}</title></head>\n"
    "<body><h1>{status}</h1><p>The server had a problem. Please try again in 30 seconds.</p></body></html>\n"
)


class ErrorResponse(Exception):  # noqa: N818 - a verdict
    """A request that gets an error, already in its protocol's format."""

    def __init__(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, dict(headers or {})


class Pieces(Response):
    """A body in several pieces, without a known length."""

    def __init__(self, parts: Iterable[bytes], media_type: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(None, 200, headers, media_type)
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the pieces."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Cut(Pieces):
    """Half of a body, then the server closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends half; leaving the body open makes the server close the connection."""
        whole = b"".join(self._parts)
        self.headers["content-length"] = str(len(whole))
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": whole[: len(whole) // 2], "more_body": True})


class Silence(Response):
    """No answer, until the client gives up."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Waits until the client disconnects."""
        while (await receive())["type"] != "http.disconnect":
            pass


class Drip(Response):
    """A byte now and then, until the client gives up: a timeout between two bytes never fires."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the bytes."""
        del self.headers["content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            while not gone.done():
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await asyncio.wait([gone], timeout=DRIP)
        finally:
            gone.cancel()


async def _wait_for_disconnect(receive: Receive) -> Message:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return message


def huge(body: bytes, megabytes: int) -> Iterable[bytes]:
    """A body with a text of this many megabytes at the mark; never whole in memory."""
    head, _, tail = body.partition(MARK.encode())
    yield head
    for _ in range(megabytes):
        yield FILL
    yield tail
