"""PgQueuer on PostgreSQL: batches of 10, 100 and 1,000, one connection, and uvloop as its own CLI has it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.measure import DRAIN, JOBS_PER_SECOND, Result, emit, latency
from bench.peers import trial
from bench.tally import Drain

SYSTEM = "pgqueuer"
BATCHES = (10, 100, 1000)
DEFAULT_BATCH = 10
CHUNK = 1000
BATCH_VARIABLE = "BENCH_BATCH"


async def work(url: str, batch: int) -> None:
    """Run the worker until SIGTERM."""
    tally = trial.tally_from_environment()
    connection = await asyncpg.connect(url)
    queue = PgQueuer.from_asyncpg_connection(connection)

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        tally.mark(int(job.payload or b"-1"))

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
    await queue.run(batch_size=batch)


@contextlib.contextmanager
def installed(url: str) -> Iterator[Callable[[int], trial.Peer]]:
    """Install PgQueuer in this database for the duration of a block; yield what the trial needs, by batch size."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        connection = runner.run(asyncpg.connect(url))
        queries = Queries(AsyncpgDriver(connection))

        def enqueue(first: int, count: int) -> None:
            for start in range(first, first + count, CHUNK):
                numbers = range(start, min(start + CHUNK, first + count))
                payloads: list[bytes | None] = [str(n).encode() for n in numbers]
                runner.run(queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads)))

        def peer(batch: int) -> trial.Peer:
            return trial.Peer(
                system=SYSTEM,
                enqueue=enqueue,
                left=lambda: runner.run(connection.fetchval("SELECT count(*) FROM pgqueuer")),
                command=trial.module_command("bench.peers.pgqueuer_peer"),
                env={trial.URL_VARIABLE: url, BATCH_VARIABLE: str(batch)},
                enqueue_one=lambda n: runner.run(queries.enqueue("noop", str(n).encode(), 0)),
                enqueue_detail=f"enqueue of lists by {CHUNK}",
            )

        runner.run(queries.install())
        try:
            yield peer
        finally:
            runner.run(queries.uninstall())
            runner.run(connection.close())


def main() -> None:
    chosen = trial.options(__doc__)
    drains: dict[int, Drain] = {}
    for batch in BATCHES:
        with installed(chosen.url) as peer:
            enqueued = trial.enqueue(peer(batch), chosen.jobs)
            drains[batch] = trial.drain(peer(batch), chosen)
    best = max(drains, key=lambda batch: drains[batch].rate)
    detail = f"its best batch: {best}; {drains[best].detail}"
    results = [enqueued, Result(SYSTEM, DRAIN, drains[best].rate, JOBS_PER_SECOND, detail)]
    results += [
        Result(SYSTEM, f"{DRAIN} by {batch}", done.rate, JOBS_PER_SECOND, done.detail) for batch, done in drains.items()
    ]
    with installed(chosen.url) as peer:
        results += latency(SYSTEM, trial.pickup(peer(DEFAULT_BATCH), chosen.samples), f"batch {DEFAULT_BATCH}")
    emit(results, as_json=chosen.json)


if __name__ == "__main__":
    if trial.is_worker():
        uvloop.run(work(os.environ[trial.URL_VARIABLE], int(os.environ[BATCH_VARIABLE])))
    else:
        main()
