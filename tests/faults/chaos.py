"""Kills, freezes and crashes everything, then proves that nothing was lost and nothing accepted twice.

    python -m tests.faults.chaos --jobs 100000 --kills 100 [--seed 7] [--database sqlite|postgresql|both] [--workers 4]

Real worker processes on a real table; a nemesis that does kill -9 at random and at named failpoints, stops workers past
their lease and continues them, and crashes PostgreSQL; an owner who inserts meanwhile; and a checker that compares
the register with the workers' own logs. Ends with 1 if any promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from tabellion import Store
from tabellion.engine.worker.temp_folders import Folders
from tabellion.monitor.verify import Violation, verify
from tabellion.monitor.view import QueueView
from tests.faults import checker
from tests.faults.chaos_worker import GRACE, PERMANENT, Orders, Progress, spawn
from tests.faults.checker import Attempt, Logs, Report, Row, Terms
from tests.faults.mutants import MUTANTS
from tests.servers import Postgres, postgres
from tests.table_owner import INDEX, TABLE, jobs_queue

LEASE, SWEEP, CONCURRENCY, MAX_ATTEMPTS = 1.5, 0.3, 50, 6
FROZEN = LEASE * 1.6 + SWEEP  # how long a zombie is stopped
RECOVERY = 3.0  # seconds after the database is back in which workers find out
STUCK = 60.0
LONGEST_END = 30.0  # seconds after SIGTERM in which a worker must have ended
CHUNK = 2000
PLANNED = 0.95  # everything planned has happened when this share of the jobs has been run
PLACES = (
    "claim.pre_commit", "claim.post_commit", "handler.pre_call", "handler.post_call", "settle.pre_commit",
    "settle.post_commit",
)  # fmt: skip
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, sqlite3.OperationalError)
LOSSES = ("claim.drop_ack", "settle.drop_ack", "renew.drop")


@dataclass
class Child:
    """One worker process."""

    pid: int
    armed: str
    frozen_until: float | None = None
    frozen_at: float = 0.0
    spared_until: float = 0.0  #: a zombie gets a moment to say what it has to say


@dataclass
class Tally:
    """What the nemesis did."""

    kills: int = 0
    at_failpoints: int = 0
    zombies: int = 0
    crashes: int = 0
    seconds: float = 0.0
    outages: list[tuple[float, float]] = field(default_factory=list)
    exits: Counter[int] = field(default_factory=Counter)
    leaked: int = 0
    hung: int = 0  #: had to be killed at the end
    stuck: str = ""


class Table:
    """The owner's side: inserts in explicit transactions and reads everything at the end.

    No connection is open when a worker is forked: SQLite's locks do not survive a fork.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.sqlite = url.startswith("sqlite")
        self._path = url.removeprefix("sqlite:///")
        self.inserted = 0

    def prepare(self, *more: str) -> None:
        """Create the table and the register."""
        dialect = "sqlite" if self.sqlite else "postgresql"
        self._execute("PRAGMA journal_mode = WAL" if self.sqlite else "SELECT 1")
        self._execute(TABLE[dialect])
        self._execute(INDEX)

        async def register() -> None:
            async with Store(self.url):
                pass

        asyncio.run(register())
        for statement in more:
            self._execute(statement)

    def insert(self, count: int) -> None:
        """Add rows; when the database cannot be reached, find out the next time whether they were added."""
        first = self.inserted + 1
        marks = ", ".join(f"({key})" for key in range(first, first + count))
        with contextlib.suppress(*AWAY):
            if not self._ask(f"SELECT 1 FROM jobs WHERE id = {first}"):
                self._execute(f"INSERT INTO jobs (id) VALUES {marks}")
            self.inserted += count

    def verify(self) -> list[Violation]:
        """Return what `tabellion verify` finds, which knows nothing of this run."""

        async def look() -> list[Violation]:
            async with Store(self.url, read_only=True) as store:
                return await verify(store, [QueueView(jobs_queue(max_attempts=MAX_ATTEMPTS))])

        return asyncio.run(look())

    def open_rows(self) -> int:
        """Return how many rows have not ended."""
        with contextlib.suppress(*AWAY):
            return int(self._ask("SELECT count(*) FROM jobs WHERE status NOT IN ('done', 'failed')")[0][0])
        return -1

    def attempts(self) -> Iterator[Attempt]:
        """Return the register, by key and claim."""
        stamp = "{}" if self.sqlite else "extract(epoch FROM {})::float8"
        times = {name: stamp.format(name) for name in ("claimed_at", "lease_until", "settled_at", "retry_at")}
        number = "CAST(key AS INTEGER)" if self.sqlite else "key::bigint"
        query = f"""SELECT {number}, n, attempt, worker, {times["claimed_at"]}, {times["lease_until"]},
  {times["settled_at"]}, outcome, {times["retry_at"]}, error FROM tabellion_attempts ORDER BY 1, n"""
        return (Attempt(*row) for row in self._ask(query))

    def rows(self) -> dict[int, Row]:
        """Return the table at the end."""
        return {row[0]: Row(*row[1:]) for row in self._ask("SELECT id, status, result, error FROM jobs")}

    def _execute(self, statement: str) -> None:
        self._ask(statement)

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        if self.sqlite:
            # Not for long: whoever holds the file may be frozen, and only we can thaw it.
            with contextlib.closing(sqlite3.connect(self._path, timeout=0.2, isolation_level=None)) as connection:
                return connection.execute(statement).fetchall()

        async def ask() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.url, timeout=10)
            try:
                return [tuple(row) for row in await connection.fetch(statement)]
            finally:
                connection.terminate()

        return asyncio.run(ask())


