"""Gates under load: a fleet of workers against a fake model whose quota changes, fails and recovers.

    python -m bench.gates fleet [--profile adaptive] [--processes 8] [--callers 25]
    python -m bench.gates windows [--full] [--windows fixed:20 sliding:60 …] [--hints bare full] [--rates 10 20 5]
    python -m bench.gates outage
    python -m bench.gates calls      # 1,000 concurrent calls of 3 s in one process

Everything is measured by the fake's own log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from tests.servers import postgres
from tests.table_owner import Owner

from tabellion import Environment, Job, Queue, Worker
from tabellion.engine.gates.state import GateSettings
from tabellion.models.catalog import make
from tabellion.models.fake.serving import Serving, serving
from tabellion.models.gated import GatedModel

TABLE = """CREATE TABLE pages (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'new', kind text NOT NULL,
  added_at timestamptz NOT NULL DEFAULT clock_timestamp())"""
INDEX = "CREATE INDEX pages_ready ON pages (id) WHERE status = 'new'"
ORDERS = "TABELLION_BENCH_ORDERS"


def queues() -> tuple[Queue, Queue]:
    """Return queues on one table: pages that a model reads, and others that need none."""
    states: dict[str, Any] = {"ready": "new", "done": "done", "failed": "failed"}
    gated = Queue("pages", name="gated", where="kind = 'gated'", running="reading", uses="gemini", **states)
    plain = Queue("pages", name="plain", where="kind = 'plain'", running="looking", **states)
    return gated, plain


def work() -> None:
    """Run one worker process."""
    orders = json.loads(os.environ[ORDERS])
    gated, plain = queues()
    gemini = GatedModel(make("gemini", {"key": "bench", "base_url": orders["fake"]}), memo=False)

    @gated.handler
    async def read(job: Job) -> None:
        await gemini.call([f"page {job.key}"])

    @plain.handler
    async def look(job: Job) -> None:
        pass

    Worker(
        [Environment("bench", orders["url"])], [gated, plain], concurrency=orders["callers"],
        gates={"gemini": GateSettings(**orders["settings"])},
    ).run()  # fmt: skip


@contextlib.contextmanager
def fleet(url: str, fake: Serving, processes: int, callers: int, **settings: Any) -> Iterator[None]:
    """Run worker processes for the duration of a block."""
    orders = json.dumps({"url": url, "fake": fake.url, "callers": callers, "settings": settings})
    children = [
        subprocess.Popen([sys.executable, "-m", "bench.gates", "worker"], env=os.environ | {ORDERS: orders})
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(60)


def add(owner: Owner, first: int, count: int, kind: str) -> None:
    last = first + count - 1
    owner(f"INSERT INTO pages (id, kind) SELECT n, '{kind}' FROM generate_series({first}::bigint, {last}::bigint) AS n")
    owner("NOTIFY tabellion")


def share(lines: list[dict[str, Any]], begin: float, end: float, quota: float) -> str:
    within = [line["status"] for line in lines if begin <= line["time"] < end]
    accepted = sum(status == 200 for status in within)
    return (
        f"{accepted / (end - begin):6.1f}/s of {quota:g} = {accepted / (end - begin) / quota:6.1%}, "
        f"429s {sum(status == 429 for status in within)} of {len(within)} = "
        f"{sum(status == 429 for status in within) / max(1, len(within)):.2%}"
    )


def fleet_limit(profile: str, processes: int, callers: int, phase: float) -> None:
    """Run against a quota of 20, then 60, then 5 calls a second."""
    with postgres(durable=True) as server, serving(rate=20, latency=0.3) as fake:
        owner = Owner(server.url)
        owner(TABLE)
        owner(INDEX)
        add(owner, 1, 30_000, "gated")
        bounds = {"min_rate": 0.1, "max_rate": 1000} if profile == "adaptive" else {}
        with fleet(server.url, fake, processes, callers, profile=profile, **bounds):
            while not fake.report()["requests"]:
                time.sleep(0.05)
            began = time.time()
            for quota, learning in ((20, 15.0), (60, 30.0), (5, 30.0)):
                fake.change(rate=quota)
                start = time.time()
                time.sleep(learning + phase)
                line = share(fake.lines(), start + learning, start + learning + phase, quota)
                print(f"{profile}: {start - began:5.0f} s: after {learning:g} s of learning {line}", flush=True)
        spent = owner("SELECT max(attempt) AS n, count(*) AS attempts FROM tabellion_attempts")
        outcomes = owner("SELECT outcome, count(*) AS n FROM tabellion_attempts GROUP BY outcome")
        print(
            f"{profile}: highest attempt number {spent[0]['n']}; outcomes {[(o['outcome'], o['n']) for o in outcomes]}"
        )


def outage(processes: int, callers: int, seconds: float, recovery: float) -> None:
    """Run against a model that answers 503 at once for two minutes, with a demand of 100 jobs a second."""
    with postgres(durable=True) as server, serving(latency=0.1) as fake:
        owner = Owner(server.url)
        owner(TABLE)
        owner(INDEX)
        with fleet(server.url, fake, processes, callers, rate=200, max_rate=1000, recovery=recovery):
            while not owner("SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'tabellion'")[0]["n"]:
                time.sleep(0.1)
            began, ticks, marks = time.time(), 0, dict[str, float]()
            while time.time() - began < seconds + 20:
                ticks += 1
                add(owner, ticks, 1, "gated")
                if ticks % 10 == 0:
                    add(owner, 1_000_000 + ticks, 1, "plain")
                at = time.time() - began
                if at >= 10 and "down" not in marks:
                    marks["down"] = time.time()
                    fake.change(knobs="503", latency=0)
                elif at >= 10 + seconds and "up" not in marks:
                    marks["up"] = time.time()
                    fake.change(knobs="", latency=0.1)
                time.sleep(max(0.0, began + ticks * 0.01 - time.time()))
            until = time.time() + 180
            while owner("SELECT 1 AS open FROM pages WHERE status NOT IN ('done', 'failed') LIMIT 1"):
                if time.time() > until:
                    break
                time.sleep(0.5)
            seen = [line for line in fake.lines() if line["status"] == 503]
            when = [round(line["time"] - marks["down"], 2) for line in seen]
            print(f"requests during {seconds:g} s of outage: {len(seen)}, after {when} s")
            left = owner("SELECT status, count(*) AS n FROM pages GROUP BY status")
            spent = owner("SELECT max(attempt) AS n FROM tabellion_attempts")[0]["n"]
            print(f"jobs: {[(row['status'], row['n']) for row in left]}; highest attempt number {spent}")
            waits = owner(f"""SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY w) AS median, max(w) AS slowest FROM (
SELECT extract(epoch FROM a.claimed_at - p.added_at) AS w FROM pages AS p JOIN tabellion_attempts AS a
ON a.queue = 'plain' AND a.key = p.id::text WHERE p.added_at BETWEEN to_timestamp({marks["down"]})
AND to_timestamp({marks["up"]})) AS waits""")[0]
            print(f"other queue's jobs meanwhile: median {waits['median'] * 1000:.1f} ms, "
                  f"slowest {waits['slowest'] * 1000:.1f} ms to be claimed")  # fmt: skip


def calls(count: int, seconds: float, latency: float) -> None:
    """Run one process with many calls in flight."""
    with postgres(durable=True) as server, serving(latency=latency) as fake:
        orders = {"url": server.url, "fake": fake.url, "count": count, "seconds": seconds}
        subprocess.run(
            [sys.executable, "-m", "bench.gates", "caller"], env=os.environ | {ORDERS: json.dumps(orders)}, check=True
        )
        lines = [line["time"] + line["seconds"] for line in fake.lines() if line["status"] == 200]
        begin, end = min(lines) + latency, max(lines) - latency
        rate = sum(begin <= at < end for at in lines) / (end - begin)
        ideal = count / latency
        print(f"{count} calls of {latency:g} s at once: {rate:.1f} replies/s of {ideal:.1f} = {rate / ideal:.1%}")


def caller() -> None:
    orders = json.loads(os.environ[ORDERS])

    async def go() -> None:
        from tabellion.engine.context import OpenContext

        rate = GateSettings(rate=5000, min_rate=5000, max_rate=5000)
        async with OpenContext(Environment("bench", orders["url"]), {"gemini": rate}) as context:
            model = GatedModel(
                make("gemini", {"key": "bench", "base_url": orders["fake"]}), context=context, memo=False
            )
            until = time.monotonic() + orders["seconds"]

            async def one(number: int) -> None:
                while time.monotonic() < until:
                    await model.call([f"page {number}"])

            await asyncio.gather(*(one(number) for number in range(orders["count"])))

    asyncio.run(go())
    print(f"peak memory of the calling process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def main() -> None:
    """Run as a command line program."""
    if sys.argv[1:] == ["worker"]:
        return work()
    if sys.argv[1:] == ["caller"]:
        return caller()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["fleet", "windows", "outage", "calls"])
    parser.add_argument("--profile", default="adaptive")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--callers", type=int, default=25)
    parser.add_argument("--phase", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--recovery", type=float, default=60.0)
    parser.add_argument("--full", action="store_true", help="every window of 1, 10, 20 and 60 s, an hour and a half")
    parser.add_argument("--windows", nargs="+", help="instead of the usual ones")
    parser.add_argument("--hints", nargs="+", choices=["bare", "full"], default=["bare"])
    parser.add_argument("--rates", nargs="+", type=float, default=[10.0, 20.0, 5.0])
    parser.add_argument("--learning", type=float, help="seconds before each measurement, instead of five windows")
    given = parser.parse_args()
    processes = given.processes or (4 if given.what == "windows" else 8)
    if given.what == "windows":
        from bench.windows import compare

        compare(given, processes)
    elif given.what == "fleet":
        fleet_limit(given.profile, processes, given.callers, given.phase)
    elif given.what == "outage":
        outage(processes, given.callers, given.seconds, given.recovery)
    else:
        calls(1000, 30.0, 3.0)
    return None


if __name__ == "__main__":
    main()
