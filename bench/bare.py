"""The limits: the engine's own rows, written by the shortest possible loop, without a worker and a handler.

Claim is one statement (row to running, attempt inserted), finish is one statement (attempt settled under
its token, row to done), nothing in between. What the engine is slower than this is its own doing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import time
from collections.abc import Awaitable
from pathlib import Path

import asyncpg

from bench.measure import DRAIN, ENQUEUE, JOBS_PER_SECOND, ROWS_PER_SECOND, Result, emit, latency
from bench.peers import trial
from bench.processes import worker

POSTGRES = "bare/postgres"
SQLITE = "bare/sqlite"
NOTIFY = "bare/notify"
CHANNEL = "bench"
BATCHES = (100, 500)
CONNECTIONS = (1, 2)
LEASE_SECONDS = 60.0
WORKER = "worker-bench-1-00000000"

ATTEMPT_COLUMNS = """
    queue text NOT NULL, key text NOT NULL, n int NOT NULL, token {token} NOT NULL,
    attempt int NOT NULL, crashes int NOT NULL, deferrals int NOT NULL, first_at {time} NOT NULL,
    worker text NOT NULL, claimed_at {time} NOT NULL, lease_until {time} NOT NULL, settled_at {time},
    outcome text, retry_at {time}, error text, note text, PRIMARY KEY (queue, key, n)
"""
INDEXES = (
    "CREATE INDEX jobs_ready ON jobs (created_at, id) WHERE status = 'ready'",
    "CREATE UNIQUE INDEX tabellion_attempts_live ON tabellion_attempts (queue, key) WHERE settled_at IS NULL",
)
POSTGRES_SCHEMA = (
    "DROP TABLE IF EXISTS jobs, tabellion_attempts",
    """CREATE TABLE jobs (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, status text NOT NULL,
       payload text, created_at timestamptz NOT NULL DEFAULT now())""",
    f"CREATE TABLE tabellion_attempts ({ATTEMPT_COLUMNS.format(token='uuid', time='timestamptz')})",
    *INDEXES,
)
SQLITE_SCHEMA = (
    """CREATE TABLE jobs (id integer PRIMARY KEY, status text NOT NULL, payload text,
       created_at real NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0))""",
    f"CREATE TABLE tabellion_attempts ({ATTEMPT_COLUMNS.format(token='text', time='real')}) WITHOUT ROWID",
    *INDEXES,
)

# Every row done, and as many attempts settled: the primary key lets no row have two of them.
DONE = """
    SELECT (SELECT count(*) FROM jobs WHERE status = 'done') * CASE WHEN (
        SELECT count(*) FROM tabellion_attempts WHERE outcome = 'done' AND settled_at IS NOT NULL
    ) = (SELECT count(*) FROM jobs) THEN 1 ELSE 0 END
"""

POSTGRES_CLAIM = f"""
    WITH picked AS MATERIALIZED (
        SELECT id FROM jobs WHERE status = 'ready' ORDER BY created_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE jobs SET status = 'running' WHERE id = ANY (ARRAY(SELECT id FROM picked)) AND status = 'ready'
        RETURNING id, payload, gen_random_uuid() AS token
    ), registered AS (
        INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, first_at, worker,
                                        claimed_at, lease_until)
        SELECT 'jobs', id::text, 1, token, 1, 0, 0, now(), $2, now(), now() + interval '{LEASE_SECONDS} s'
        FROM claimed
    )
    SELECT id, payload, token FROM claimed
"""
# Arrays, not a join with unnest: once PostgreSQL caches a generic plan for the prepared statement, settling
# 500 took 48 ms by the join and 7 by arrays (6 for both with custom plans). A token belongs to one attempt
# only, so key and token need not be matched pairwise.
POSTGRES_FINISH = """
    WITH settled AS (
        UPDATE tabellion_attempts SET settled_at = now(), outcome = 'done'
        WHERE queue = 'jobs' AND key = ANY ($1::text[]) AND n = 1 AND token = ANY ($2::uuid[])
          AND settled_at IS NULL
        RETURNING key::bigint AS id
    )
    UPDATE jobs SET status = 'done' WHERE id = ANY (ARRAY(SELECT id FROM settled)) AND status = 'running'
"""
SQLITE_CLAIM = """
    UPDATE jobs SET status = 'running' WHERE id IN (
        SELECT id FROM jobs WHERE status = 'ready' ORDER BY created_at, id LIMIT ?
    ) RETURNING id, payload
