"""Event streams: how many are open, and how they end when the server does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tabellion.web.limits import Limits
from tabellion.web.problems import Problem


class Streams:
    """The streams of this process."""

    def __init__(self, limits: Limits) -> None:
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
    def counted(self, holder: str) -> Iterator[None]:
        """One stream while it is open."""
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            self._open += Counter()  # drops those at zero