class Nemesis:
    """Keeps workers running, and kills them."""

    def __init__(self, orders: Orders, table: Table, *, jobs: int, kills: int, workers: int, seed: int,
                 server: Postgres | None) -> None:  # fmt: skip
        self.orders, self.table, self.server = orders, table, server
        self.jobs, self.kills = jobs, kills
        self.chance = random.Random(seed)
        self.progress = Progress(workers)
        self.tally = Tally()
        self.zombies = max(3, kills // 7)
        self._seen = [0] * workers
        self.crashes = max(1, kills // 33) if server is not None else 0
        self.children: dict[int, Child] = {}
        for slot in range(workers):
            self.children[slot] = self._start(slot)

    def run(self, limit: float) -> None:
        """Run until every row has ended and everything planned was done."""
        began = time.monotonic()
        moved, moved_at, asked_at = -1, began, began
        while True:
            time.sleep(0.01)
            self._reap()
            self._thaw()
            done = self.progress.total
            self._insert_rows(done)
            share = min(1.0, done / self.jobs / PLANNED)
            if self._do_next_fault(share):
                continue
            now = time.monotonic()
            if done != moved:
                moved, moved_at = done, now
            if now - began > limit:
                self.tally.stuck = f"not over after {limit:g} s with {self.table.open_rows()} rows open"
                break
            if now - moved_at > STUCK:
                self.tally.stuck = f"nothing moved for {STUCK:g} s with {self.table.open_rows()} rows open"
                break
            if self.table.inserted == self.jobs and done >= 0.95 * self.jobs and now - asked_at > 0.3:
                asked_at = now
                if self.table.open_rows() == 0:
                    break
        self.tally.seconds = time.monotonic() - began
        self._end()

    def _do_next_fault(self, share: float) -> bool:
        """Do the next planned fault, spread evenly over the run."""
        tally = self.tally
        if tally.crashes < round(self.crashes * share):
            self._crash_server()
        elif tally.zombies < round(self.zombies * share) and len(self._frozen()) < max(1, len(self.children) // 2):
            self._freeze()
            return False
        elif tally.kills < round(self.kills * share):
            self._kill()
        else:
            return False
        return True

    def _insert_rows(self, done: int) -> None:
        """Insert rows while all this happens."""
        left = self.jobs - self.table.inserted
        if left <= 0 or self.table.inserted - done > 3 * CHUNK:
            return
        self.table.insert(min(left, CHUNK))

    def _start(self, slot: int) -> Child:
        armed = ""
        stopping = any(":stop" in child.armed for child in self.children.values()) or bool(self._frozen())
        is_first = not self.children  # so that every run has a zombie with results in its hands
        if self.tally.zombies < self.zombies and not stopping and (is_first or self.chance.random() < 0.25):
            armed = f"handler.post_call:stop@{self.chance.randint(1, 200)}"
        elif self.tally.kills < self.kills and self.chance.random() < 0.5:
            armed = f"{self.chance.choice(PLACES)}:kill@{self.chance.randint(1, 40)}"
        elif self.chance.random() < 0.3:
            armed = f"{self.chance.choice(LOSSES)}:raise@{self.chance.randint(1, 20)}"
        pid = spawn(self.orders, self.progress, slot, self.chance.getrandbits(32), armed)
        return Child(pid, armed)

    def _living(self) -> list[Child]:
        now = time.monotonic()
        return [one for one in self.children.values() if one.frozen_until is None and now > one.spared_until]

    def _frozen(self) -> list[Child]:
        return [child for child in self.children.values() if child.frozen_until is not None]

    def _kill(self) -> None:
        """kill -9 at a random moment; most kills at failpoints happen by themselves."""
        living = self._living()
        if len(living) > 1:  # somebody must be there to sweep
            child = self.chance.choice(living)
            child.armed = ""
            os.kill(child.pid, signal.SIGKILL)
            self._reap(block=child.pid)

    def _freeze(self) -> None:
        """Stop a worker with running jobs: a zombie without jobs would prove nothing."""
        counts = [self.progress.of(slot) for slot in self.children]
        before, self._seen = self._seen, counts
        busy = [
            child
            for slot, child in self.children.items()
            if child.frozen_until is None and 0 < counts[slot] - before[slot] < 100
        ]
        if busy:
            child = self.chance.choice(busy)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGSTOP)
                self._is_frozen(child)

    def _is_frozen(self, child: Child) -> None:
        child.frozen_at, child.frozen_until = time.time(), time.monotonic() + FROZEN
        self.tally.zombies += 1

    def _thaw(self, *, everyone: bool = False) -> None:
        for child in self._frozen():
            if everyone or time.monotonic() > (child.frozen_until or 0):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGCONT)
                if self.table.sqlite:
                    # It may have been stopped with the file's lock in its hands.
                    self.tally.outages.append((child.frozen_at, time.time() + 0.5))
                child.frozen_until, child.spared_until = None, time.monotonic() + 0.3
                if ":stop" in child.armed:
                    child.armed = ""  # it has had its stop; a kill that is still to come stays expected

    def _crash_server(self) -> None:
        assert self.server is not None
        began = time.time()
        self.server.crash()
        time.sleep(self.chance.random() * 0.5)
        self.server.start()
        self.tally.outages.append((began, time.time() + RECOVERY))
        self.tally.crashes += 1

    def _reap(self, block: int | None = None) -> None:
        for slot, child in list(self.children.items()):
            pid, status = os.waitpid(child.pid, 0 if child.pid == block else os.WNOHANG | os.WUNTRACED)
            if not pid:
                continue
            if os.WIFSTOPPED(status):
                if child.frozen_until is None:
                    self._is_frozen(child)  # it stopped itself at a failpoint, with jobs in its hands
                continue
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGKILL:
                self.tally.kills += 1
                self.tally.at_failpoints += ":kill" in child.armed
            else:
                self.tally.exits[code] += 1
            self.children[slot] = self._start(slot)

    def _end(self) -> None:
        """Stop everything with SIGTERM, cleanly."""
        if self._frozen():
            self._thaw(everyone=True)
            time.sleep(0.3)
        for child in self.children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL if self.tally.stuck else signal.SIGTERM)
        asked_at = time.monotonic()
        for child in self.children.values():
            hung = False
            while True:
                pid, status = os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED)
                if pid and os.WIFSTOPPED(status):
                    # Thawed a moment ago, it went on to the failpoint it was armed with and stopped itself again.
                    os.kill(child.pid, signal.SIGCONT)
                elif pid:
                    code = os.waitstatus_to_exitcode(status)
                    expected = code == -signal.SIGKILL and not hung and ":kill" in child.armed
                    if not (expected or self.tally.stuck):
                        self.tally.exits[code] += 1
                    self.tally.hung += hung
                    self.tally.leaked += time.monotonic() - asked_at > GRACE
                    break
                if time.monotonic() - asked_at > LONGEST_END and not hung:
                    hung = True
                    os.kill(child.pid, signal.SIGKILL)
                time.sleep(0.01)


