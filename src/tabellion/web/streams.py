"""Event streams: their number is limited, and they end when the key or session does."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tabellion.accounts.roles import Role
from tabellion.errors import StoreError
from tabellion.messages import Message
from tabellion.web.answers import EVENT_STREAM
from tabellion.web.limits import RequestLimits
from tabellion.web.problems import Problem

AGAIN = 15.0  #: seconds after which the key or session of a stream is checked again


class Streams:
    """Counts the open streams of this process."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    def check(self, holder: str) -> None:
        """Raises a Problem if there are too many streams."""
        for count, most, code in (
            (self._open.total(), self._limits.streams, "problem.streams_here"),
            (self._open[holder], self._limits.streams_per_key, "problem.streams_of_key"),
        ):
            if count >= most:
                raise Problem(
                    429, "too_many_streams", Message(code, n=most), limit=most,
                    fix=Message("fix.close_stream"), headers={"Retry-After": "30"},
                )  # fmt: skip

    @contextmanager
    def track(self, holder: str) -> Iterator[None]:
        """Counts one stream while it is open."""
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            self._open += Counter()  # drops those at zero


def stream(request: Request, texts: AsyncIterator[str]) -> Response:
    """The answer that sends these texts as events, while its key or session is valid; raises a Problem if there are
    too many streams."""
    streams: Streams = request.app.state.streams
    streams.check(request.state.holder.id)

    async def send() -> AsyncIterator[str]:
        with streams.track(request.state.holder.id):
            yield "retry: 2000\n\n"
            async for text in while_let_in(request, Role.VIEWER, texts):
                yield text

    return StreamingResponse(send(), headers={"X-Accel-Buffering": "no"}, media_type=EVENT_STREAM)


async def while_let_in(request: Request, needed: Role, texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """The texts of a stream as long as its key or session is valid."""
    checked_at = time.monotonic()
    async for text in texts:
        if time.monotonic() - checked_at > AGAIN:
            try:
                with contextlib.suppress(StoreError):  # it cannot be checked now; the stream reports that itself
                    await request.app.state.auth.enter(request, needed)
            except Problem:
                return
            checked_at = time.monotonic()
        yield text
