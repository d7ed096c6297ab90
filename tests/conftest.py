"""Real servers for every test: SQLite files, PostgreSQL 18 and 15, a pooler, and buckets of an S3 server."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import gc
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn.server
from argon2 import PasswordHasher
from xdist.scheduler import LoadFileScheduling

# Hundreds of tests start processes of ours: where nothing compiled is kept, each of them compiles every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Workers of the same name may run once on a machine. Processes that run tests side by side use the same few names, so
# each has a folder of its own, which the user that runs PostgreSQL may enter.
IS_ONE_OF_SEVERAL = "PYTEST_XDIST_WORKER" in os.environ
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would every program that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MEMORY = Path("/dev/shm")  #: a file system without a disk, on Linux
ENOUGH = 4 << 30  #: bytes free in it
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # syncing to a disk takes much of a test's time
if IS_ONE_OF_SEVERAL:
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="tabellion-test-")
    Path(tempfile.tempdir).chmod(0o755)

from tabellion.accounts import passwords  # noqa: E402 - compiled after this is said
from tabellion.engine import failpoints  # noqa: E402
from tabellion.engine.postgres.database import PostgreSQL  # noqa: E402
from tabellion.engine.worker import environment, worker  # noqa: E402
from tabellion.monitor import verify  # noqa: E402
from tabellion.pipelines.documents import extraction, review_reasons  # noqa: E402
from tabellion.reading.types import typefile  # noqa: E402
from tabellion.storage.lake import Lake  # noqa: E402
from tests import forking  # noqa: E402
from tests.bucket import BUCKET, VARIABLES, CannotRun, seaweed  # noqa: E402
from tests.databases import Databases  # noqa: E402
from tests.pipelines.documents.receiver import Receiver, receiving  # noqa: E402
from tests.pooler import pooler  # noqa: E402
from tests.roles import temporary_role  # noqa: E402
from tests.servers import PORTS, Postgres, debian_binaries, postgres  # noqa: E402
from tests.table_owner import Owner, owning  # noqa: E402

pytest_plugins = ["tests.cli.fixtures", "tests.web.fixtures"]
_numbers = itertools.count(1)
HERE = Path(__file__).parent
#: Folders of tests, the slowest first; files that keep the processors busy and files that wait take turns.
BUSY = ("browser", "flows", "test_extras.py", "pipelines", "cli", "web", "test_patterns.py")
WAITING = ("faults", "engine")
#: Variants of a test that differ in these only: one of them runs, chosen by the test's name, unless
#: TABELLION_EVERY_VARIANT is set. Tests beside each other have different ones, so that each database, language, colour
#: scheme and size is met in every folder.
ALIKE = frozenset({"url", "locale", "language", "scheme", "size", "shape"})
BOTH_DATABASES = ("engine", "faults")  #: folders whose tests are about the databases: they run on both
RARE_SERVERS = ("postgresql-15", "pooled")  #: beside SQLite and PostgreSQL 18, one of these
EVERY_VARIANT = bool(os.environ.get("TABELLION_EVERY_VARIANT"))
OPEN = PostgreSQL.open
FULL_EFFORT = {"_hasher": passwords._hasher, "NOTHING": passwords.NOTHING}


class PromptLoop(ModuleType):
    """asyncio for uvicorn, which checks ten times a second whether to stop, and sleeps before it does."""

    def __getattr__(self, name: str) -> Any:
        """Everything but sleeping is asyncio's."""
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not for long."""
        await asyncio.sleep(min(seconds, 0.01))


async def open_known(database: PostgreSQL) -> None:
    """Open a database; our own servers have no pooler in front, and knowing that saves a connection."""
    with contextlib.suppress(ValueError):  # some tests are about addresses that make no sense
        if database.pooled is None and urlsplit(database.url).port in PORTS:
            database.pooled = False
    await OPEN(database)


@pytest.fixture(scope="session", autouse=True)
def little_effort() -> Iterator[None]:
    """Hash passwords cheaply, and poll more often than in production."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", lambda: cheap)
        patch.setattr(passwords, "NOTHING", passwords.NOTHING.replace("m=65536,t=3", "m=8,t=1"))
        patch.setattr(worker, "IDLE_LOOK", 0.02)
        patch.setattr(environment, "SWEEP", 0.5)
        patch.setattr(environment, "CONTROLS", 0.3)
        patch.setattr(extraction, "PAUSE", 0.1)
        patch.setattr(review_reasons, "is_sampled", forking.is_sampled)
        patch.setattr(uvicorn.server, "asyncio", PromptLoop("asyncio"))
        patch.setattr(PostgreSQL, "open", open_known)
        patch.setattr(
            typefile, "compile_type", functools.cache(typefile.compile_type)
        )  # the same few types, for every test
        yield


@pytest.fixture(scope="session", autouse=True)
def forked() -> Iterator[None]:
    """Start our own programs by forking a process that has imported everything, where the system can."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(subprocess, "Popen", forking.Popen)
            forking.READERS.open()
        yield
    forking.SERVER.close()
    forking.READERS.close()


@pytest.fixture
def full_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed as in production."""
    for name, value in FULL_EFFORT.items():
        monkeypatch.setattr(passwords, name, value)


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


@pytest.fixture(scope="session")
def databases18(postgres18: Postgres) -> Iterator[Databases]:
    """Empty databases of the PostgreSQL 18 server."""
    databases = Databases(postgres18)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def databases15(postgres15: Postgres) -> Iterator[Databases]:
    """Empty databases of the PostgreSQL 15 server."""
    databases = Databases(postgres15)
    yield databases
    databases.close()


