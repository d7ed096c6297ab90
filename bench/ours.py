"""Our own figures: enqueue, drain, pick-up, claim cost, sleepers, many worker processes.

Every worker is a process of its own with default settings (register, fence, leases, sweeps, wake-ups) unless the
measurement is about another setting, which its detail then names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from bench.measure import (
    CLAIM_1M,
    CLAIM_10K,
    DRAIN,
    DRAIN_4_WORKERS,
    DRAIN_32_WORKERS,
    ENQUEUE,
    JOBS_PER_SECOND,
    MEGABYTES,
    MILLISECONDS,
    OURS_POSTGRES,
    OURS_SQLITE,
    PERCENT_OF_IDEAL,
    ROWS_PER_SECOND,
    SLEEPERS_1000,
    SLEEPERS_1000_RSS,
    SLEEPERS_5000,
    Result,
    emit,
    latency,
)
from bench.peers import trial
from bench.processes import worker
from bench.tally import Tally
from tabellion import Environment, Job, Queue, Store, Worker
from tabellion.engine.worker_rows import read_workers

CONCURRENCY_VARIABLE = "BENCH_CONCURRENCY"
SLEEP_VARIABLE = "BENCH_SLEEP"
URGENT_VARIABLE = "BENCH_URGENT"
SLEEP = 3.0
CLAIM = 100
CLAIMS = 60
READY = 10_000
LONGER = 5  # times the jobs for many workers: with fewer the first connections would be all that is measured

Found = TypeVar("Found")

TABLES = {
    "postgresql": """CREATE TABLE jobs (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, status text NOT NULL,
        payload text, created_at timestamptz NOT NULL DEFAULT now())""",
    "sqlite": """CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT NOT NULL, payload TEXT,
        created_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0))""",
}
INDEX = "CREATE INDEX jobs_ready ON jobs (created_at, id) WHERE status = 'ready'"
FINISHED = {
    "postgresql": (
        "INSERT INTO jobs (status, payload) SELECT 'done', i::text FROM generate_series(1, $1::integer) AS i",
        """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
        claimed_at, lease_until, settled_at, outcome)
        SELECT 'jobs', id::text, 1, gen_random_uuid(), 1, 0, 0, 'w', now(), now(), now(), now(), 'done' FROM jobs
        WHERE status = 'done' AND $1::integer > 0""",
    ),
    "sqlite": (
        """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
        INSERT INTO jobs (status, payload) SELECT 'done', i FROM n""",
        """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
        claimed_at, lease_until, settled_at, outcome)
        SELECT 'jobs', CAST(id AS TEXT), 1, lower(hex(randomblob(16))), 1, 0, 0, 'w', 0, 0, 0, 0, 'done' FROM jobs
        WHERE status = 'done' AND $1 > 0""",
    ),
}

queue = Queue("jobs", ready="ready", running="running", done="done", failed="failed")


def work(url: str) -> None:
    """Run a worker process: its handler only notes that it ran, or sleeps as a model call would."""
    tally = trial.tally_from_environment()
    sleep = float(os.environ.get(SLEEP_VARIABLE, "0"))

    @queue.handler
    async def handle(job: Job) -> None:
        tally.mark(int(job["payload"]))
        if sleep:
            await asyncio.sleep(sleep)

    if URGENT_VARIABLE in os.environ:
        work_in_order(url, tally)
        return
    chosen = os.environ.get(CONCURRENCY_VARIABLE)
    options = {"concurrency": int(chosen)} if chosen else {}
    Worker([Environment("bench", url)], [queue], **options).run()


def work_in_order(url: str, tally: Tally) -> None:
    """Run a worker process of 20 slots with an urgent queue before one whose jobs take 20 ms."""
    states: dict[str, Any] = {"ready": "ready", "running": "running", "done": "done", "failed": "failed"}
    urgent, bulk = Queue("urgent", **states), Queue("bulk", **states)

    @urgent.handler
    async def hurry(job: Job) -> None:
        tally.mark(int(job["payload"]))

    @bulk.handler
    async def plod(job: Job) -> None:
        tally.mark(int(job["payload"]))
        await asyncio.sleep(0.02)

    Worker([Environment("bench", url)], [urgent, bulk], concurrency=20).run()


class Ours:
    """One database of ours in the trial."""

    def __init__(self, system: str, url: str) -> None:
        self.system, self.url = system, url
        self.loop = asyncio.new_event_loop()
        self.store = Store(url, deadline=120)  # a million rows are inserted at once

    def prepare(self) -> None:
        """Create an empty table with its index, and the register."""
        for statement in ("DROP TABLE IF EXISTS jobs", TABLES[self.store.dialect], INDEX):
            self.wait(self.store.database.fetch(statement))
        self.wait(self.store.open())
        for table in ("tabellion_attempts", "tabellion_workers"):
            self.wait(self.store.database.fetch(f"DELETE FROM {table}"))

    def wait(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Run a coroutine now."""
        return self.loop.run_until_complete(work)

    def add(self, first: int, count: int) -> None:
        """Enqueue in bulk."""
        self.wait(self.store.add_many(queue, [{"payload": str(number)} for number in range(first, first + count)]))

    def left(self) -> int:
        """Return the number of rows that are not done."""
        found = self.wait(self.store.database.fetch("SELECT count(*) AS n FROM jobs WHERE status <> 'done'"))
        return int(found[0]["n"])

    def peer(self, detail: str, **variables: str) -> trial.Peer:
        """Return what the trial needs to know of us."""
        return trial.Peer(
            self.system, self.add, self.left, trial.module_command("bench.ours"),
            {trial.URL_VARIABLE: self.url, **variables}, enqueue_one=lambda number: self.add(number, 1),
            drain_detail=detail,
        )  # fmt: skip


