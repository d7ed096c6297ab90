"""Event streams: how many are open, and that they end with the right to hear them."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.requests import Request

from tabellion.accounts.roles import Role
from tabellion.errors import StoreError
from tabellion.web.limits import RequestLimits
from tabellion.web.problems import Problem

AGAIN = 15.0  #: seconds after which whoever listens is asked for key or session again


class Streams:
    """The streams of this process."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    def check(self, holder: str) -> None:
        """Refuses one stream too many."""
        for count, most, whose in (
            (self._open.total(), self._limits.streams, "here"),
            (self._open[holder], self._limits.streams_per_key, "with this key"),
        ):
            if count >= most:
                raise Problem(
                    429, "too_many_streams", f"{most} event streams are open {whose}", limit=most,
                    fix="close one, or watch all documents in one stream", headers={"Retry-After": "30"},
                )  # fmt: skip

    @contextmanager
    def track(self, holder: str) -> Iterator[None]:
        """One stream while it is open."""
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            self._open += Counter()  # drops those at zero


async def while_let_in(request: Request, needed: Role, texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """The texts of a stream for as long as its key or session is good: whoever is signed out hears no more."""
    asked = time.monotonic()
    async for text in texts:
        if time.monotonic() - asked > AGAIN:
            try:
                with contextlib.suppress(StoreError):  # nobody can tell now; the stream says that the database is away
                    await request.app.state.auth.enter(request, needed)
            except Problem:
                return
            asked = time.monotonic()
        yield text
