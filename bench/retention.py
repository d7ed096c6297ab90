"""What ten million settled attempts cost, and what removing them costs: claims and settlements by turns, and drains.

Claims and settlements of 100 jobs, alternately beside a register of ten million settled attempts (and as many finished
rows) and beside one of ten thousand. Then drains of this engine on the large register, by turns with and without a
process beside them that removes old attempts all the time; workers themselves do so for half a second in ten. Last,
how many attempts are removed in a second, and a walk that removes nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import psycopg
from tests.servers import postgres

from bench import ours
from bench.engine import Bench, Pairs, alternate
from bench.ours import queue
from bench.peers import trial
from bench.processes import ROOT
from tabellion.engine.attempts_retention import AttemptsRule
from tabellion.engine.settlement import Settlement

DAY = 86_400.0
TURNS = 200
#: Half of the attempts are older than 100 days.
ATTEMPTS = """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
  claimed_at, lease_until, settled_at, outcome)
SELECT 'jobs', id::text, 1, gen_random_uuid(), 1, 0, 0, 'w', at, at, at, at, 'done'
FROM (SELECT id, now() - interval '200 days' * random() AS at FROM jobs WHERE status = 'done') AS j"""
JOBS = "INSERT INTO jobs (status, payload) SELECT 'done', i::text FROM generate_series(1, %s) AS i"
#: Removes old attempts without a pause but for its own steps, until it is killed.
PRUNER = """
import asyncio, sys
from bench.ours import queue
from tabellion import Store
from tabellion.engine.attempts_retention import AttemptsRule
from tabellion.engine.retention import prune_some

async def main():
    async with Store(sys.argv[1]) as store:
        rule = AttemptsRule([queue], float(sys.argv[2]))
        print("ready", flush=True)
        while True:
            await prune_some(store, [rule], "pruner", 3600.0)
            await store.database.fetch("UPDATE tabellion_retention SET due_at = NULL")

asyncio.run(main())
"""


def fill(one: ours.Ours, finished: int, ready: int) -> None:
    """Insert finished rows with their attempts, and ready ones."""
    one.prepare()
    with psycopg.connect(one.url, autocommit=True) as connection:
        connection.execute(JOBS.encode(), (finished,))
        connection.execute(ATTEMPTS.encode())
        one.add(0, ready)
        for table in ("jobs", "tabellion_attempts"):
            connection.execute(f"VACUUM ANALYZE {table}".encode())
        connection.execute("CHECKPOINT")


def settle_once(one: ours.Ours) -> tuple[float, float]:
    """Return the milliseconds of one claim of 100 and of their settlement."""
    began = time.perf_counter()
    jobs = one.wait(one.store.claim(queue, ours.CLAIM, "bench"))
    claimed = time.perf_counter()
    assert len(jobs) == ours.CLAIM
    verdicts = one.wait(one.store.settle([Settlement(job, "done") for job in jobs]))
    assert all(verdict.outcome == "done" for verdict in verdicts)
    return (claimed - began) * 1000, (time.perf_counter() - claimed) * 1000


def drain(bench: Bench, one: ours.Ours, *, pruning: float | None = None) -> float:
    """Return jobs per second of one worker, with or without a process that removes attempts older than `pruning`."""
    one.add(0, bench.jobs)
    pruner = None
    if pruning is not None:
        command = [sys.executable, "-c", PRUNER, one.url, str(pruning)]
        pruner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert pruner.stdout is not None
        assert pruner.stdout.readline() == b"ready\n", "the pruner did not come up"
    try:
        return trial.drain(one.peer(""), bench.options(one.url, bench.jobs)).rate
    finally:
        if pruner is not None:
            pruner.kill()
            pruner.wait()


async def walk(one: ours.Ours, keep: float, most: float) -> tuple[int, int, float]:
    """Return how many attempts were removed and windows looked at, in how many seconds."""
    rule, position, removed, windows = AttemptsRule([queue], keep), None, 0, 0
    began = time.monotonic()
    while True:
        step = await rule.step(one.store, position)
        removed, windows, position = removed + step.removed, windows + 1, step.position
        seconds = time.monotonic() - began
        if position is None or seconds > most:
            return removed, windows, seconds


def main() -> None:
    """Run everything, one measurement after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=10_000_000)
    parser.add_argument("--pairs", type=int, default=6, help="of drains")
    parser.add_argument("--jobs", type=int, default=20_000, help="of a drain")
    asked = parser.parse_args()
    with postgres(durable=True) as server:
        bench = Bench(server, asked.jobs)
        with bench.database() as many_url, bench.database() as few_url:
            many, few = ours.Ours("tabellion", many_url), ours.Ours("tabellion", few_url)
            began = time.monotonic()
            fill(many, asked.attempts, TURNS * ours.CLAIM)
            fill(few, 10_000, TURNS * ours.CLAIM)
            print(f"  filled in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            pairs = []
            for turn in range(TURNS):
                first, second = (many, few) if turn % 2 else (few, many)
                found = {one: settle_once(one) for one in (first, second)}
                pairs.append((found[many], found[few]))
            name = f"{asked.attempts:,} settled"
            for place, what in enumerate(("claim", "settle")):
                values = [(large[place], small[place]) for large, small in pairs[10:]]
                print(Pairs(f"{what} of {ours.CLAIM}, ms", name, "10,000", values, 1.1, True), flush=True)
            values = alternate(asked.pairs, lambda: drain(bench, many, pruning=100 * DAY), lambda: drain(bench, many))
            print(Pairs(f"drain beside {name}, jobs/s", "while pruning", "without", values), flush=True)
            for keep, what in ((50 * DAY, "that removes"), (1000 * DAY, "that removes nothing")):
                removed, windows, seconds = many.wait(walk(many, keep, 30.0))
                print(
                    f"a walk {what}: {removed:,} attempts ({removed / seconds:,.0f}/s), {windows:,} windows of 256 kB "
                    f"({windows / seconds:,.0f}/s) in {seconds:.1f} s",
                    flush=True,
                )
            for one in (many, few):
                one.wait(one.store.close())
                one.loop.close()


if __name__ == "__main__":
    main()
