"""The interface between the store and a database of either kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tabellion.engine.job import Job
from tabellion.engine.moves import Numbered, Terms
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement
from tabellion.engine.sql import NOW, Dialect, epoch
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.table import Table
from tabellion.errors import StoreError


class Undone(Exception):  # noqa: N818 - named after what happens to the transaction
    """Rolls back a transaction whose guard returned no row."""


@dataclass(frozen=True, slots=True)
class TrialStatements:
    """Statements to try in a savepoint of their own, and the trials that follow them."""

    name: str
    statements: Sequence[Numbered]
    then: Sequence[TrialStatements] = ()


FetchRows = Callable[..., Awaitable[list[Any]]]  #: runs one statement
#: The rows of each trial's last statement, or the error of the statement that was refused.
Answers = dict[str, list[Any] | StoreError]


class Database(Protocol):
    """One database: plain statements, the moves, the catalog and wake-ups, every call under a deadline."""

    dialect: Dialect
    pooled: bool | None  #: whether the connection goes through a pooler; None: not known yet

    async def open(self) -> None:
        """Connects, or raises Unreachable."""

    async def close(self) -> None:
        """Closes every connection."""

    async def fetch(self, text: str, *values: Any) -> list[Any]:
        """Runs one statement in a transaction of its own; the caller declares the type of the rows."""

    async def transact(
        self, statements: Iterable[tuple[str, Sequence[Any]]], *, guarded: bool = False
    ) -> list[list[Any]]:
        """Runs several statements in one transaction; `guarded`: none of them if the first returns no row.

        They are taken one by one while it runs; an object that makes them may be iterated more than once.
        """

    async def try_out(self, queue: Queue | None, lock: Numbered, trials: Sequence[TrialStatements]) -> Answers:
        """Tries statements on a row and rolls everything back; no answers if `lock` returns no row.

        `queue` is the one that the row is ready in; None: it may be ready in any of its table.
        """

    async def add_many(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Inserts rows as fast as the database can, and wakes listeners."""

    async def wake(self) -> None:
        """Wakes listeners."""

    async def listen(self, ring: Callable[[str], None], pause: float) -> None:
        """Calls `ring` with each wake-up's payload until cancelled; returns at once where wake-ups are not possible."""

    async def claim(self, bound: Bound, n: int, worker: str, limited: bool, terms: Terms | None = None) -> list[Job]:
        """Claims up to `n` rows."""

    async def amend(self, bound: Bound, job: Job, statements: Sequence[Numbered]) -> list[list[Any]] | None:
        """Renews one claim and runs statements with it, guarded; None: the claim was lost."""

    async def settle(self, bound: Bound, batch: Sequence[Settlement]) -> dict[str, str]:
        """Settles jobs of one outcome; returns the outcome of each key. A missing key's claim is not ours any more."""

    async def renew(self, bound: Bound, jobs: Sequence[Job]) -> dict[str, bool]:
        """Extends leases; returns whether each claim holds. A missing key's claim is not ours any more."""

    async def renew_mirrors(self, bound: Bound, jobs: Sequence[Job]) -> None:
        """Renews the times in the rows of claims that still hold."""

    async def table(self, name: str) -> Table | None:
        """A table as the catalog describes it."""


async def read_clock(database: Database) -> float:
    """The database's clock, in seconds since 1970."""
    rows = await database.fetch(f"SELECT {epoch(NOW, database.dialect)} AS now")
    return float(rows[0]["now"])
