"""The engine's speed in a few minutes, strictly alternating: run it before committing a change of the engine's SQL.

A drain beside PgQueuer's, 32 workers beside 4 (and a bare loop in as many processes, which is the limit), claims beside
a million finished rows and beside ten thousand, and how long an urgent row waits behind a backlog. A machine's speed
swings by a fifth within minutes, so that only ratios of neighbours in time mean something: each measurement is a list
of pairs, whose order alternates, and its result is the median ratio with an interval that holds the true median 19
times of 20. `--against REF` drains this tree and another commit's by turns, each with its own `bench/ours.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from tests.servers import Postgres, postgres

from bench import bare, ours
from bench.peers import pgqueuer_peer, trial
from bench.processes import ROOT, worker

PYTHON = (sys.executable, "-P")  #: imports from PYTHONPATH only, not from the folder it runs in
OPEN_REGISTER = "import asyncio, sys; from tabellion import Store; asyncio.run(Store(sys.argv[1]).open())"
#: The shortest loop there is, begun by a line on standard input once it is connected.
BARE_LOOP = """
import asyncio, sys, asyncpg
from bench.bare import postgres_loop

async def main():
    connection = await asyncpg.connect(sys.argv[1])
    await postgres_loop(connection, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    await postgres_loop(connection, 100)

asyncio.run(main())
"""
MANY_JOBS = 60_000  # for several workers: with fewer the first connections would be all that is measured
CLAIM_TURNS = 150
POLL = 1.0  # seconds: the worker's default


@dataclass(frozen=True)
class Pairs:
    """Two figures measured alternately, several times."""

    what: str
    one: str
    other: str
    values: list[tuple[float, float]]
    required: float | None = None
    at_most: bool = False

    def __str__(self) -> str:
        ratios = sorted(one / other for one, other in self.values)
        low, high = interval(ratios)
        middle = statistics.median(ratios)
        figures = [statistics.median(values) for values in zip(*self.values, strict=True)]
        verdict = ""
        if self.required is not None:
            keeps = middle <= self.required if self.at_most else middle >= self.required
            verdict = f"  required {'≤' if self.at_most else '≥'} {self.required:g}: {'ok' if keeps else 'SHORT'}"
        return (
            f"{self.what}: {middle:.2f} ({low:.2f} to {high:.2f}, {len(ratios)} pairs)  "
            f"{self.one} {figures[0]:,.5g}, {self.other} {figures[1]:,.5g}{verdict}"
        )


def interval(ordered: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the narrowest pair of order statistics that holds the median with this confidence."""
    n = len(ordered)
    below = 0.0
    for left_out in range(n // 2):
        below += math.comb(n, left_out) / 2**n
        if 1 - 2 * below < confidence:
            return ordered[max(left_out - 1, 0)], ordered[n - max(left_out, 1)]
    return ordered[0], ordered[-1]


def alternate(pairs: int, one: Callable[[], float], other: Callable[[], float]) -> list[tuple[float, float]]:
    """Measure the two one after the other, the first of each pair being the second of the next."""
    values = []
    for number in range(pairs):
        if number % 2:
            second = other()
            values.append((one(), second))
        else:
            first = one()
            values.append((first, other()))
        print(f"  pair {number + 1}/{pairs}: {values[-1][0]:,.5g} {values[-1][1]:,.5g}", file=sys.stderr, flush=True)
    return values


class Bench:
    """One PostgreSQL server with fsync on, and an empty database for each measurement."""

    def __init__(self, server: Postgres, jobs: int) -> None:
        self.server, self.jobs = server, jobs
        self._made = 0

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Yield an empty database for the duration of a block."""
        self._made += 1
        name = f"engine_{self._made}"
        url = self.server.create_database(name)
        try:
            yield url
        finally:
            with psycopg.connect(self.server.url, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
                connection.execute("CHECKPOINT")  # one drain's unwritten pages must not be the next one's waiting time

    def options(self, url: str, jobs: int) -> trial.Options:
        """Return the options of the trial."""
        return trial.Options(url=url, redis="", sqlite="", jobs=jobs, samples=0, limit=240, json=False)

    def pgqueuer(self) -> float:
        """Measure jobs per second of PgQueuer at its best batch size here."""
        with self.database() as url, pgqueuer_peer.installed(url) as peer_of:
            peer = peer_of(100)
            peer.enqueue(0, self.jobs)
            return trial.drain(peer, self.options(url, self.jobs)).rate

    def tabellion(self, tree: Path = ROOT, workers: int = 1) -> float:
        """Measure jobs per second of this source tree's engine with default settings."""
        # The worker's side of the bench is the tree's own too: it imports modules that other commits name otherwise.
        path = {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
        jobs = self.jobs if workers == 1 else MANY_JOBS
        with self.database() as url, psycopg.connect(url, autocommit=True) as connection:
            for statement in (ours.TABLES["postgresql"], ours.INDEX):
                connection.execute(statement.encode())
            subprocess.run([*PYTHON, "-c", OPEN_REGISTER, url], env=os.environ | path, check=True)

            def enqueue(first: int, count: int) -> None:
                with connection.cursor().copy("COPY jobs (status, payload) FROM STDIN") as copy:
                    for number in range(first, first + count):
                        copy.write_row(("ready", str(number)))

            def left() -> int:
                row = connection.execute("SELECT count(*) FROM jobs WHERE status <> 'done'").fetchone()
                return int(row[0]) if row else 0

            env = {trial.URL_VARIABLE: url, **path}
            peer = trial.Peer("tabellion", enqueue, left, [*PYTHON, "-m", "bench.ours", "worker"], env)
            if workers == 1:
                enqueue(0, jobs)
                return trial.drain(peer, self.options(url, jobs)).rate
            return drain_by(peer, workers, jobs, url)

    def bare(self, workers: int) -> float:
        """Measure jobs per second of as many processes that claim and finish such rows in the shortest loop."""
        with (
            self.database() as url,
            psycopg.connect(url, autocommit=True) as connection,
            contextlib.ExitStack() as ends,
        ):
            for statement in bare.POSTGRES_SCHEMA:
                connection.execute(statement.encode())
            loops = []
            for _ in range(workers):
                command = [sys.executable, "-c", BARE_LOOP, url]
                process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                loops.append(ends.enter_context(process))
            for one in loops:
                assert one.stdout is not None
                assert one.stdout.readline() == b"ready\n", "a bare loop did not come up"
            with connection.cursor().copy("COPY jobs (status, payload) FROM STDIN") as copy:
                for number in range(MANY_JOBS):
                    copy.write_row(("ready", str(number)))
            began = time.monotonic()
            for one in loops:
                assert one.stdin is not None
                one.stdin.write(b"\n")
                one.stdin.flush()
            for one in loops:
                one.wait(240)
            seconds = time.monotonic() - began
            row = connection.execute(bare.DONE.encode()).fetchone()
            bare.verify(row[0] if row else 0, MANY_JOBS)
            return MANY_JOBS / seconds

    def claims(self) -> list[tuple[float, float]]:
        """Measure milliseconds of claims, alternately beside a million finished rows and beside ten thousand."""
        with self.database() as many_url, self.database() as few_url:
            many, few = ours.Ours("tabellion", many_url), ours.Ours("tabellion", few_url)
            for one, finished in ((many, 1_000_000), (few, 10_000)):
                one.prepare()
                ours.fill(one, finished, CLAIM_TURNS * ours.CLAIM)
            values = [(ours.claim_once(many), ours.claim_once(few)) for _ in range(CLAIM_TURNS)]
            for one in (many, few):
                one.wait(one.store.close())
                one.loop.close()
            return values[10:]

    def urgent(self) -> float:
        """Count polls before a row of the first queue starts, with a backlog in the second, unnotified."""
        with self.database() as url, psycopg.connect(url, autocommit=True) as connection, trial.tally_file() as tally:
            for table in ("urgent", "bulk"):
                connection.execute(ours.TABLES["postgresql"].replace("jobs", table).encode())
            connection.execute(
                "INSERT INTO bulk (status, payload) SELECT 'ready', i FROM generate_series(1, 20000) AS i"
            )
            env = {trial.URL_VARIABLE: url, trial.TALLY_VARIABLE: str(tally.path), ours.URGENT_VARIABLE: "1"}
            with worker(trial.module_command("bench.ours"), env):
                tally.await_count(2000, 60)
                asked_at = time.monotonic()
                connection.execute("INSERT INTO urgent (status, payload) VALUES ('ready', '0')")
                while True:
                    begun = [at for number, at in tally.read() if number == 0]
                    if begun:
                        return (begun[0] - asked_at) / POLL
                    if time.monotonic() > asked_at + 60:
                        raise TimeoutError("the urgent row did not begin within a minute")
                    time.sleep(0.01)


def drain_by(peer: trial.Peer, workers: int, jobs: int, url: str) -> float:
    """Measure jobs per second of several worker processes that all wait before the first row is there."""

    with (
        trial.tally_file() as tally,
        psycopg.connect(url, autocommit=True) as connection,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(workers):
            stack.enter_context(worker(peer.command, {**peer.env, trial.TALLY_VARIABLE: str(tally.path)}))
        deadline = time.monotonic() + 60
        while len(connection.execute("SELECT 1 FROM tabellion_workers").fetchall()) < workers:
            assert time.monotonic() < deadline, "not all workers came up"
            time.sleep(0.2)
        peer.enqueue(0, jobs)
        connection.execute("NOTIFY tabellion")
        tally.await_count(jobs, 240)
        return tally.drain(jobs, trial.await_settled(peer, 240, 0.02)).rate


@contextlib.contextmanager
def checkout(ref: str) -> Iterator[Path]:
    """Check out the source tree of a commit for the duration of a block."""
    with tempfile.TemporaryDirectory(prefix="tabellion-bench-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), ref], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def main() -> None:
    """Run what was requested, one measurement after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--only", default="drain,workers,claims,urgent", help="some of drain, workers, claims, urgent")
    parser.add_argument("--against", default="", help="a commit: its tree and this one by turns, in place of the rest")
    parser.add_argument("--workers", type=int, default=1, help="worker processes, with --against")
    asked = parser.parse_args()
    with postgres(durable=True) as server:
        bench = Bench(server, asked.jobs)
        if asked.against:
            with checkout(asked.against) as tree:
                there = lambda: bench.tabellion(tree, asked.workers)  # noqa: E731 - one of a pair
                values = alternate(asked.pairs, lambda: bench.tabellion(workers=asked.workers), there)
            print(Pairs(f"drain by {asked.workers}, jobs/s", "here", asked.against, values), flush=True)
            return
        if "drain" in asked.only:
            values = alternate(asked.pairs, bench.tabellion, bench.pgqueuer)
            print(Pairs("drain, jobs/s", "tabellion", "PgQueuer by 100", values, 1.15), flush=True)
        if "workers" in asked.only:
            values = alternate(asked.pairs, lambda: bench.tabellion(workers=32), lambda: bench.tabellion(workers=4))
            print(Pairs("drain, jobs/s", "32 workers", "4 workers", values, 1.0), flush=True)
            values = alternate(asked.pairs, lambda: bench.bare(32), lambda: bench.bare(4))
            print(Pairs("a bare loop, jobs/s", "32 processes", "4 processes", values), flush=True)
        if "claims" in asked.only:
            print(Pairs("claim of 100, ms", "1,000,000 finished", "10,000", bench.claims(), 1.1, True), flush=True)
        if "urgent" in asked.only:
            waits = [bench.urgent() for _ in range(3)]
            verdict = "ok" if max(waits) <= 1.5 else "SHORT"
            print(
                f"an urgent row behind a backlog begins after {max(waits):.2f} polls at most  required ≤ 1.5: {verdict}"
            )


if __name__ == "__main__":
    main()
