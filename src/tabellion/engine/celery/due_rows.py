"""Finds rows that are ready, due and not claimed: what a worker would claim now, without claiming it."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.moves import extra_condition
from tabellion.engine.sql import NOW
from tabellion.engine.tables.declaration import Bound

#: As in a claim, statistics that are out of date must not make PostgreSQL read the whole table.
_PINNED = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"


async def find_due_keys(database: Database, bound: Bound, most: int) -> list[str]:
    """The keys of due rows, in any order; none while the queue is paused."""
    queue, d = bound.queue, database.dialect
    key = f"CAST(t.{sql.column(bound.key.name)} AS text)"
    statement = f"""SELECT {key} AS key FROM {sql.name(queue.table)} AS t
WHERE {sql.holds(queue.states["ready"], d)} {extra_condition(bound)}
  AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = {key}
    AND (a.settled_at IS NULL OR a.retry_at > {NOW})
    AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = $1 AND m.key = {key}))
  AND NOT EXISTS (SELECT 1 FROM tabellion_queues AS q WHERE q.queue = $1 AND q.paused_at IS NOT NULL)
LIMIT {most}"""
    find = (statement, (queue.name,))
    rows = (await database.transact([(_PINNED, ()), find] if d == "postgresql" else [find]))[-1]
    return [row["key"] for row in rows]


async def count_running(database: Database, queue: str) -> int:
    """How many rows of a queue are claimed, by any worker."""
    rows = await database.fetch(
        "SELECT count(*) AS n FROM tabellion_attempts WHERE queue = $1 AND settled_at IS NULL", queue
    )
    return int(rows[0]["n"])