@pytest.fixture
def pg_url(databases18: Databases) -> str:
    """An empty PostgreSQL 18 database for this test."""
    return databases18.next()


@pytest.fixture
def role(postgres18: Postgres) -> Iterator[str]:
    """A role of the PostgreSQL 18 server that may connect and nothing else."""
    with temporary_role(postgres18, f"guest_{next(_numbers)}") as name:
        yield name


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An empty SQLite file for this test."""
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database for this test, once on SQLite and once on PostgreSQL 18."""
    name = {"sqlite": "sqlite_url", "postgresql": "pg_url"}[request.param]
    return str(request.getfixturevalue(name))


@pytest.fixture(params=["sqlite", "postgresql-18", "postgresql-15", "pooled"])
def any_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database for this test on everything we support, a transaction pooler included."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("sqlite_url"))
    elif request.param == "postgresql-18":
        yield str(request.getfixturevalue("pg_url"))
    elif request.param == "postgresql-15":
        databases: Databases = request.getfixturevalue("databases15")
        yield databases.next()
    else:
        with pooler(str(request.getfixturevalue("pg_url"))) as pooled:
            yield pooled


@pytest.fixture
def owner(url: str) -> Iterator[Owner]:
    """The table that many tests use, with its owner."""
    with owning(url) as owner:
        yield owner


@pytest.fixture
def arm() -> Iterator[Callable[[str], None]]:
    """Arm failpoints for the duration of the test."""
    yield failpoints.arm
    failpoints.arm("")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verification look again without a pause."""
    monkeypatch.setattr(verify, "PAUSE", 0.0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server that accepts webhooks."""
    with receiving() as one:
        yield one


@pytest.fixture(autouse=True)
def restored_log() -> Iterator[None]:
    """Restore the configuration of tabellion's log: commands that run in this process set it up."""
    logger = logging.getLogger("tabellion")
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    yield
    logger.propagate, logger.handlers = propagate, handlers
    logger.setLevel(level)


def choose_variants(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests without the variants that are left out."""
    groups: dict[object, list[pytest.Item]] = collections.defaultdict(list)
    for item in items:
        key: list[object] = [item.nodeid.partition("[")[0]]
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            alike = ALIKE - {"url"} if item.path.relative_to(HERE).parts[0] in BOTH_DATABASES else ALIKE
            for name, place in item.callspec.indices.items():
                is_rare = item.callspec.params[name] in RARE_SERVERS
                key += [] if name in alike else [name, "rare" if is_rare else place]
        groups[tuple(key)].append(item)
    chosen = {id(group[zlib.crc32(repr(key).encode()) % len(group)]) for key, group in groups.items()}
    return [item for item in items if id(item) in chosen]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the slowest: the last files are short ones, and no CPU waits for another."""
    if not EVERY_VARIANT and len({item.path for item in items}) > 1:  # one file that somebody asks for runs whole
        collected, items[:] = list(items), choose_variants(items)
        chosen = set(items)
        config.hook.pytest_deselected(items=[item for item in collected if item not in chosen])
    busy: list[tuple[int, list[pytest.Item]]] = []
    waiting: list[tuple[int, list[pytest.Item]]] = []
    short: list[tuple[int, list[pytest.Item]]] = []
    for path, group in itertools.groupby(items, key=lambda item: item.path):
        first = path.relative_to(HERE).parts[0]
        kind, order = (busy, BUSY) if first in BUSY else (waiting, WAITING) if first in WAITING else (short, (first,))
        kind.append((order.index(first), list(group)))
    busy.sort(key=lambda one: one[0])
    waiting.sort(key=lambda one: one[0])
    every = len(busy) // (len(waiting) + 1) + 1
    for place, one in enumerate(waiting):
        busy.insert((place + 1) * every + place, one)
    items[:] = [item for _, group in (*busy, *short) for item in group]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later garbage collection: it stays until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Runs the tests of a file in one process, and those of the browser's folder too: two browsers would be slow."""

    def _split_scope(self, nodeid: str) -> str:
        return "browser" if nodeid.startswith("tests/browser/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Distribute by file, whatever `--dist` says."""
    return ByFile(config, log)


class FailureReporter:
    """Prints each failure at once with its details: the end of a run may be many minutes away."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)  # after the letter that the run shows for it
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a test that has failed."""
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED at {report.when}: {report.nodeid}", red=True)
            self._terminal.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)  # there is nothing to show a run with before
def pytest_configure(config: pytest.Config) -> None:
    """Print failures in the main process only, not in the xdist workers."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureReporter(terminal))


def pytest_unconfigure() -> None:
    """Removes the folder for temporary files that is this process's own."""
    gc.unfreeze()  # libraries report what is never collected as leaked
    if IS_ONE_OF_SEVERAL and tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report skipped browser tests at the end, where people look."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", []))
    reasons = {str(why[2]) for why in skipped if isinstance(why, tuple)}
    if sentence := next((one for one in reasons if "browser tests are skipped" in one), None):
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
    """A prefix for this test in a bucket, with the variables that lead to it."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    return f"s3://{BUCKET}/test{next(_numbers)}"


@pytest.fixture(params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """An empty lake for this test, once in a folder and once in a bucket."""
    if request.param == "folder":
        return Lake(tmp_path / "lake")
    return Lake(str(request.getfixturevalue("s3_url")))
