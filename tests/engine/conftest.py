"""A store on each database, and a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from tabellion import Store
from tabellion.engine import failpoints
from tabellion.engine.worker import environment as worker_environment
from tabellion.testing import Clock
from tests.owner import Owner, owning
from tests.pooler import pooler
from tests.servers import Postgres

SCHEMA = "public, work"


class Emptied:
    """One database per kind, emptied for each test: that is several times quicker than making one for each."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._made: dict[str, str] = {}

    def __call__(self, kind: str) -> str:
        """The URL of an empty database of this kind."""
        if kind not in self._made:
            server: Postgres = self._request.getfixturevalue("postgres15" if kind == "postgresql-15" else "postgres18")
            self._made[kind] = server.create_database(f"engine_{len(self._made)}")
        with ThreadPoolExecutor(1) as thread:  # the test's own loop may be running
            thread.submit(asyncio.run, self._empty(self._made[kind])).result()
        return str(self._request.getfixturevalue("pooled_url")) if kind == "pooled" else self._made[kind]

    def direct(self, kind: str) -> str:
        """The database itself, past any pooler."""
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
def emptied(request: pytest.FixtureRequest) -> Emptied:
    """Hands out empty databases."""
    return Emptied(request)


@pytest.fixture(scope="session")
def pooled_url(emptied: Emptied) -> Iterator[str]:
    """A pooler for the whole run."""
    with pooler(emptied.direct("pooled")) as url:
        yield url


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until the test moves it."""
    return Clock()


def store_on(kind: str, emptied: Emptied, folder: Path, clock: Clock | None) -> Store:
    """A store on an empty database of this kind."""
    return Store(f"sqlite:///{folder}/work.db" if kind == "sqlite" else emptied(kind), clock=clock)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, emptied: Emptied, tmp_path: Path, clock: Clock) -> Store:
    """A store on an empty SQLite file, then on an empty PostgreSQL 18 database, by the test's clock."""
    return store_on(request.param, emptied, tmp_path, clock)


@pytest.fixture
def pg_store(emptied: Emptied, clock: Clock) -> Store:
    """A store on an empty PostgreSQL 18 database, by the test's clock."""
    return Store(emptied("postgresql"), clock=clock)


@pytest.fixture
def sqlite_store(tmp_path: Path, clock: Clock) -> Store:
    """A store on an empty SQLite file, by the test's clock."""
    return Store(f"sqlite:///{tmp_path}/work.db", clock=clock)


@pytest.fixture
def arm() -> Iterator[Callable[[str], None]]:
    """Arms failpoints for the length of the test."""
    yield failpoints.arm
    failpoints.arm("")


@pytest.fixture
def owner(url: str) -> Iterator[Owner]:
    """The table with its owner."""
    with owning(url) as owner:
        yield owner


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps and looks at the controls several times a second."""
    monkeypatch.setattr(worker_environment, "SWEEP", 0.2)
    monkeypatch.setattr(worker_environment, "CONTROLS", 0.1)


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Owner]:
    """A second environment, on SQLite."""
    with owning(f"sqlite:///{tmp_path}/second.db") as owner:
        yield owner
