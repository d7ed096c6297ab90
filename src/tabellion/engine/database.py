"""What the store needs of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tabellion.engine.declaration import Bound
from tabellion.engine.job import Job
from tabellion.engine.settlement import Settlement
from tabellion.engine.sql import Dialect
from tabellion.engine.table import Table


class Database(Protocol):
    """One database: plain statements, the moves, the catalog and wake-ups, every call under a deadline."""

    dialect: Dialect
    pooled: bool | None  #: whether a pooler stands between; None until asked

    async def open(self) -> None:
        """Connects, or raises Unreachable."""

    async def close(self) -> None:
        """Lets go of every connection."""

    async def fetch(self, text: str, *values: Any) -> list[dict[str, Any]]:
        """Runs one statement in a transaction of its own."""

    async def transact(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[list[dict[str, Any]]]:
        """Runs several statements in one transaction."""

    async def add_many(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Inserts rows as fast as it goes, and wakes whoever listens."""

    async def wake(self) -> None:
        """Wakes whoever listens."""

    async def listen(self, ring: Callable[[str], None], pause: float) -> None:
        """Calls `ring` at every wake-up, with what was said, until cancelled; returns where there are none."""

    async def claim(self, bound: Bound, n: int, worker: str, limited: bool) -> list[Job]:
        """Claims up to `n` rows."""

    async def settle(self, bound: Bound, batch: Sequence[Settlement]) -> dict[str, str]:
        """Settles jobs that end alike; what became of each key, those missing being someone else's."""

    async def renew(self, bound: Bound, jobs: Sequence[Job]) -> dict[str, bool]:
        """Extends leases; whether each claim holds, those missing being someone else's."""

    async def table(self, name: str) -> Table | None:
        """A table as the catalog describes it."""
