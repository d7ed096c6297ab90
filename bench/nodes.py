"""Nodes on one PostgreSQL: python -m bench.nodes [waiting] [computing] [celery] [ceiling] [trickle] [idle]

A node is a `tabellion worker` of its own, in its own network namespace where root and iproute2 allow it. Jobs are added
when all nodes are up; times are those of the register, from the first claim to the last settlement. Processor times
are Linux's, of the server's processes and the nodes' apart, and depend less than rates on what else runs here.

    waiting    jobs that wait 0.1 to 0.3 s, 50 slots a node, on 1, 2 and 4 nodes
    computing  jobs of about 8 ms and of about 80 ms of processor time, one slot a node, on 1 and 2 nodes
    celery     jobs that wait 0.5 to 1.5 s on nodes of `tabellion worker --celery` with Valkey, 2 × 25 slots a node
    ceiling    empty jobs, and waiting jobs with 250 slots a node: where another node adds nothing
    trickle    one job every 50 ms on 1 and 8 nodes: each wakes all of them
    idle       what 4 nodes cost the server without any work
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.cli.running import CLEAN
from tests.servers import Postgres, postgres, valkey
from tests.table_owner import Owner

from bench import links
from bench.links import Link
from bench.node_queues import WAIT_VARIABLE
from bench.processes import ROOT, worker
from bench.usage import memory, processor_seconds

TABLE = """CREATE TABLE {} (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'ready', result bigint,
  created_at timestamptz NOT NULL DEFAULT now())"""
INDEX = "CREATE INDEX {0}_ready ON {0} (created_at, id) WHERE status = 'ready'"
OPEN = """SELECT EXISTS (SELECT 1 FROM {} WHERE status = 'ready')
  OR EXISTS (SELECT 1 FROM tabellion_attempts WHERE settled_at IS NULL) AS open"""
SPAN = """SELECT extract(epoch FROM max(settled_at) - min(claimed_at)) AS seconds, count(*) AS attempts,
  count(*) FILTER (WHERE outcome = 'done') AS done FROM tabellion_attempts"""
SHARES = "SELECT count(*) AS n FROM tabellion_attempts GROUP BY worker ORDER BY n"
LIMIT = 300.0  # seconds for the nodes to come up, and for a run
REST = 20.0  # seconds that idle nodes are watched
CELERY_PROCESSES = 2


@dataclass(frozen=True)
class Work:
    """One kind of work: its queue, the slots of a node, and the jobs that a node gets."""

    queue: str
    slots: int
    jobs: int
    name: str
    celery: bool = False
    wait: float = 0.2  #: seconds that a waiting job takes on average
    every: float = 0.0  #: seconds between two jobs, of which all nodes together get `jobs`; 0: all are there at once


WORKS = {
    "waiting": Work("waiting", 50, 3000, "jobs that wait 0.1 to 0.3 s, 50 slots a node"),
    "computing": Work("computing", 1, 800, "jobs that compute for about 8 ms, 1 slot a node"),
    "computing_longer": Work("computing_longer", 1, 150, "jobs that compute for about 80 ms, 1 slot a node"),
    "celery": Work(
        "waiting",
        25,
        600,
        f"jobs that wait 0.5 to 1.5 s, Celery nodes of {CELERY_PROCESSES} × 25 slots",
        True,
        wait=1.0,
    ),
    "trickle": Work("empty", 100, 200, "an empty job every 50 ms, 100 slots a node", every=0.05),
    "empty": Work("empty", 100, 25_000, "empty jobs, 100 slots a node"),
    "wide": Work("waiting", 250, 10_000, "jobs that wait 0.1 to 0.3 s, 250 slots a node"),
}
#: Nodes of each kind, and what their rate must be as a multiple of one node's.
REQUIRED: dict[str, dict[int, float | None]] = {
    "waiting": {1: None, 2: 1.8, 4: 3.5},
    "computing": {1: None, 2: 1.8},
    "computing_longer": {1: None, 2: 1.8},
    "celery": {1: None, 2: 1.8, 4: 3.5},
    "empty": {1: None, 2: None, 4: None},
    "wide": {1: None, 2: None, 4: None, 8: None},
    "trickle": {1: None, 8: None},
}
STEPS = {
    "waiting": ("waiting",),
    "computing": ("computing", "computing_longer"),
    "celery": ("celery",),
    "ceiling": ("empty", "wide"),
    "trickle": ("trickle",),
    "idle": (),
}


@dataclass(frozen=True)
class Run:
    """What one run came to: jobs a second, and what each job cost."""

    rate: float
    server: float  #: microseconds of the server's processor time a job
    nodes: float  #: the same of all nodes
    commits: float  #: transactions a job
    wal: float  #: bytes of write-ahead log a job
    connections: float  #: of a node
    memory: Sequence[float]  #: highest megabytes of each process of the first node
    storage: float  #: bytes of the register, with its indexes, an attempt
    commands: float = 0.0  #: of the broker a job
    messages: float = 0.0  #: sent to it a job


@dataclass
class Bench:
    """One PostgreSQL with fsync on, the links to it, and a database for each run."""

    server: Postgres
    links: Sequence[Link]
    broker: str = ""
    _made: int = 0

    @contextlib.contextmanager
    def nodes(self, work: Work, count: int) -> Iterator[tuple[Owner, list[int]]]:
        """Run nodes on an empty table; yield its owner and their process ids once all of them are up."""
        self._made += 1
        owner = Owner(self.server.create_database(f"nodes_{self._made}"))
        owner(TABLE.format(work.queue))
        owner(INDEX.format(work.queue))
        kept = {name: "" for name in os.environ if name.startswith((*CLEAN, "REDIS_URL"))}
        command = [sys.executable, "-m", "tabellion", "--queues", "bench.node_queues", "worker", "--only", work.queue]
        command += ["--concurrency", str(work.slots)]
        if work.celery:
            command += ["--celery", "--processes", str(CELERY_PROCESSES)]
        with contextlib.ExitStack() as stack:
            pids = []
            for link in self.links[:count]:
                variables = kept | {
                    "TABELLION_DATABASE_URL": owner.url.replace("127.0.0.1", link.host),
                    "TABELLION_LOG_LEVEL": "warning", "PYTHONPATH": str(ROOT), WAIT_VARIABLE: str(work.wait),
                }  # fmt: skip
                if work.celery:
                    variables["TABELLION_BROKER"] = self.broker.replace("127.0.0.1", link.host)
                pids.append(stack.enter_context(worker([*link.command, *command], variables)).pid)
                if len(pids) == 1:
                    self._await_workers(owner, work, 1)  # the register has been created
            self._await_workers(owner, work, count)
            yield owner, pids
        owner(f"DROP TABLE {work.queue}")
        owner.close()

    def _await_workers(self, owner: Owner, work: Work, count: int) -> None:
        workers = count * (CELERY_PROCESSES if work.celery else 1)
        deadline = time.monotonic() + LIMIT
        while True:
            with contextlib.suppress(Exception):  # the table is not there yet
                found = owner("SELECT count(*) AS n FROM tabellion_workers WHERE slots > 0 AND stopped_at IS NULL")
                if found[0]["n"] >= workers:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError("not all nodes came up")
            time.sleep(0.1)

    def run(self, work: Work, count: int) -> Run:
        """Measure one kind of work on this many nodes."""
        jobs = work.jobs if work.every else work.jobs * count
        with self.nodes(work, count) as (owner, pids):
            before = self._read_counters(owner, pids)
            for first in range(1, jobs + 1, 1 if work.every else jobs):
                last = first if work.every else jobs
                owner(f"INSERT INTO {work.queue} (id) SELECT n FROM generate_series({first}, {last}) AS n")
                owner("NOTIFY tabellion")
                time.sleep(work.every)
            connections = self._count_connections(owner)
            deadline = time.monotonic() + LIMIT
            while owner(OPEN.format(work.queue))[0]["open"]:
                connections = max(connections, self._count_connections(owner))
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{jobs} jobs did not end in {LIMIT:g} s")
                time.sleep(0.1)
            after = self._read_counters(owner, pids)
            span = owner(SPAN)[0]
            shares = [row["n"] for row in owner(SHARES)]
            sizes = owner("SELECT pg_total_relation_size('tabellion_attempts') AS bytes")[0]
            most = memory(pids[0])
        # Jobs that were claimed ahead of a free slot and waited too long were released, which is an attempt more.
        assert span["done"] == jobs, f"{span['done']} of {jobs} jobs are done"
        note(f"{jobs} jobs on {count} nodes in {span['seconds']:.1f} s, by worker {shares}")
        used = {name: (after[name] - before[name]) / jobs for name in before}
        return Run(
            jobs / float(span["seconds"]), used["server"] * 1e6, used["nodes"] * 1e6, used["commits"], used["wal"],
            connections / count, most, sizes["bytes"] / span["attempts"], used["commands"], used["messages"],
        )  # fmt: skip

    def _read_counters(self, owner: Owner, pids: Sequence[int]) -> dict[str, float]:
        assert self.server.process is not None
        row = owner("""SELECT xact_commit AS commits, pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal
