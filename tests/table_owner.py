"""The owner of a table: plain SQL from outside the engine, and one table that many tests use."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

import asyncpg

from tabellion import Queue

TABLE = {
    "sqlite": """CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'new', size INTEGER,
  result TEXT, error TEXT, worker TEXT, attempts INTEGER NOT NULL DEFAULT 0, started_at TEXT)""",
    "postgresql": """CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'new', size integer,
  result text, error text, worker text, attempts integer NOT NULL DEFAULT 0, started_at timestamptz)""",
}
NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "extract(epoch FROM clock_timestamp())",
}
INDEX = "CREATE INDEX jobs_ready ON jobs (id) WHERE status = 'new'"


def jobs_queue(name: str = "jobs", **options: Any) -> Queue:
    """Return a queue on the table, with a short lease and quick retries."""
    settings: dict[str, Any] = {
        "ready": "new", "running": "running", "done": "done", "failed": "failed",
        "worker": "worker", "error": "error", "attempts": "attempts", "started_at": "started_at",
        "lease": 3.0, "retry_base": 0.02,
    }  # fmt: skip
    return Queue("jobs", name=name, **(settings | options))


class Owner:
    """One connection of the table's owner; for one thread only."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.dialect = url.partition(":")[0]
        self._sqlite: sqlite3.Connection | None = None
        self._postgres: Any = None
        self._loop = asyncio.new_event_loop()

    def __call__(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Run one statement with `$1` placeholders and commit it."""
        if self.dialect == "sqlite":
            if self._sqlite is None:
                self._sqlite = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
            cursor = self._sqlite.execute(statement.replace("$", "?"), values)
            names = [item[0] for item in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        try:
            return self._loop.run_until_complete(self._ask(statement, values))
        except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError):
            if not statement.startswith("SELECT"):
                raise
            return self._loop.run_until_complete(self._ask(statement, values))  # the server was away; reading is safe

    async def _ask(self, statement: str, values: Iterable[Any]) -> list[dict[str, Any]]:
        if self._postgres is None or self._postgres.is_closed():
            self._postgres = await asyncpg.connect(self.url, timeout=30, statement_cache_size=0)
        return [dict(row) for row in await self._postgres.fetch(statement, *values)]

    def create(self, *, index: bool = True) -> None:
        """Create the table."""
        self(TABLE[self.dialect])
        if index:
            self(INDEX)

    def insert(self, *ids: int, status: str = "new") -> None:
        """Insert rows in one statement."""
        marks = ", ".join(f"({int(one)}, '{status}')" for one in ids)
        self(f"INSERT INTO jobs (id, status) VALUES {marks}")

    def row(self, key: int) -> dict[str, Any]:
        """Return one row as it is now."""
        return self("SELECT * FROM jobs WHERE id = $1", key)[0]

    def status(self, key: int) -> str:
        """Return one row's status."""
        return str(self.row(key)["status"])

    def count(self, status: str) -> int:
        """Return how many rows have this status."""
        return int(self("SELECT count(*) AS n FROM jobs WHERE status = $1", status)[0]["n"])

    def attempts(self, key: int | None = None, queue: str = "jobs") -> list[dict[str, Any]]:
        """Return what the register says of a job, or of all, oldest first."""
        with contextlib.suppress(sqlite3.OperationalError, asyncpg.UndefinedTableError):
            return self(
                f"""SELECT * FROM tabellion_attempts WHERE queue = $1 {"" if key is None else "AND key = $2"}
ORDER BY claimed_at, n""",
                *([queue] if key is None else [queue, str(key)]),
            )
        return []

    def outcomes(self, key: int, queue: str = "jobs") -> list[str | None]:
        """Return how each attempt of a job ended; None while it is live."""
        return [attempt["outcome"] for attempt in self.attempts(key, queue)]

    def close(self) -> None:
        """Close the connection."""
        if self._sqlite is not None:
            self._sqlite.close()
        if self._postgres is not None and not self._postgres.is_closed():
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(self._postgres.close(timeout=1))
        self._loop.close()


def seconds(owner: Owner, column: str) -> str:
    """Return SQL for a time of the register as seconds since 1970."""
    return column if owner.dialect == "sqlite" else f"extract(epoch FROM {column})"


@contextlib.contextmanager
def owning(url: str, *, create: bool = True) -> Iterator[Owner]:
    """Connect as the owner of this database for the duration of a block, with the table created."""
    owner = Owner(url)
    try:
        if create:
            owner.create()
        yield owner
    finally:
        owner.close()
