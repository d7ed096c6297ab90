"""Orphans: rows that are running without a claim in the register, held or left by programs that do not use it."""

from __future__ import annotations

from typing import Any

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.moves import at_return, native_key
from tabellion.engine.recovery.parking import is_parked
from tabellion.engine.sql import NOW
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import AWAY, StoreError

MOST_COUNTED = 1000


async def count(database: Database, bound: Bound) -> int:
    """The number of orphans, counted up to a thousand."""
    running = sql.holds(bound.queue.states["running"], database.dialect)
    rows = await database.fetch(
        f"""SELECT count(*) AS n FROM (SELECT 1 FROM {sql.name(bound.queue.table)} AS t
WHERE {running} AND {is_unclaimed(bound)} LIMIT {MOST_COUNTED}) AS f""",
        bound.queue.name,
    )
    return int(rows[0]["n"])


async def take_over(database: Database, bound: Bound) -> int:
    """Puts orphans back to ready that are older than the queue's `stale_after`; returns how many.

    A row that the database refuses to change does not block the others and stays an orphan. The age is taken from
    `started_at`, or from `updated_at` where that is empty or not declared.
    """
    queue, dialect = bound.queue, database.dialect
    if queue.stale_after is None:
        return 0
    stale = f"{running_since(bound)} < {sql.epoch(NOW, dialect)} - $2"
    # A sweep comes every few seconds: where the table refuses every row, it must not try them all each time.
    return len(await give_back(database, bound, stale, float(queue.stale_after), most=MOST_COUNTED))


async def give_back(
    database: Database, bound: Bound, condition: str = "1 = 1", *terms: Any, most: int | None = None
) -> list[str]:
    """Puts orphans back to ready that meet the condition ($2, … are its terms); returns their keys.

    If the database refuses one of them, the others are tried one by one, up to `most`.
    """
    key = f"t.{sql.column(bound.key.name)}"
    table, values = sql.name(bound.queue.table), (bound.queue.name, *terms)
    chosen = f"""{sql.holds(bound.queue.states["running"], database.dialect)} AND {condition}
  AND {is_unclaimed(bound)}"""
    update = f"UPDATE {table} AS t SET {at_return(bound)} WHERE {chosen}"
    try:
        moved = await database.fetch(f"{update} RETURNING CAST({key} AS text) AS key", *values)
        return [row["key"] for row in moved]
    except AWAY:
        raise
    except StoreError:
        orphans = await find(database, bound, condition, *terms, most=most)
    returned: list[str] = []
    for orphan in orphans:
        update_one = f"{update} AND {key} = {native_key(bound, f'${len(values) + 1}')} RETURNING 1 AS moved"
        try:
            returned += [orphan] if await database.fetch(update_one, *values, orphan) else []
        except AWAY:
            raise
        except StoreError:
            continue
    return returned


async def find(
    database: Database, bound: Bound, condition: str = "1 = 1", *terms: Any, most: int | None = None
) -> list[str]:
    """The keys of orphans that meet the condition ($2, … are its terms), of all or of `most`."""
    limit = "" if most is None else f"LIMIT {most}"
    rows = await database.fetch(
        f"""SELECT CAST(t.{sql.column(bound.key.name)} AS text) AS key FROM {sql.name(bound.queue.table)} AS t
WHERE {sql.holds(bound.queue.states["running"], database.dialect)} AND {condition} AND {is_unclaimed(bound)}
{limit}""",
        bound.queue.name,
        *terms,
    )
    return [row["key"] for row in rows]


def running_since(bound: Bound) -> str:
    """SQL: when the row `t` started running, in seconds since 1970; NULL if its times are empty."""
    columns = [bound.column(name) for name in bound.age_columns()]
    ages = [
        sql.mirror_epoch(f"t.{sql.column(column.name)}", column.family, column.plain_type, bound.dialect)
        for column in columns
    ]
    return ages[0] if len(ages) == 1 else f"coalesce({', '.join(ages)})"


def is_unclaimed(bound: Bound) -> str:
    """$1 queue: the condition that the row `t` has no live claim and is not parked."""
    return f"""NOT ({is_parked(bound)}) AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a
WHERE a.queue = $1 AND a.settled_at IS NULL AND a.key = CAST(t.{sql.column(bound.key.name)} AS text))"""
