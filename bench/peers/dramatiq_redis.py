"""Dramatiq on Redis: two processes of eight threads, default middleware."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import dramatiq
import redis
from dramatiq import Broker
from dramatiq.brokers.redis import RedisBroker

from bench.peers import trial

PROCESSES = 2
THREADS = 8

tally = trial.tally_from_environment()


def open_broker(url: str) -> Broker:
    """Return a broker on the URL; Dramatiq connects late, so a producer that only imports this needs none."""
    untyped: Any = RedisBroker
    return cast(Broker, untyped(url=url))


broker = open_broker(os.environ.get(trial.REDIS_VARIABLE) or "redis://127.0.0.1:1/0")
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop(n: int) -> None:
    tally.mark(n)


def main() -> None:
    chosen = trial.options(__doc__)
    client = redis.Redis.from_url(chosen.redis)
    producer = open_broker(chosen.redis)
    producer.declare_queue(noop.queue_name)

    def enqueue(first: int, count: int) -> None:
        for n in range(first, first + count):
            producer.enqueue(noop.message(n))

    def left() -> int:
        keys = client.keys(f"dramatiq:__acks__.*.{noop.queue_name}")
        waiting = int(client.llen(f"dramatiq:{noop.queue_name}"))
        return waiting + sum(int(client.scard(key)) for key in keys)

    trial.run(
        trial.Peer(
            system="dramatiq+redis",
            enqueue=enqueue,
            left=left,
            command=[
                sys.executable, "-m", "dramatiq", __spec__.name,
                "--processes", str(PROCESSES), "--threads", str(THREADS),
            ],
            env={trial.REDIS_VARIABLE: chosen.redis},
            enqueue_detail="one by one: no bulk call",
            drain_detail=f"{PROCESSES} processes x {THREADS} threads",
        ),
        chosen,
    )  # fmt: skip


if __name__ == "__main__":
    main()
