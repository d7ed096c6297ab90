"""Counts the rows of a queue in each state, and finds the oldest ready row."""

from __future__ import annotations

from dataclasses import dataclass, field

from tabellion.engine import sql
from tabellion.engine.declaration import Bound
from tabellion.engine.queue import STATES, StateName
from tabellion.engine.store import Store
from tabellion.errors import DeclarationError, Forbidden
from tabellion.monitor.pace import AnswerCache
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
    oldest_at: float | None = None  #: when the oldest ready row was created, in seconds since 1970
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
    rows = await store.database.fetch(
        f"""SELECT count(*) AS n, min(born) AS oldest
FROM (SELECT {created_sql or "CAST(NULL AS double precision)"} AS born FROM {sql.name(queue.table)} AS t
  WHERE {condition} LIMIT {MOST}) AS s"""
    )
    oldest = rows[0]["oldest"]
    return int(rows[0]["n"]), None if oldest is None else float(oldest)


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