"""
SQLITE_REGISTER = """
    INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, first_at, worker,
                                    claimed_at, lease_until)
    VALUES ('jobs', ?, 1, ?, 1, 0, 0, ?, ?, ?, ?)
"""
SQLITE_SETTLE = """
    UPDATE tabellion_attempts SET settled_at = ?, outcome = 'done'
    WHERE queue = 'jobs' AND key IN (SELECT value FROM json_each(?)) AND n = 1
      AND token IN (SELECT value FROM json_each(?)) AND settled_at IS NULL
"""
SQLITE_DONE = """
    UPDATE jobs SET status = 'done' WHERE id IN (SELECT value FROM json_each(?)) AND status = 'running'
"""


async def postgres_schema(connection: asyncpg.Connection) -> None:
    """Empty tables."""
    for statement in POSTGRES_SCHEMA:
        await connection.execute(statement)


async def copy_rows(connection: asyncpg.Connection, jobs: int) -> None:
    """Enqueue by COPY."""
    rows = [("ready", str(n)) for n in range(jobs)]
    await connection.copy_records_to_table("jobs", records=rows, columns=("status", "payload"))


async def unnest_rows(connection: asyncpg.Connection, jobs: int) -> None:
    """Enqueue by one INSERT of an unnested array."""
    payloads = [str(n) for n in range(jobs)]
    await connection.execute("INSERT INTO jobs (status, payload) SELECT 'ready', unnest($1::text[])", payloads)


async def postgres_loop(connection: asyncpg.Connection, batch: int) -> int:
    """Claim and finish until nothing is ready; return the number of rows."""
    claim = await connection.prepare(POSTGRES_CLAIM)
    finish = await connection.prepare(POSTGRES_FINISH)
    done = 0
    while rows := await claim.fetch(batch, WORKER):
        await finish.fetch([str(row["id"]) for row in rows], [row["token"] for row in rows])
        done += len(rows)
    return done


async def postgres(url: str, jobs: int) -> list[Result]:
    """Enqueue by COPY and unnest; drain by each batch size on one and two connections of one process."""
    pool = [await asyncpg.connect(url) for _ in range(max(CONNECTIONS))]
    first = pool[0]
    results = []
    for name, enqueue in (("COPY", copy_rows), ("unnest", unnest_rows)):
        await postgres_schema(first)
        seconds = await timed(enqueue(first, jobs))
        results.append(Result(POSTGRES, f"{ENQUEUE} {name}", jobs / seconds, ROWS_PER_SECOND))
    for batch in BATCHES:
        for connections in CONNECTIONS:
            await postgres_schema(first)
            await copy_rows(first, jobs)
            await first.execute("ANALYZE jobs")
            await first.execute("CHECKPOINT")
            seconds = await timed(asyncio.gather(*(postgres_loop(each, batch) for each in pool[:connections])))
            done = await first.fetchval(DONE)
            verify(done, jobs)
            results.append(drained(POSTGRES, batch, jobs / seconds, f", {connections} conn"))
    for connection in pool:
        await connection.close()
    return [*results, best(POSTGRES, results)]


async def timed(work: Awaitable[object]) -> float:
    """Return the seconds that the awaited work took."""
    started = time.monotonic()
    await work
    return time.monotonic() - started


def sqlite_open(path: str) -> sqlite3.Connection:
    """An empty database as the engine opens its own: write-ahead log, synchronous FULL."""
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    for statement in SQLITE_SCHEMA:
        connection.execute(statement)
    return connection


def sqlite_enqueue(connection: sqlite3.Connection, jobs: int) -> None:
    """Enqueue by one executemany in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO jobs (status, payload) VALUES ('ready', ?)", ((str(n),) for n in range(jobs)))
    connection.execute("COMMIT")


def sqlite_loop(connection: sqlite3.Connection, batch: int) -> None:
    """Claim and finish, each in one immediate transaction, until nothing is ready."""
    while True:
        connection.execute("BEGIN IMMEDIATE")
        now = time.time()
        ids = [row[0] for row in connection.execute(SQLITE_CLAIM, (batch,)).fetchall()]
        keys = [str(id_) for id_ in ids]
        tokens = [os.urandom(16).hex() for _ in ids]
        until = now + LEASE_SECONDS
        attempts = [(key, token, now, WORKER, now, until) for key, token in zip(keys, tokens, strict=True)]
        connection.executemany(SQLITE_REGISTER, attempts)
        connection.execute("COMMIT")
        if not ids:
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SQLITE_SETTLE, (time.time(), json.dumps(keys), json.dumps(tokens)))
        connection.execute(SQLITE_DONE, (json.dumps(ids),))
        connection.execute("COMMIT")


