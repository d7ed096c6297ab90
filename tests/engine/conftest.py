"""A store on each database, and a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from tabellion import Store
from tabellion.engine.worker import environment as worker_environment
from tabellion.testing import Clock
from tests.pooler import pooler
from tests.servers import Postgres
from tests.table_owner import Owner, owning

SCHEMA = "public, work"


class EmptyDatabases:
    """One database per kind, emptied for each test: several times faster than creating one for each."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._made: dict[str, str] = {}

    def __call__(self, kind: str) -> str:
        """Return the URL of an empty database of this kind."""
        if kind not in self._made:
            server: Postgres = self._request.getfixturevalue("postgres15" if kind == "postgresql-15" else "postgres18")
            self._made[kind] = server.create_database(f"engine_{len(self._made)}")
        with ThreadPoolExecutor(1) as thread:  # the test's own loop may be running
            thread.submit(asyncio.run, self._empty(self._made[kind])).result()
        return str(self._request.getfixturevalue("pooled_url")) if kind == "pooled" else self._made[kind]

    def direct(self, kind: str) -> str:
        """Return the URL of the database itself, without a pooler in front."""
        return self._made[kind]

    async def _empty(self, url: str) -> None:
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            await connection.execute(
                f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA public"
            )
        finally:
            await connection.close()


@pytest.fixture(scope="session")
def empty_database(request: pytest.FixtureRequest) -> EmptyDatabases:
    """Return URLs of empty databases."""
    return EmptyDatabases(request)


@pytest.fixture(scope="session")
def pooled_url(empty_database: EmptyDatabases) -> Iterator[str]:
    """The URL of a pooler that serves the whole run."""
    with pooler(empty_database.direct("pooled")) as url:
        yield url


@pytest.fixture
def clock() -> Clock:
    """A clock that only the test moves."""
    return Clock()


def store_on(kind: str, empty_database: EmptyDatabases, folder: Path, clock: Clock | None) -> Store:
    """A store on an empty database of this kind."""
    return Store(f"sqlite:///{folder}/work.db" if kind == "sqlite" else empty_database(kind), clock=clock)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on an empty SQLite file, then on an empty PostgreSQL 18 database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


@pytest.fixture
def pg_store(empty_database: EmptyDatabases, clock: Clock) -> Store:
    """A store on an empty PostgreSQL 18 database, using the test's clock."""
    return Store(empty_database("postgresql"), clock=clock)


@pytest.fixture
def sqlite_store(tmp_path: Path, clock: Clock) -> Store:
    """A store on an empty SQLite file, using the test's clock."""
    return Store(f"sqlite:///{tmp_path}/work.db", clock=clock)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep and check the controls several times a second."""
    monkeypatch.setattr(worker_environment, "SWEEP", 0.2)
    monkeypatch.setattr(worker_environment, "CONTROLS", 0.1)


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Owner]:
    """A second environment, on SQLite."""
    with owning(f"sqlite:///{tmp_path}/second.db") as owner:
        yield owner