def run(database: str, *, jobs: int, kills: int, workers: int = 4, seed: int = 0, mutant: str | None = None,
        slack: float = 1.0, limit: float = 7200.0, server: Postgres | None = None) -> tuple[Report, Tally]:  # fmt: skip
    """Do one chaos run on one database; return what the checker found and what was done."""
    folder = Path(tempfile.mkdtemp(prefix="tabellion-chaos-"))
    try:
        with contextlib.ExitStack() as stack:
            if database == "postgresql" and server is None:
                server = stack.enter_context(postgres(durable=True))
            url = server.create_database(folder.name.replace("-", "_")) if server else f"sqlite:///{folder}/work.db"
            orders = Orders(url, folder, LEASE, SWEEP, CONCURRENCY, MAX_ATTEMPTS, mutant)
            table = Table(url)
            table.prepare(*(MUTANTS[mutant].prepare if mutant else ()))
            table.insert(min(jobs, CHUNK))
            nemesis = Nemesis(orders, table, jobs=jobs, kills=kills, workers=workers, seed=seed, server=server)
            nemesis.run(limit)
            return judge(table, folder, nemesis.tally, slack), nemesis.tally
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(table: Table, folder: Path, tally: Tally, slack: float) -> Report:
    """Run the checker on everything that is left."""
    terms = Terms(MAX_ATTEMPTS, SWEEP, slack, PERMANENT, tally.zombies, merge(tally.outages))
    report = checker.check(table.attempts(), table.rows(), Logs.read(folder.glob("log-*.jsonl")), terms)
    for one in table.verify():
        report.blame("verified", f"{one.kind} {one.where}: {one.what}")
    if tally.stuck:
        report.blame("stuck", tally.stuck)
    if tally.leaked and not tally.stuck:
        report.blame("leaked", f"needed all of their {GRACE:g} s of grace although every row had ended", tally.leaked)
    disorder = sum(count for code, count in tally.exits.items() if code != 0)
    if disorder:
        last_lines = [path.read_text().strip().splitlines()[-1] for path in folder.glob("died-*.txt")]
        ended = f"exit codes {dict(tally.exits)}, {tally.hung} after {LONGEST_END:g} s without ending: {last_lines[:1]}"
        report.blame("bad_exits", ended, disorder)
    janitor = Folders("janitor", folder / "temp")
    janitor.open()
    janitor.close()
    left = [path.name for path in (folder / "temp").iterdir()]
    if left:
        report.blame("leftovers", left[0], len(left))
    return report


