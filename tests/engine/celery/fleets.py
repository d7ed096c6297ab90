"""Fleets of real processes for the conformance suite: the embedded worker, and Celery with each broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tabellion import Store
from tests.brokers import Broker
from tests.cli.running import CLEAN, descendants
from tests.engine.celery.declared import GATES, TABLES
from tests.table_owner import Owner
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
QUEUES = "tests.engine.celery.declared"
PROCESSES = 2


class Fleet:
    """One node on one database, and the owner of its table."""

    def __init__(
        self, url: str, folder: Path, broker: Broker | None, *, declared: str = QUEUES, later: str | None = None,
        settings: str = "",
    ) -> None:  # fmt: skip
        """`later` is the database of a second environment."""
        self.url, self.folder, self.broker = url, folder, broker
        self.owner = Owner(url)
        folder.mkdir(exist_ok=True)
        gates = "\n".join(f"{gate} = {{ {_toml(settings)} }}" for gate, settings in GATES.items())
        (folder / "tabellion.toml").write_text(
            f'queues = "{declared}"\n[environments]\nprod = "{url}"\n'
            + (f'dev = "{later}"\n' if later else "")
            + f"[worker]\ngrace = 1\n{settings}\n[gates]\n{gates}\n"
        )
        self._log = (folder / "log").open("ab")
        self.process = self.start()

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the node."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*CLEAN, "REDIS_URL"))}
        broker = ["--celery"] if self.broker is not None else []
        if self.broker is not None:
            kept["TABELLION_BROKER"] = self.broker.url
        return subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--config", str(self.folder / "tabellion.toml"), "worker", *broker,
             "--processes", str(PROCESSES), *options],
            env=kept | {"PYTHONWARNINGS": "ignore", "PYTHONPATH": str(ROOT)}, cwd=ROOT, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def insert(self, flow: str, count: int = 1, given: str | None = None) -> list[int]:
        """Insert rows of a flow, without telling anyone; return their keys."""
        inserted = self.owner(
            "INSERT INTO flows (flow, size, input) SELECT $1, n, $2 FROM generate_series(1, $3::int) AS n RETURNING id",
            flow, given, count,
        )  # fmt: skip
        return [int(row["id"]) for row in inserted]

    def row(self, key: int) -> dict[str, Any]:
        """The row of this key."""
        return self.owner("SELECT * FROM flows WHERE id = $1", key)[0]

    def await_status(self, key: int, *statuses: str, within: float = 30.0) -> dict[str, Any]:
        """Return the row once it has one of these states."""
        try:
            eventually(lambda: self.row(key)["status"] in statuses, within, every=0.02)
        except AssertionError as error:
            raise AssertionError(f"{self.row(key)}\n{self.log()[-3000:]}") from error
        return self.row(key)

    def attempts(self, key: int, *, released: bool = False) -> list[dict[str, Any]]:
        """The attempts of a row, in order; those that were released only where asked for, as claims ahead may be."""
        return self.owner(
            f"""SELECT queue, n, attempt, outcome, error, note, cost, worker,
  extract(epoch FROM claimed_at)::float8 AS claimed_at, extract(epoch FROM settled_at)::float8 AS settled_at
FROM tabellion_attempts
WHERE key = $1 AND ({released} OR outcome IS DISTINCT FROM 'released') ORDER BY claimed_at""",
            str(key),
        )

    def log(self) -> str:
        """What the node wrote."""
        return (self.folder / "log").read_text()

    def processes(self) -> list[int]:
        """All of its processes."""
        return [self.process.pid, *descendants(self.process.pid)]

    def kill(self) -> None:
        """kill -9 of all of its processes."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def close(self) -> None:
        """End it, whatever its state."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()
        self.owner.close()


def create_tables(url: str) -> None:
    """Create the tables of the flows and the register."""

    async def register() -> None:
        async with Store(url):
            pass

    asyncio.run(register())
    owner = Owner(url)
    try:
        for statement in TABLES:
            owner(statement)
    finally:
        owner.close()


@contextlib.contextmanager
def fleet_of(url: str, folder: Path, broker: Broker | None, **options: Any) -> Iterator[Fleet]:
    """Run a fleet for the duration of a block."""
    fleet = Fleet(url, folder, broker, **options)
    try:
        yield fleet
    finally:
        fleet.close()


def _toml(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