def main() -> None:
    chosen = trial.options(__doc__)
    for system, url in (
        (OURS_POSTGRES, chosen.url),
        (OURS_SQLITE, f"sqlite:///{chosen.sqlite}" if chosen.sqlite else ""),
    ):
        if url:
            ours = Ours(system, url)
            try:
                measure(ours, chosen)
            finally:
                ours.wait(ours.store.close())
                ours.loop.close()


def measure(ours: Ours, chosen: trial.Options) -> None:
    """Measure everything for one database; the expensive ones on PostgreSQL only, where fleets are."""
    tell = chosen.json
    ours.prepare()
    peer = ours.peer("default settings")
    started = time.monotonic()
    peer.enqueue(0, chosen.jobs)
    rate = chosen.jobs / (time.monotonic() - started)
    emit([Result(ours.system, ENQUEUE, rate, ROWS_PER_SECOND, "Store.add_many")], as_json=tell)
    done = trial.drain(peer, chosen)
    emit([Result(ours.system, DRAIN, done.rate, JOBS_PER_SECOND, f"default settings; {done.detail}")], as_json=tell)
    for slots in (500, 1000):
        ours.prepare()
        ours.add(0, chosen.jobs)
        done = trial.drain(ours.peer("", **{CONCURRENCY_VARIABLE: str(slots)}), chosen)
        emit([Result(ours.system, f"{DRAIN}, {slots} slots", done.rate, JOBS_PER_SECOND, done.detail)], as_json=tell)
    ours.prepare()
    emit(latency(ours.system, trial.pickup(peer, chosen.samples)), as_json=tell)
    for finished, what in ((10_000, CLAIM_10K), (1_000_000, CLAIM_1M)):
        ours.prepare()
        detail = f"p50 of {CLAIMS} claims of {CLAIM}, {READY:,} ready"
        emit([Result(ours.system, what, claim_cost(ours, finished), MILLISECONDS, detail)], as_json=tell)
    if ours.system == OURS_POSTGRES:
        ours.prepare()
        for slots, what in ((1000, SLEEPERS_1000), (5000, SLEEPERS_5000)):
            emit(sleepers(ours, chosen, slots, what), as_json=tell)
        for processes, what in ((4, DRAIN_4_WORKERS), (32, DRAIN_32_WORKERS)):
            ours.prepare()
            emit([many_workers(ours, chosen, processes, what)], as_json=tell)


