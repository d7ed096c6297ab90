"""Rows that are running with no claim in the register: left by workers that do not use it, or used to."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.declaration import Bound
from tabellion.engine.moves import clear_mirrors, enter_state, native_key, set_items
from tabellion.engine.parking import is_parked
from tabellion.engine.sql import NOW
from tabellion.errors import AWAY, StoreError

MOST_COUNTED = 1000


async def count(database: Database, bound: Bound) -> int:
    """How many there are, counted up to a thousand."""
    running = sql.holds(bound.queue.states["running"], database.dialect)
    rows = await database.fetch(
        f"""SELECT count(*) AS n FROM (SELECT 1 FROM {sql.name(bound.queue.table)} AS t
WHERE {running} AND {_is_unclaimed(bound)} LIMIT {MOST_COUNTED}) AS f""",
        bound.queue.name,
    )
    return int(rows[0]["n"])


async def take_over(database: Database, bound: Bound) -> int:
    """Gives back those that are older than the queue's `stale_after`; returns how many.

    A row that the database does not let go keeps nobody else from it, and stays counted as running outside.
    """
    queue, dialect = bound.queue, database.dialect
    if queue.stale_after is None:
        return 0
    started = bound.column(queue.mirrors["started_at"])
    started_at = sql.mirror_epoch(f"t.{sql.column(started.name)}", started.family, started.plain_type, dialect)
    changes = enter_state(bound, queue.states["ready"]) | clear_mirrors(bound, "worker", "started_at")
    key = f"t.{sql.column(bound.key.name)}"
    stale = f"""{sql.holds(queue.states["running"], dialect)} AND {started_at} < {sql.epoch(NOW, dialect)} - $2
  AND {_is_unclaimed(bound)}"""
    update = f"UPDATE {sql.name(queue.table)} AS t SET {set_items(changes)} WHERE {stale}"
    terms = (queue.name, float(queue.stale_after))
    try:
        return len(await database.fetch(f"{update} RETURNING 1 AS moved", *terms))
    except AWAY:
        raise
    except StoreError:
        # The database refuses it to one of the rows: the others are taken over one by one.
        found = await database.fetch(
            f"SELECT CAST({key} AS text) AS key FROM {sql.name(queue.table)} AS t WHERE {stale} LIMIT {MOST_COUNTED}",
            *terms,
        )
    taken = 0
    for row in found:
        one = f"{update} AND {key} = {native_key(bound, '$3')} RETURNING 1 AS moved"
        try:
            taken += len(await database.fetch(one, *terms, row["key"]))
        except AWAY:
            raise
        except StoreError:
            continue
    return taken


def _is_unclaimed(bound: Bound) -> str:
    """$1 queue: the row has no live claim, and it is not one of ours that was parked."""
    return f"""NOT ({is_parked(bound)}) AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a
WHERE a.queue = $1 AND a.settled_at IS NULL AND a.key = CAST(t.{sql.column(bound.key.name)} AS text))"""
