"""Celery on Redis: two prefork processes, late acks, results off, default prefetch."""

from __future__ import annotations

import os
import sys

import redis
from celery import Celery

from bench.peers import trial

CONCURRENCY = 2

tally = trial.tally_from_environment()
app = Celery("bench", broker=os.environ.get(trial.REDIS_VARIABLE) or None)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
)


def mark(n: int) -> None:
    tally.mark(n)


noop = app.task(name="noop")(mark)


def main() -> None:
    chosen = trial.options(__doc__)
    app.conf.broker_url = chosen.redis
    client = redis.Redis.from_url(chosen.redis)
    with app.producer_pool.acquire(block=True) as producer:

        def enqueue_one(n: int) -> None:
            noop.apply_async((n,), producer=producer)

        def enqueue(first: int, count: int) -> None:
            for n in range(first, first + count):
                enqueue_one(n)

        trial.run(
            trial.Peer(
                system="celery+redis",
                enqueue=enqueue,
                left=lambda: int(client.llen("celery")) + int(client.hlen("unacked")),
                command=[
                    sys.executable, "-m", "celery", "-A", __spec__.name, "worker", "-P", "prefork",
                    "-c", str(CONCURRENCY), "-l", "WARNING", "--without-gossip", "--without-mingle",
                ],
                env={trial.REDIS_VARIABLE: chosen.redis},
                enqueue_one=enqueue_one,
                enqueue_detail="one by one over one producer: no bulk call",
                drain_detail=f"prefork {CONCURRENCY}, acks late",
            ),
            chosen,
        )  # fmt: skip


if __name__ == "__main__":
    main()
