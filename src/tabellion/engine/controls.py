"""What people do to queues and jobs while they live: pause, resume, limit, retry, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabellion.engine import sql
from tabellion.engine.declaration import Bound
from tabellion.engine.moves import at_cancel, at_restart, native_key, texts
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import CONTINUING, Settlement
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store

MANY = 1000


async def pause(store: Store, queue: Queue, reason: str = "") -> None:
    """Stops claims from this queue everywhere; jobs that run go on."""
    await _control(store, queue, "paused_at", NOW, reason)


async def resume(store: Store, queue: Queue) -> None:
    """Lets a paused queue be claimed from again."""
    await _control(store, queue, "paused_at", "NULL", None)
    await store.database.wake()


async def limit(store: Store, queue: Queue, running: int | None) -> None:
    """Sets how many jobs of this queue may run at once in all workers together; None takes the declaration's word."""
    await store.open()
    await store.database.fetch(
        f"""INSERT INTO tabellion_queues (queue, running_limit, updated_at) VALUES ($1, $2, {NOW})
ON CONFLICT (queue) DO UPDATE SET running_limit = excluded.running_limit, updated_at = excluded.updated_at""",
        queue.name,
        running,
    )
    await store.database.wake()


async def restart(store: Store, queue: Queue, keys: Sequence[Any] | None = None, error: str | None = None) -> int:
    """Puts failed rows back to ready with all counters reset; returns how many.

    `keys` names them; `error` takes those whose last error contains this text; neither takes every failed row.
    """
    bound = await store.bind(queue)
    d, key = store.dialect, sql.column(bound.key.name)
    text_key = f"CAST(t.{key} AS text)"
    conditions, values = [sql.holds(queue.states["failed"], d)], [queue.name]
    if error is not None:
        values.append(error)
        # The settled attempt that failed the row is its last one: what it says decides.
        conditions.append(
            f"""EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = {text_key}
  AND {_contains("a.error", f"${len(values)}", d)}
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = $1 AND m.key = {text_key}))"""
        )
    moved = 0
    batches = [keys[start : start + MANY] for start in range(0, len(keys), MANY)] if keys is not None else [None]
    for batch in batches:
        chosen, given, named = list(conditions), list(values), ""
        if batch is not None:
            marks = []
            for one in batch:
                given.append(str(one))
                marks.append(f"${len(given)}")
            natives = ", ".join(native_key(bound, mark) for mark in marks)
            chosen.append(f"t.{key} IN ({natives})" if marks else "1 = 0")
            named = f"AND a.key IN ({', '.join(marks)})" if marks else "AND 1 = 0"
        where = " AND ".join(chosen)
        waiting = _close_waiting(bound, f"{where} {named}", "outcome = 'superseded', retry_at = NULL")
        update = f"""UPDATE {sql.name(queue.table)} AS t SET {at_restart(bound)} WHERE {where}
AND CAST($1 AS text) IS NOT NULL RETURNING 1 AS moved"""
        moved += len((await store.database.transact([(waiting, given), (update, given)]))[1])
    await store.database.wake()
    return moved


async def cancel(store: Store, queue: Queue, key: Any, reason: str = "cancelled") -> bool:
    """Stops a job: a waiting one fails at once, a running one loses its claim and its handler is stopped."""
    bound = await store.bind(queue)
    rows = await store.database.fetch(
        """SELECT key, n, CAST(token AS text) AS token, attempt, crashes, worker FROM tabellion_attempts
WHERE queue = $1 AND key = $2 AND settled_at IS NULL""",
        queue.name,
        str(key),
    )
    if rows:
        job = bound.job(rows[0])
        [verdict] = await store.settle([Settlement(job, "cancelled", error=reason)])
        await _touch(store, queue)
        if verdict.accepted:
            return True
        # Its owner had put the row back to ready: the claim is over now, and the row waits like any other.
    where = f"""t.{sql.column(bound.key.name)} = {native_key(bound, "$2")}
AND {sql.holds(queue.states["ready"], store.dialect)}
AND CAST($1 AS text) IS NOT NULL AND CAST($3 AS text) IS NOT NULL"""
    waiting = _close_waiting(bound, f"{where} AND a.key = $2", "outcome = 'cancelled', retry_at = NULL, error = $3")
    update = (
        f"UPDATE {sql.name(queue.table)} AS t SET {at_cancel(bound, error='$3')} WHERE {where} RETURNING 1 AS moved"
    )
    values = (queue.name, str(key), reason)
    return bool((await store.database.transact([(waiting, values), (update, values)]))[1])


def _close_waiting(bound: Bound, where: str, changes: str) -> str:
    """$1 queue: ends the wait of rows that are due later, so that their next claim starts a new life."""
    continuing = texts(CONTINUING)
    return f"""UPDATE tabellion_attempts AS a SET {changes}
WHERE a.queue = $1 AND a.outcome IN ({continuing})
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = a.queue AND m.key = a.key)
  AND EXISTS (SELECT 1 FROM {sql.name(bound.queue.table)} AS t
    WHERE t.{sql.column(bound.key.name)} = {native_key(bound, "a.key")} AND {where})"""


async def _control(store: Store, queue: Queue, column: str, value: str, reason: str | None) -> None:
    await store.open()
    await store.database.fetch(
        f"""INSERT INTO tabellion_queues (queue, {column}, reason, updated_at) VALUES ($1, {value}, $2, {NOW})
ON CONFLICT (queue) DO UPDATE SET {column} = excluded.{column}, reason = excluded.reason,
  updated_at = excluded.updated_at""",
        queue.name,
        reason,
    )


async def _touch(store: Store, queue: Queue) -> None:
    """Makes workers ask for their leases at once, instead of at the next renewal."""
    await store.database.fetch(
        f"""INSERT INTO tabellion_queues (queue, updated_at) VALUES ($1, {NOW})
ON CONFLICT (queue) DO UPDATE SET updated_at = excluded.updated_at""",
        queue.name,
    )


def _contains(column: str, mark: str, dialect: sql.Dialect) -> str:
    return f"strpos({column}, {mark}) > 0" if dialect == "postgresql" else f"instr({column}, {mark}) > 0"
