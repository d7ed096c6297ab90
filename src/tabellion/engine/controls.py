"""Operators' commands on queues and jobs: pause, resume, limit, retry, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabellion.engine import control_rows, sql
from tabellion.engine.moves import Numbered, at_cancel, at_restart, native_key, texts
from tabellion.engine.queue import Queue
from tabellion.engine.recovery.parking import is_parked
from tabellion.engine.settlement import CONTINUING, Settlement
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import ValueRefused

MANY = 1000


async def pause(store: Store, queue: Queue, reason: str = "") -> None:
    """Stops claims from this queue in all workers; running jobs continue."""
    await _control(store, control_rows.pause(queue.name, reason))


async def resume(store: Store, queue: Queue) -> None:
    """Allows claims from a paused queue again."""
    await _control(store, control_rows.resume(queue.name))
    await store.database.wake()


async def limit(store: Store, queue: Queue, running: int | None) -> None:
    """Sets how many jobs of this queue may run at once in all workers together; None restores the declared limit."""
    await _control(store, control_rows.limit(queue.name, running))
    await store.database.wake()


async def restart(store: Store, queue: Queue, keys: Sequence[Any] | None = None, error: str | None = None) -> int:
    """Puts failed rows, and parked ones, back to ready with all counters reset; returns how many.

    `keys` names them; `error` takes those whose last error contains this text; neither takes every failed row.
    """
    bound = await store.bind(queue)
    d, key = store.dialect, sql.column(bound.key.name)
    text_key = f"CAST(t.{key} AS text)"
    conditions, values = [f"({queue.condition('failed', d)} OR {is_parked(bound)})"], [queue.name]
    if error is not None:
        values.append(error)
        # The attempt that failed the row is its last one: only its error counts.
        conditions.append(
            f"""EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = {text_key}
  AND {_contains("a.error", f"${len(values)}", d)}
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = $1 AND m.key = {text_key}))"""
        )
    moved = 0
    batches = [keys[start : start + MANY] for start in range(0, len(keys), MANY)] if keys is not None else [None]
    for batch in batches:
        chosen, batch_values, key_filter = list(conditions), list(values), ""
        if batch is not None:
            marks = []
            for row_key in batch:
                batch_values.append(str(row_key))
                marks.append(f"${len(batch_values)}")
            natives = ", ".join(native_key(bound, mark) for mark in marks)
            chosen.append(f"t.{key} IN ({natives})" if marks else "1 = 0")
            key_filter = f"AND a.key IN ({', '.join(marks)})" if marks else "AND 1 = 0"
        where = " AND ".join(chosen)
        waiting = _close_waiting(bound, f"{where} {key_filter}", "outcome = 'superseded', retry_at = NULL")
        update = f"""UPDATE {sql.name(queue.table)} AS t SET {at_restart(bound)} WHERE {where}
AND CAST($1 AS text) IS NOT NULL RETURNING 1 AS moved"""
        moved += len((await store.database.transact([(waiting, batch_values), (update, batch_values)]))[1])
    await store.database.wake()
    return moved


async def cancel(store: Store, queue: Queue, key: Any, reason: str = "cancelled", by: str = "") -> bool:
    """Stops a job: a waiting or parked one fails at once, a running one loses its claim and its handler is stopped.

    The register keeps the reason, the time and the user.
    """
    bound = await store.bind(queue)
    error = f"{reason} (by {by})" if by else reason
    if job := await store.find_claim(queue, key):
        mirror = queue.mirrors.get("error")
        written = {mirror: reason[: bound.column(mirror).length]} if mirror else {}
        [verdict] = await store.settle([Settlement(job, "cancelled", written, error=error)])
        await ask_for_leases(store, queue)
        if verdict.outcome == "parked":
            raise ValueRefused(verdict.error or "")
        if verdict.is_accepted:
            return True
        # The row's owner had put it back to ready: the claim has ended, and the row is cancelled like any waiting one.
    # The row first: its lock keeps other processes from adding an attempt meanwhile.
    update = f"""UPDATE {sql.name(queue.table)} AS t SET {at_cancel(bound, error="$3")}
WHERE t.{sql.column(bound.key.name)} = {native_key(bound, "$2")}
  AND ({sql.holds(queue.states["ready"], store.dialect)} OR {is_parked(bound)})
  AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = $2 AND a.settled_at IS NULL)
  AND CAST($3 AS text) IS NOT NULL RETURNING 1 AS moved"""
    no_wait = """UPDATE tabellion_attempts SET retry_at = NULL
WHERE queue = $1 AND key = $2 AND retry_at IS NOT NULL AND settled_at IS NOT NULL"""
    token = "gen_random_uuid()" if store.dialect == "postgresql" else "lower(hex(randomblob(16)))"
    trace = f"""INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
  claimed_at, lease_until, settled_at, outcome, error)
SELECT $1, $2, coalesce(max(n), 0) + 1, {token}, 0, 0, 0, $4, {NOW}, {NOW}, {NOW}, {NOW}, 'cancelled', $3
FROM tabellion_attempts WHERE queue = $1 AND key = $2"""
    identity = (queue.name, str(key))
    steps = [(update, (*identity, reason)), (no_wait, identity), (trace, (*identity, error, by or "cancel"))]
    return bool(await store.database.transact(steps, guarded=True))


def end_wait(queue: str, key: str) -> tuple[str, dict[str, Any]]:
    """The statement that makes a row that is due later due now; its next claim counts from the first attempt.

    A row that does not wait, and the record of attempts before the last one, stay as they are.
    """
    text = f"""UPDATE tabellion_attempts SET outcome = 'superseded', retry_at = NULL
WHERE queue = :queue AND key = :key AND outcome IN ({texts(CONTINUING)})
  AND n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = :queue AND m.key = :key)"""
    return text, {"queue": queue, "key": key}


def _close_waiting(bound: Bound, where: str, changes: str) -> str:
    """$1 queue: ends the wait of rows that are due later, so that their next claim counts from the first attempt."""
    continuing = texts(CONTINUING)
    return f"""UPDATE tabellion_attempts AS a SET {changes}
WHERE a.queue = $1 AND a.outcome IN ({continuing})
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = a.queue AND m.key = a.key)
  AND EXISTS (SELECT 1 FROM {sql.name(bound.queue.table)} AS t
    WHERE t.{sql.column(bound.key.name)} = {native_key(bound, "a.key")} AND {where})"""


async def _control(store: Store, statement: Numbered) -> None:
    await store.open()
    text, values = statement
    await store.database.fetch(text, *values)


async def ask_for_leases(store: Store, queue: Queue) -> None:
    """Makes workers renew their leases now, so that they notice a lost claim before the next renewal is due."""
    await _control(store, control_rows.touch(queue.name))


def _contains(column: str, mark: str, dialect: sql.Dialect) -> str:
    return f"strpos({column}, {mark}) > 0" if dialect == "postgresql" else f"instr({column}, {mark}) > 0"