FROM pg_stat_database WHERE datname = current_database()""")[0]
        return {
            "commits": float(row["commits"]), "wal": float(row["wal"]),
            "server": processor_seconds([self.server.process.pid]), "nodes": processor_seconds(pids),
            **count_commands(self.broker),
        }  # fmt: skip

    def _count_connections(self, owner: Owner) -> int:
        return int(owner("""SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()
AND backend_type = 'client backend' AND pid <> pg_backend_pid()""")[0]["n"])  # fmt: skip

    def compare(self, name: str, rounds: int, most: int) -> bool:
        """Measure by turns on all numbers of nodes, print rates and ratios, and return whether nothing is short."""
        work, required = WORKS[name], {count: bound for count, bound in REQUIRED[name].items() if count <= most}
        rates: dict[int, list[Run]] = {count: [] for count in required}
        for number in range(rounds):
            for count in required if number % 2 else reversed(required):
                rates[count].append(self.run(work, count))
        print(f"\n{work.name}; {describe_load()}")
        keeps = True
        for count, bound in required.items():
            run = middle(rates[count])
            ratios = sorted(many.rate / one.rate for many, one in zip(rates[count], rates[1], strict=True))
            ratio = statistics.median(ratios)
            line = f"  {count} {'nodes' if count > 1 else 'node '}: {run.rate:8,.0f} jobs/s"
            if count > 1 and not work.every:
                line += f"  {ratio:.2f} times one ({ratios[0]:.2f} to {ratios[-1]:.2f}, {rounds} rounds)"
            if bound is not None:
                line += f"  required ≥ {bound:g}: {'ok' if ratio >= bound else 'SHORT'}"
                keeps = keeps and ratio >= bound
            print(line)
            print(f"           a job: {describe_cost(run, work)}", flush=True)
        return keeps

    def rest(self, count: int) -> None:
        """Print what nodes without work cost the server."""
        with self.nodes(WORKS["waiting"], count) as (owner, pids):
            time.sleep(5)  # their start is over
            before, began = self._read_counters(owner, pids), time.monotonic()
            time.sleep(REST)
            after, seconds = self._read_counters(owner, pids), time.monotonic() - began
            used = {name: (after[name] - before[name]) / seconds / count for name in before}
            connections = self._count_connections(owner) / count
            sizes = memory(pids[0])
        print(f"\n{count} nodes without work; {describe_load()}")
        print(
            f"  a node: {used['commits']:.1f} commits/s, {used['server'] * 1000:.1f} ms/s of the server's processor "
            f"and {used['nodes'] * 1000:.1f} ms/s of its own, {connections:g} connections, {megabytes(sizes)}",
            flush=True,
        )


def middle(runs: Sequence[Run]) -> Run:
    """Return the median of each figure."""
    numbers = {one.name for one in fields(Run)} - {"memory"}
    figures = {name: statistics.median(getattr(run, name) for run in runs) for name in numbers}
    return Run(memory=runs[-1].memory, **figures)


def describe_cost(run: Run, work: Work) -> str:
    """Return what a job, and a node, has used."""
    text = (
        f"processor time {run.server:,.0f} µs of the server and {run.nodes:,.0f} µs of the nodes, "
        f"{run.commits:.2f} commits, {run.wal:,.0f} bytes of WAL, {run.storage:,.0f} bytes of register"
    )
    if work.celery:
        text += f", {run.messages:.2f} messages, {run.commands:.1f} commands of the broker"
    return f"{text}; a node: {run.connections:g} connections, {megabytes(run.memory)}"


def megabytes(sizes: Sequence[float]) -> str:
    return f"{' + '.join(f'{size:.0f}' for size in sizes)} MB"


def describe_load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def count_commands(broker: str) -> dict[str, float]:
    """Return how many commands a broker has executed, and how many messages it was sent."""
    if not broker:
        return {"commands": 0.0, "messages": 0.0}
    import redis

    with redis.Redis.from_url(broker) as client:
        stats: dict[str, Any] = client.info("commandstats")  # type: ignore[assignment]
    calls = {name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()}
    return {"commands": float(sum(calls.values())), "messages": float(calls.get("lpush", 0))}


def note(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def connect(count: int, *, plain: bool) -> Iterator[list[Link]]:
    """Yield a link for each node, and print of which kind they are."""
    reason = "asked for" if plain else links.why_not()
    if reason:
        print(f"nodes are plain processes on loopback: {reason}", flush=True)
        yield [Link()] * count
        return
    with links.separate_links(count) as made:
        print("each node is in its own network namespace, linked to the server by a veth pair", flush=True)
        yield made


def main() -> int:
    """Run as a command line program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="all of them if none is given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=8, help="not more nodes than this")
    parser.add_argument("--plain", action="store_true", help="no network namespaces")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was made is removed
    steps = given.steps or list(STEPS)
    keeps = True
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(connect(given.nodes, plain=given.plain))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgres(durable=True, settings=links.allow(made, folder)))
        hosts = sorted({"127.0.0.1", *(link.host for link in made)})
        broker = stack.enter_context(valkey(hosts=hosts)) if "celery" in steps else ""
        bench = Bench(server, made, broker)
        for step in steps:
            for name in STEPS[step]:
                keeps = bench.compare(name, given.rounds, given.nodes) and keeps
            if step == "idle":
                bench.rest(min(4, given.nodes))
    return 0 if keeps else 1


if __name__ == "__main__":
    sys.exit(main())