def sqlite(path: str, jobs: int) -> list[Result]:
    """Enqueue by executemany; drain by each batch size."""
    results: list[Result] = []
    for batch in BATCHES:
        connection = sqlite_open(path)
        started = time.monotonic()
        sqlite_enqueue(connection, jobs)
        enqueued = time.monotonic()
        sqlite_loop(connection, batch)
        ended = time.monotonic()
        (done,) = connection.execute(DONE).fetchone()
        verify(done, jobs)
        connection.close()
        if not results:
            rate = jobs / (enqueued - started)
            results.append(Result(SQLITE, f"{ENQUEUE} executemany", rate, ROWS_PER_SECOND))
        results.append(drained(SQLITE, batch, jobs / (ended - enqueued)))
    return [*results, best(SQLITE, results)]


async def listen(url: str) -> None:
    """Listen without an engine: woken by NOTIFY, claim the row and note the time, until ended."""
    tally = trial.tally_from_environment()
    ears, hands = await asyncpg.connect(url), await asyncpg.connect(url)
    claim = await hands.prepare(
        "UPDATE jobs SET status = 'running' WHERE id IN (SELECT id FROM jobs WHERE status = 'ready'"
        " ORDER BY created_at, id LIMIT 100 FOR UPDATE SKIP LOCKED) RETURNING payload"
    )
    woken = asyncio.Event()
    await ears.add_listener(CHANNEL, lambda *_: woken.set())
    woken.set()
    while await woken.wait():
        woken.clear()
        for row in await claim.fetch():
            tally.mark(int(row["payload"]))


async def notify(url: str, samples: int) -> list[Result]:
    """Measure the pick-up latency of INSERT and NOTIFY in one transaction, to a listener in another process."""
    connection = await asyncpg.connect(url)
    await postgres_schema(connection)
    insert = await connection.prepare(
        "WITH added AS (INSERT INTO jobs (status, payload) VALUES ('ready', $1) RETURNING id)"
        f" SELECT pg_notify('{CHANNEL}', '') FROM added"
    )
    total = trial.WARM_UP_JOBS + samples
    sent = []
    with trial.tally_file() as tally:
        env = {trial.TALLY_VARIABLE: str(tally.path), trial.URL_VARIABLE: url}
        with worker(trial.module_command(__spec__.name), env):
            for number in range(total):
                await asyncio.sleep(random.uniform(*trial.GAP_SECONDS))
                sent.append(time.monotonic())
                await insert.fetch(str(number))
                tally.await_count(number + 1, trial.PICKUP_LIMIT if number else trial.START_LIMIT)
            tally.verify(total)
            arrived = dict(tally.read())
    await connection.close()
    return latency(NOTIFY, [arrived[number] - sent[number] for number in range(trial.WARM_UP_JOBS, total)])


def drained(system: str, batch: int, rate: float, detail: str = "") -> Result:
    """The drain of one variant."""
    return Result(system, f"{DRAIN} by {batch}{detail}", rate, JOBS_PER_SECOND)


def best(system: str, results: list[Result]) -> Result:
    """Return the actual limit: the fastest of the variants, named `drain` like every system's own figure."""
    fastest = max((result for result in results if result.what.startswith(DRAIN)), key=lambda result: result.value)
    return Result(system, DRAIN, fastest.value, JOBS_PER_SECOND, f"best of its variants: {fastest.what}")


def verify(done: int, jobs: int) -> None:
    """Raise unless every row was claimed, registered, settled and finished once."""
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} rows were done")


def main() -> None:
    chosen = trial.options(__doc__)
    if chosen.url:
        emit(asyncio.run(postgres(chosen.url, chosen.jobs)), as_json=chosen.json)
        emit(asyncio.run(notify(chosen.url, chosen.samples)), as_json=chosen.json)
    if chosen.sqlite:
        emit(sqlite(chosen.sqlite, chosen.jobs), as_json=chosen.json)


if __name__ == "__main__":
    if trial.is_worker():
        asyncio.run(listen(os.environ[trial.URL_VARIABLE]))
    else:
        main()