def claim_cost(ours: Ours, finished: int) -> float:
    """Return the median claim in milliseconds, with this many finished rows beside the ready ones."""
    fill(ours, finished, READY)
    return statistics.median([claim_once(ours) for _ in range(CLAIMS)][10:])


def fill(ours: Ours, finished: int, ready: int) -> None:
    """Insert this many finished rows with their attempts, and ready ones."""
    for statement in FINISHED[ours.store.dialect]:
        ours.wait(ours.store.database.transact([(statement, (finished,))]))
    ours.add(0, ready)
    if ours.store.dialect == "postgresql":
        for table in ("jobs", "tabellion_attempts"):
            ours.wait(ours.store.database.fetch(f"VACUUM ANALYZE {table}"))


def claim_once(ours: Ours) -> float:
    """Return the milliseconds of one claim."""
    started = time.perf_counter()
    jobs = ours.wait(ours.store.claim(queue, CLAIM, "bench"))
    seconds = time.perf_counter() - started
    assert len(jobs) == CLAIM
    return seconds * 1000


def sleepers(ours: Ours, chosen: trial.Options, slots: int, what: str) -> list[Result]:
    """Run jobs of three seconds in one process: how near to slots / 3 per second, and the memory it takes."""
    ours.prepare()
    jobs = slots * 4
    ours.add(0, jobs)
    variables = {CONCURRENCY_VARIABLE: str(slots), SLEEP_VARIABLE: str(SLEEP)}
    peer = ours.peer("", **variables)
    with (
        trial.tally_file() as tally,
        worker(peer.command, {**peer.env, trial.TALLY_VARIABLE: str(tally.path)}) as process,
    ):
        tally.await_count(jobs, chosen.limit)
        settled_at = trial.await_settled(peer, chosen.limit, 0.02)
        tally.verify(jobs)
        first = min(at for _, at in tally.read())
        memory = peak_memory(process.pid)
    percent = 100 * (jobs / slots * SLEEP) / (settled_at - first)
    detail = f"{jobs:,} jobs of {SLEEP:g} s, {slots:,} at once"
    results = [Result(ours.system, what, percent, PERCENT_OF_IDEAL, detail)]
    if slots == 1000:
        results.append(Result(ours.system, SLEEPERS_1000_RSS, memory, MEGABYTES, "peak of the process"))
    return results


def many_workers(ours: Ours, chosen: trial.Options, processes: int, what: str) -> Result:
    """Measure the drain by several worker processes that all wait before the first row is there."""
    peer = ours.peer("")
    with trial.tally_file() as tally, contextlib.ExitStack() as stack:
        for _ in range(processes):
            stack.enter_context(worker(peer.command, {**peer.env, trial.TALLY_VARIABLE: str(tally.path)}))
        deadline = time.monotonic() + chosen.limit
        while len(ours.wait(read_workers(ours.store.database))) < processes:
            assert time.monotonic() < deadline, "not all workers came up"
            time.sleep(0.1)
        jobs = chosen.jobs * LONGER
        ours.add(0, jobs)
        tally.await_count(jobs, chosen.limit)
        settled_at = trial.await_settled(peer, chosen.limit, 0.02)
        done = tally.drain(jobs, settled_at)
    return Result(ours.system, what, done.rate, JOBS_PER_SECOND, f"{processes} processes, {jobs:,} jobs")


def peak_memory(pid: int) -> float:
    """Return the process's peak resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    if trial.is_worker():
        work(os.environ[trial.URL_VARIABLE])
        sys.exit(0)
    main()
