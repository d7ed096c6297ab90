"""Counts the rows of a queue in each state, and finds the oldest row that is ready and due."""

from __future__ import annotations

from dataclasses import dataclass, field

from tabellion.engine import register_tables, sql
from tabellion.engine.queue import STATES, StateName
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import DeclarationError, Forbidden
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.snapshot import problem_of
from tabellion.monitor.view import QueueView

MOST = 1_000_000  #: rows counted per state; there may be more
BORN = "created_at"  #: the column with the creation time, if the queue's order has none


@dataclass(slots=True)
class QueueCounts:
    """The counts of one queue."""

    ready: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    foreign: int = 0  #: running without a claim in the register
    oldest_at: float | None = None  #: when the oldest row that is ready and due was created, in seconds since 1970
    more: list[StateName] = field(default_factory=list)  #: states with more rows than were counted
    problem: str | None = None  #: why it cannot be counted: its table does not match its declaration


async def counts(store: Store, view: QueueView, pace: AnswerCache) -> QueueCounts:
    """Counts each state; large ones are counted less often."""
    try:
        return await _counts(store, view, pace)
    except (DeclarationError, Forbidden) as error:
        return QueueCounts(problem=problem_of(error))


async def _counts(store: Store, view: QueueView, pace: AnswerCache) -> QueueCounts:
    queue = view.queue
    bound = await store.bind(queue)
    result = QueueCounts()
    for state in STATES:
        n, oldest = await pace.answer((queue.name, state), lambda state=state: _count(store, bound, view, state))  # type: ignore[misc]
        setattr(result, state, n)
        if state == "ready":
            result.oldest_at = oldest
        if n >= MOST:
            result.more.append(state)
    if result.running:
        result.foreign = await pace.answer((queue.name, "foreign"), lambda: store.foreign(queue))
    return result


async def _count(store: Store, bound: Bound, view: QueueView, state: StateName) -> tuple[int, float | None]:
    queue, created_sql = bound.queue, created_at_sql(bound) if state == "ready" else None
    condition = view.holds(state, store.dialect)
    if state == "ready" and queue.where:
        condition += f" AND (\n{queue.where}\n)"
    born, join = "CAST(NULL AS double precision)", ""
    values: tuple[object, ...] = ()
    if created_sql is not None:
        join, is_due, values = await join_waiting(store, bound)
        born = f"CASE WHEN {is_due} THEN {created_sql} END"
    rows = await store.database.fetch(
        f"""SELECT count(*) AS n, min(born) AS oldest
FROM (SELECT {born} AS born FROM {sql.name(queue.table)} AS t{join} WHERE {condition} LIMIT {MOST}) AS s""",
        *values,
    )
    oldest = rows[0]["oldest"]
    return int(rows[0]["n"]), None if oldest is None else float(oldest)


async def join_waiting(store: Store, bound: Bound) -> tuple[str, str, tuple[object, ...]]:
    """A join to rows `t`, with which a condition tells those that do not wait for their next try; and its values.

    Not `NOT IN`: PostgreSQL looks through the list for every row once it does not fit into work_mem.
    """
    d, key, values = bound.dialect, sql.column(bound.key.name), (await store.now(), bound.queue.name)
    waiting = f"{register_tables.attempts_due(d)} WHERE a.retry_at > {sql.moment('$1', d)} AND a.queue = $2"
    if not await store.database.fetch(f"SELECT 1 AS one FROM {waiting} LIMIT 1", *values):
        return "", "1 = 1", ()  # with a join, the query takes twice as long or more
    join = f"""
LEFT JOIN (SELECT DISTINCT a.key AS tabellion_waiting FROM {waiting}) AS w
  ON tabellion_waiting = CAST(t.{key} AS text)
"""
    return join, "tabellion_waiting IS NULL", values


def created_at_sql(bound: Bound) -> str | None:
    """The creation time of a row as seconds since 1970; None if no column has it."""
    for name in (BORN, *(column for column, _ in bound.order)):
        column = bound.table.columns.get(name)
        if column is None:
            continue
        is_time = column.family == "time" or (name == BORN and column.family in ("number", "integer"))
        if is_time or (bound.dialect == "sqlite" and name == BORN and column.family == "text"):
            return sql.mirror_epoch(f"t.{sql.column(name)}", column.family, column.type, bound.dialect)
    return None
