"""Runs the three measurements on one peer: bulk enqueue, drain, pick-up latency.

The drain's clock starts when the first job runs, so a peer's start-up costs it nothing, and stops when the
peer's store holds the last one finished: some run handlers far ahead of their bookkeeping, and a crash
would run those again. Before it, PostgreSQL peers get an ANALYZE: a queue in use has statistics, and
without them procrastinate ran at half its speed. The pick-up's clock runs from just before the enqueue
call to the handler's first line. Worker and producer are two processes, as they would be in use.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.measure import DRAIN, ENQUEUE, JOBS_PER_SECOND, ROWS_PER_SECOND, Result, emit, latency
from bench.processes import worker
from bench.tally import Drain, Tally

TALLY_VARIABLE = "BENCH_TALLY"
URL_VARIABLE = "BENCH_URL"
REDIS_VARIABLE = "BENCH_REDIS"

WARM_UP_JOBS = 20
GAP_SECONDS = (0.010, 0.040)
START_LIMIT = 60.0
PICKUP_LIMIT = 10.0


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    url: str
    redis: str
    sqlite: str
    jobs: int
    samples: int
    limit: float
    json: bool


@dataclass(frozen=True)
class Peer:
    """What the trial needs to know of one peer.

    `enqueue` takes the first job's number and how many; `left` counts the jobs that the peer's own
    store does not hold finished yet.
    """

    system: str
    enqueue: Callable[[int, int], object]
    left: Callable[[], int]
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    enqueue_one: Callable[[int], object] | None = None
    enqueue_detail: str = ""
    drain_detail: str = ""


def options(description: str, arguments: Sequence[str] | None = None) -> Options:
    """Parse the flags that all peers share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", default="", help="PostgreSQL, an empty database")
    parser.add_argument("--redis", default="", help="Redis or Valkey, empty")
    parser.add_argument("--sqlite", default="", help="path of a SQLite file that does not exist yet")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=300, help="single jobs for the pick-up latency")
    parser.add_argument("--limit", type=float, default=240, help="seconds a drain may take")
    parser.add_argument("--json", action="store_true")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return Options(**vars(parser.parse_args(arguments)))


def module_command(module: str) -> list[str]:
    """Return the command that runs a peer's module as its worker."""
    return [sys.executable, "-m", module, "worker"]


def is_worker() -> bool:
    """Return whether this process was started by `module_command`."""
    return sys.argv[1:] == ["worker"]


def tally_from_environment() -> Tally:
    """Return the tally that the trial gave to this worker; a producer that only imports the module gets none."""
    return Tally(os.environ.get(TALLY_VARIABLE, os.devnull))


def run(peer: Peer, chosen: Options) -> None:
    """Enqueue and drain, then pick-up where the peer offers a single enqueue; print each once it is known."""
    emit([enqueue(peer, chosen.jobs)], as_json=chosen.json)
    done = drain(peer, chosen)
    detail = f"{peer.drain_detail}; {done.detail}"
    emit([Result(peer.system, DRAIN, done.rate, JOBS_PER_SECOND, detail)], as_json=chosen.json)
    if peer.enqueue_one is not None:
        emit(latency(peer.system, pickup(peer, chosen.samples)), as_json=chosen.json)


def enqueue(peer: Peer, jobs: int) -> Result:
    """Measure rows per second of the peer's best bulk call."""
    started = time.monotonic()
    peer.enqueue(0, jobs)
    seconds = time.monotonic() - started
    return Result(peer.system, ENQUEUE, jobs / seconds, ROWS_PER_SECOND, peer.enqueue_detail)


def drain(peer: Peer, chosen: Options) -> Drain:
    """Run the waiting jobs to the end; each must run once and be finished in the peer's store."""
    if chosen.url:
        with psycopg.connect(chosen.url, autocommit=True) as connection:
            connection.execute("ANALYZE")
    with tally_file() as tally, worker(peer.command, {**peer.env, TALLY_VARIABLE: str(tally.path)}):
        started = time.monotonic()
        tally.await_count(chosen.jobs, chosen.limit)
        settled_at = await_settled(peer, chosen.limit, (time.monotonic() - started) / 100)
        return tally.drain(chosen.jobs, settled_at)


def pickup(peer: Peer, samples: int) -> list[float]:
    """Measure seconds from the enqueue call to the handler, one job at a time, after a warm-up."""
    assert peer.enqueue_one is not None
    sent: list[float] = []
    with tally_file() as tally, worker(peer.command, {**peer.env, TALLY_VARIABLE: str(tally.path)}):
        for number in range(WARM_UP_JOBS + samples):
            time.sleep(random.uniform(*GAP_SECONDS))
            sent.append(time.monotonic())
            peer.enqueue_one(number)
            tally.await_count(number + 1, PICKUP_LIMIT if number else START_LIMIT)
        tally.verify(WARM_UP_JOBS + samples)
        arrived = dict(tally.read())
    return [arrived[number] - sent[number] for number in range(WARM_UP_JOBS, WARM_UP_JOBS + samples)]


def await_settled(peer: Peer, limit: float, pause: float) -> float:
    """When the peer's store was first seen without an unfinished job.

    The pause between looks is a hundredth of the drain so far: looking must not slow what it looks at.
    """
    deadline = time.monotonic() + limit
    while True:
        asked_at = time.monotonic()
        left = peer.left()
        if not left:
            return asked_at
        if asked_at > deadline:
            raise TimeoutError(f"{peer.system} ran all jobs but left {left} unfinished in its store")
        time.sleep(pause)


@contextmanager
def tally_file() -> Iterator[Tally]:
    """Yield an empty tally for the duration of a block."""
    with tempfile.TemporaryDirectory(prefix="tabellion-bench-") as folder:
        yield Tally(Path(folder) / "tally")