def merge(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the same times without overlaps."""
    result: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def print_report(database: str, report: Report, tally: Tally, *, jobs: int, seed: int) -> None:
    """Print the report."""
    outcomes = ", ".join(f"{name} {count:,}" for name, count in report.outcomes.most_common())
    print(
        f"{database}: seed {seed}, {jobs:,} jobs in {tally.seconds:.1f} s ({jobs / max(tally.seconds, 0.001):,.0f}/s)"
    )
    print(
        f"  {tally.kills} kills ({tally.at_failpoints} at failpoints), {tally.zombies} zombies, "
        f"{tally.crashes} crash-restarts"
    )
    print(f"  attempts: {outcomes}")
    print(f"  answers: {report.answers['ok']:,} accepted, {report.answers['stale']:,} stale ones refused")
    print(f"  slowest reclaim: {report.slowest_reclaim:.2f} s after its lease ended (bound {SWEEP:g} + 1 s)")
    print("\n".join(report.lines()))
    print("  every promise kept" if report.clean else "  BROKEN", flush=True)


def main() -> int:
    """Run as a command line program."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--seed", type=int, default=None, help="the nemesis's dice; printed, so that a run can be repeated"
    )
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument(
        "--mutant", choices=sorted(MUTANTS), help="break one promise on purpose; the run must end with 1"
    )
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    clean = True
    for database in ["postgresql", "sqlite"] if given.database == "both" else [given.database]:
        report, tally = run(
            database, jobs=given.jobs, kills=given.kills, workers=given.workers, seed=seed, mutant=given.mutant
        )
        print_report(database, report, tally, jobs=given.jobs, seed=seed)
        clean = clean and report.clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
