"""Claims whose lease has expired: how each is settled, with the evidence as its error."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.moves import native_key
from tabellion.engine.settlement import Settlement, charging_outcomes
from tabellion.engine.sql import NOW
from tabellion.engine.tables.declaration import Bound
from tabellion.messages import Message

BATCH = 500
CRASHES_ALLOWED = 2  # in a row, unless the queue declares max_crashes


async def find_expired(database: Database, bound: Bound) -> list[Settlement]:
    """The settlements of this queue's expired claims, BATCH at most, the oldest first."""
    queue = bound.queue
    limit = f"t.{sql.column(queue.max_attempts)}" if isinstance(queue.max_attempts, str) else "NULL"
    rows = await database.fetch(
        f"""SELECT a.key, a.n, CAST(a.token AS text) AS token, a.attempt, a.crashes, a.worker, a.note,
  {sql.epoch("a.claimed_at", database.dialect)} AS claimed_at,
  {sql.epoch(NOW, database.dialect)} AS now, w.host, w.pid, w.ending, {limit} AS bound
FROM tabellion_attempts AS a
LEFT JOIN tabellion_workers AS w ON w.id = a.worker
LEFT JOIN {sql.name(queue.table)} AS t ON t.{sql.column(bound.key.name)} = {native_key(bound, "a.key")}
WHERE a.queue = $1 AND a.settled_at IS NULL AND a.lease_until < {NOW}
ORDER BY a.claimed_at LIMIT {BATCH}""",
        queue.name,
    )
    return [_settlement(bound, row) for row in rows]


def _settlement(bound: Bound, row: Mapping[str, Any]) -> Settlement:
    queue = bound.queue
    limit = queue.bounds({} if row["bound"] is None else {str(queue.max_attempts): row["bound"]})
    job = bound.job(row)
    evidence, seconds = _evidence(row), row["now"] - row["claimed_at"]
    if row["crashes"] + 1 >= (queue.max_crashes or CRASHES_ALLOWED):
        error = Message("attempt.quarantined", n=row["crashes"] + 1, detail=evidence)
        return Settlement(job, "quarantined", error=error, expired_only=True, seconds=seconds)
    if row["attempt"] >= limit and "crashed" in charging_outcomes(queue):
        return Settlement(
            job,
            "failed",
            error=Message("attempt.crashed_last", n=row["attempt"], detail=evidence),
            expired_only=True,
            seconds=seconds,
        )
    return Settlement(job, "crashed", error=evidence, expired_only=True, seconds=seconds)


def _evidence(row: Mapping[str, Any]) -> Message:
    """What is known about an expired claim, as its error."""
    worker: str = row["worker"]
    if row["host"]:
        worker = Message("attempt.worker_on", worker=worker, host=row["host"], pid=str(row["pid"]))
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["claimed_at"]))
    ending = row["ending"] or Message("attempt.lease_not_renewed")
    evidence = {"worker": worker, "how": ending, "since": since}
    return (
        Message("attempt.lease_lost_note", **evidence, note=row["note"])
        if row["note"]
        else Message("attempt.lease_lost", **evidence)
    )
