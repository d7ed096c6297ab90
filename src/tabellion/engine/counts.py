"""Counts of settled attempts: few rows, written with the settlement itself, so that no page has to read the history.

A row counts one queue's settlements in one period. Each process adds to rows of its own (`writer`), so that writers
never wait for each other; older rows are added up into longer periods.
"""

from __future__ import annotations

from typing import Any

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.settlement import Outcome
from tabellion.engine.sql import NOW, Dialect

SECONDS, MINUTE, HOUR, DAY = 5, 60, 3600, 86_400  #: the periods, in seconds
#: Rows of the first period are added up into the second once they are older than the third number, in seconds.
STEPS = ((SECONDS, MINUTE, 300), (MINUTE, HOUR, 2 * HOUR), (HOUR, DAY, 2 * DAY))
KEPT = 400 * DAY

#: The column that counts an outcome; other outcomes only add their cost.
COLUMN_OF: dict[Outcome, str] = {
    "done": "done", "failed": "failed", "quarantined": "failed", "parked": "failed", "retried": "retried",
    "crashed": "retried",
}  # fmt: skip

_PG: Dialect = "postgresql"
NUMBERS = ("done", "failed", "retried")

_ADD_UP = """ON CONFLICT (period, at, queue, writer) DO UPDATE SET done = tabellion_counts.done + excluded.done,
  failed = tabellion_counts.failed + excluded.failed, retried = tabellion_counts.retried + excluded.retried,
  cost = tabellion_counts.cost + excluded.cost"""
_COLUMNS = "(queue, period, at, writer, done, failed, retried, cost)"


def add_settled(queue: str, outcome: Outcome, writer: str, settled: str) -> str:
    """PostgreSQL: counts the attempts that `settled`, a CTE of the same statement, has settled as `outcome`."""
    numbers = ", ".join("count(*)" if COLUMN_OF.get(outcome) == column else "0" for column in NUMBERS)
    return f"""INSERT INTO tabellion_counts {_COLUMNS}
  SELECT {sql.literal(queue, _PG)}, {SECONDS}, {_period_start(_PG)}, {sql.literal(writer, _PG)}, {numbers},
    coalesce(sum(s.cost), 0) FROM {settled} AS s WHERE s.outcome = {sql.literal(outcome, _PG)}
  HAVING count(*) > 0 {_ADD_UP}"""


def add(dialect: Dialect) -> str:
    """$1 queue, $2 writer, $3 done, $4 failed, $5 retried, $6 cost: adds to the count of the current period."""
    return f"""INSERT INTO tabellion_counts {_COLUMNS}
VALUES ($1, {SECONDS}, {_period_start(dialect)}, $2, $3, $4, $5, $6) {_ADD_UP}"""


def numbers(outcome: Outcome, settled: int, cost: float) -> list[float]:
    """What `settled` settlements of this outcome add to done, failed, retried and cost."""
    return [*(settled if COLUMN_OF.get(outcome) == column else 0 for column in NUMBERS), cost]


def is_counted(outcome: Outcome, has_cost: bool) -> bool:
    """Whether a settlement of this outcome changes any number."""
    return outcome in COLUMN_OF or has_cost


async def roll_up(database: Database) -> None:
    """Adds old rows up into longer periods and removes those past their retention; safe from many processes."""
    d = database.dialect
    # One time for all statements: exactly the rows that were added up must be removed.
    now = int((await database.fetch(f"SELECT {sql.epoch(NOW, d)} AS now"))[0]["now"])
    for short, long, age in STEPS:
        old = f"period = {short} AND at < {now - age}"
        sums = f"""SELECT queue, {long}, {_whole(f"at / {long}", d)} * {long}, '', sum(done), sum(failed), sum(retried),
  sum(cost) FROM {{source}} WHERE {{condition}} GROUP BY 1, 3 ORDER BY 3, 1"""
        if d == "postgresql":
            # All processes add in the same order, and skip rows that another one is adding up.
            statements = [
                f"""WITH old AS (DELETE FROM tabellion_counts WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM tabellion_counts WHERE {old} FOR UPDATE SKIP LOCKED)) RETURNING *)
INSERT INTO tabellion_counts {_COLUMNS} {sums.format(source="old", condition="true")} {_ADD_UP}"""
            ]
        else:
            statements = [
                f"""INSERT INTO tabellion_counts {_COLUMNS}
{sums.format(source="tabellion_counts", condition=old)} {_ADD_UP}""",
                f"DELETE FROM tabellion_counts WHERE {old}",
            ]
        await database.transact([(statement, ()) for statement in statements])
    await database.fetch(f"DELETE FROM tabellion_counts WHERE period = {DAY} AND at < {now - KEPT}")


async def read(database: Database, since: float) -> list[dict[str, Any]]:
    """The counts of every queue in periods that began since then: queue, period, at, done, failed, retried, cost."""
    return await database.fetch(
        """SELECT queue, period, at, sum(done) AS done, sum(failed) AS failed, sum(retried) AS retried,
  sum(cost) AS cost
FROM tabellion_counts WHERE at >= $1 GROUP BY queue, period, at""",
        int(since),
    )


def _period_start(dialect: Dialect) -> str:
    return f"{_whole(f'{sql.epoch(NOW, dialect)} / {SECONDS}', dialect)} * {SECONDS}"


def _whole(expression: str, dialect: Dialect) -> str:
    """The whole part of a number above zero."""
    return f"floor({expression})::bigint" if dialect == "postgresql" else f"CAST({expression} AS INTEGER)"
