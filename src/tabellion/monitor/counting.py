"""How many rows of a queue are in each state, and since when the oldest waits."""

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

MOST = 1_000_000  #: rows counted in one state; there may be more
BORN = "created_at"  #: the column that says since when a row waits, where the line's order does not


@dataclass(slots=True)
class QueueCounts:
    """One queue."""

    ready: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    foreign: int = 0  #: running without a claim in the register
    oldest_at: float | None = None  #: when the oldest ready row came to be, in seconds since 1970
    more: list[StateName] = field(default_factory=list)  #: states in which there are more rows than were counted
    problem: str | None = None  #: why it cannot be counted: its table is not as it is declared


async def counts(store: Store, view: QueueView, pace: AnswerCache) -> QueueCounts:
    """Counts each state; large ones are counted less often."""
    try:
        return await _counts(store, view, pace)
    except (DeclarationError, Forbidden) as error:
        return QueueCounts(problem=problem_of(error))


async def _counts(store: Store, view: QueueView, pace: AnswerCache) -> QueueCounts:
    queue = view.queue
    bound = await store.bind(queue)
    made = QueueCounts()
    for state in STATES:
        n, oldest = await pace.answer((queue.name, state), lambda state=state: _count(store, bound, view, state))  # type: ignore[misc]
        setattr(made, state, n)
        if state == "ready":
            made.oldest_at = oldest
        if n >= MOST:
            made.more.append(state)
    if made.running:
        made.foreign = await pace.answer((queue.name, "foreign"), lambda: store.foreign(queue))
    return made


async def _count(store: Store, bound: Bound, view: QueueView, state: StateName) -> tuple[int, float | None]:
    queue, born = bound.queue, _created_at_sql(bound) if state == "ready" else None
    test = view.holds(state, store.dialect)
    if state == "ready" and queue.where:
        test += f" AND (\n{queue.where}\n)"
    rows = await store.database.fetch(
        f"""SELECT count(*) AS n, min(born) AS oldest
FROM (SELECT {born or "CAST(NULL AS double precision)"} AS born FROM {sql.name(queue.table)} AS t
  WHERE {test} LIMIT {MOST}) AS s"""
    )
    oldest = rows[0]["oldest"]
    return int(rows[0]["n"]), None if oldest is None else float(oldest)


def _created_at_sql(bound: Bound) -> str | None:
    """Since when a row has been there, as seconds since 1970; None where no column tells."""
    for name in (BORN, *(column for column, _ in bound.order)):
        column = bound.table.columns.get(name)
        if column is None:
            continue
        dated = column.family == "time" or (name == BORN and column.family in ("number", "integer"))
        if dated or (bound.dialect == "sqlite" and name == BORN and column.family == "text"):
            return sql.mirror_epoch(f"t.{sql.column(name)}", column.family, column.type, bound.dialect)
    return None
