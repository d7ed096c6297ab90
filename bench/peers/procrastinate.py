"""Procrastinate on PostgreSQL: one async worker of concurrency 50, LISTEN/NOTIFY on, jobs kept when done."""

from __future__ import annotations

import os

import psycopg
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.connector import BaseConnector
from procrastinate.types import JSONDict

from bench.peers import trial

CHUNK = 1000
CONCURRENCY = 50
POOL_SIZE = 10


def open_app(connector: BaseConnector) -> App:
    """Return an app with the one task, on the given connector: async for the worker, sync for the producer."""
    tally = trial.tally_from_environment()
    app = App(connector=connector)

    @app.task(name="noop")
    async def noop(n: int) -> None:
        tally.mark(n)

    return app


def work(url: str) -> None:
    """Run the worker until SIGTERM."""
    connector = PsycopgConnector(conninfo=url, min_size=POOL_SIZE, max_size=POOL_SIZE)
    open_app(connector).run_worker(concurrency=CONCURRENCY)


def main() -> None:
    chosen = trial.options(__doc__)
    producer = open_app(SyncPsycopgConnector(conninfo=chosen.url))
    with producer.open(), psycopg.connect(chosen.url, autocommit=True) as watch:
        producer.schema_manager.apply_schema()
        task = producer.tasks["noop"]

        def enqueue(first: int, count: int) -> None:
            for start in range(first, first + count, CHUNK):
                numbers = range(start, min(start + CHUNK, first + count))
                arguments: list[JSONDict] = [{"n": n} for n in numbers]
                task.batch_defer(*arguments)

        def left() -> int:
            row = watch.execute("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')").fetchone()
            return int(row[0]) if row else 0

        trial.run(
            trial.Peer(
                system="procrastinate",
                enqueue=enqueue,
                left=left,
                command=trial.module_command(__spec__.name),
                env={trial.URL_VARIABLE: chosen.url},
                enqueue_one=lambda n: task.defer(n=n),
                enqueue_detail=f"batch_defer by {CHUNK}",
                drain_detail=f"concurrency {CONCURRENCY}",
            ),
            chosen,
        )


if __name__ == "__main__":
    if trial.is_worker():
        work(os.environ[trial.URL_VARIABLE])
    else:
        main()
