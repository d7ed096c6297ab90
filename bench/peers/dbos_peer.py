"""DBOS on PostgreSQL or SQLite: one queue polled every 10 ms, up to 100 workflows at a time.

Without a limit, its default, a worker takes the whole queue at once; 20,000 jobs were then not done after
four minutes. Of the limits 20, 50, 100 and 200, each tried once with 3,000 jobs, the last two were within
1 % of each other and ahead.
"""

from __future__ import annotations

import os
import signal
import threading

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.peers import trial

CHUNK = 1000
QUEUE = "bench"
VERSION = "bench"
CONCURRENCY = 100
POLL_SECONDS = 0.01

tally = trial.tally_from_environment()


def launch(url: str) -> None:
    """Create the system tables where they are missing and start taking jobs off the queue."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "application_version": VERSION,
        "log_level": "WARNING",
    }
    DBOS(config=config)

    @DBOS.workflow(name="noop")
    def noop(n: int) -> None:
        tally.mark(n)

    DBOS.launch()


def work(url: str) -> None:
    """Run the worker until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    launch(url)
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS, worker_concurrency=CONCURRENCY)
    over.wait()
    DBOS.destroy()


def main() -> None:
    chosen = trial.options(__doc__)
    url = f"sqlite:///{chosen.sqlite}" if chosen.sqlite else chosen.url
    launch(url)
    DBOS.destroy()
    client = DBOSClient(system_database_url=url)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    options: EnqueueOptions = {"workflow_name": "noop", "queue_name": QUEUE, "app_version": VERSION}
    table = "workflow_status" if chosen.sqlite else "dbos.workflow_status"

    def enqueue(first: int, count: int) -> None:
        for start in range(first, first + count, CHUNK):
            with engine.begin() as connection:
                for n in range(start, min(start + CHUNK, first + count)):
                    client.enqueue_in_transaction(connection, options, n)

    def left() -> int:
        with engine.connect() as connection:
            query = f"SELECT count(*) FROM {table} WHERE status IN ('ENQUEUED', 'PENDING')"
            return int(connection.execute(sa.text(query)).scalar_one())

    trial.run(
        trial.Peer(
            system="dbos/sqlite" if chosen.sqlite else "dbos/postgres",
            enqueue=enqueue,
            left=left,
            command=trial.module_command(__spec__.name),
            env={trial.URL_VARIABLE: url},
            enqueue_detail=f"enqueue_in_transaction by {CHUNK}",
            drain_detail=f"concurrency {CONCURRENCY}, polling {POLL_SECONDS * 1000:.0f} ms",
        ),
        chosen,
    )
    client.destroy()


if __name__ == "__main__":
    if trial.is_worker():
        work(os.environ[trial.URL_VARIABLE])
    else:
        main()
