"""Real servers for every test: SQLite files, PostgreSQL 18 and 15, a pooler, and buckets of an S3 server."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.storage.lake import Lake
from tests.bucket import BUCKET, VARIABLES, CannotRun, seaweed
from tests.pooler import pooler
from tests.servers import Postgres, debian_binaries, postgres

pytest_plugins = ["tests.cli.fixtures", "tests.web.fixtures"]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres18() -> Iterator[Postgres]:
    """A PostgreSQL 18 server for the whole run."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres15() -> Iterator[Postgres]:
    """A PostgreSQL 15 server for the whole run, where the system has its programs."""
    binaries = debian_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL 15 is not on this machine (TABELLION_TEST_PG15 names its bin folder)")
    with postgres(binaries=binaries) as server:
        yield server


@pytest.fixture
def pg_url(postgres18: Postgres) -> str:
    """An empty PostgreSQL 18 database of this test's own."""
    return postgres18.create_database(f"test{next(_numbers)}")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An empty SQLite file of this test's own."""
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database of this test's own, once on SQLite and once on PostgreSQL 18."""
    name = {"sqlite": "sqlite_url", "postgresql": "pg_url"}[request.param]
    return str(request.getfixturevalue(name))


@pytest.fixture(params=["sqlite", "postgresql-18", "postgresql-15", "pooled"])
def any_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database of this test's own on everything we support, a transaction pooler included."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("sqlite_url"))
    elif request.param == "postgresql-18":
        yield str(request.getfixturevalue("pg_url"))
    elif request.param == "postgresql-15":
        server: Postgres = request.getfixturevalue("postgres15")
        yield server.create_database(f"test{next(_numbers)}")
    else:
        with pooler(str(request.getfixturevalue("pg_url"))) as pooled:
            yield pooled


@pytest.fixture
def restored_log() -> Iterator[None]:
    """Puts the set-up of tabellion's log back as it was."""
    logger = logging.getLogger("tabellion")
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    yield
    logger.propagate, logger.handlers = propagate, handlers
    logger.setLevel(level)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells of skipped browser tests at the end, where people look, and not among the dots."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", []))
    said = {str(why[2]) for why in skipped if isinstance(why, tuple)}
    if sentence := next((one for one in said if "browser tests are skipped" in one), None):
        terminalreporter.write_line(sentence.removeprefix("Skipped: "), yellow=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """A real S3 server for the whole run, where it can run."""
    try:
        with seaweed() as url:
            yield url
    except CannotRun as why:
        pytest.skip(str(why))


@pytest.fixture
def s3_url(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of this test's own in a bucket, with the variables that lead to it."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    return f"s3://{BUCKET}/test{next(_numbers)}"


@pytest.fixture(params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """An empty lake of this test's own, once in a folder and once in a bucket."""
    if request.param == "folder":
        return Lake(tmp_path / "lake")
    return Lake(str(request.getfixturevalue("s3_url")))
