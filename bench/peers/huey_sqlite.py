"""Huey on SQLite: four threads, write-ahead log, synchronous FULL."""

from __future__ import annotations

import os

from huey import SqliteHuey

from bench.peers import trial

THREADS = 4

FILE = os.environ.get(trial.URL_VARIABLE, "")
tally = trial.tally_from_environment()


def open_huey(path: str) -> SqliteHuey:
    """Return a Huey on the file; its fsync=True is SQLite's synchronous=FULL."""
    return SqliteHuey("bench", filename=path, fsync=True, journal_mode="wal")


def noop(n: int) -> None:
    tally.mark(n)


def main() -> None:
    chosen = trial.options(__doc__)
    huey = open_huey(chosen.sqlite)
    task = huey.task(name="noop")(noop)

    def enqueue(first: int, count: int) -> None:
        for n in range(first, first + count):
            task(n)

    trial.run(
        trial.Peer(
            system="huey/sqlite",
            enqueue=enqueue,
            left=huey.pending_count,
            command=trial.module_command(__spec__.name),
            env={trial.URL_VARIABLE: chosen.sqlite},
            enqueue_detail="one by one: no bulk call",
            drain_detail=f"{THREADS} threads, fsync on",
        ),
        chosen,
    )


if __name__ == "__main__":
    if trial.is_worker():
        consumed = open_huey(FILE)
        consumed.task(name="noop")(noop)
        consumed.create_consumer(workers=THREADS, worker_type="thread", periodic=False).run()
    else:
        main()
