"""Rows that the database does not allow to run: set aside for a while, so that the rows after them can be claimed."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.job import Job
from tabellion.engine.moves import Terms, extra_condition, texts
from tabellion.engine.settlement import CONTINUING, charging_outcomes
from tabellion.engine.sql import NOW
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import AWAY, Busy, StoreError

AGAIN = 600.0  # seconds until such a row is tried again: someone may have fixed it
MOST_AT_ONCE = 3  # rows set aside by one claim: if more are refused, the cause is the table and not the row

RefusalCallback = Callable[[Bound, str, str], None]  #: queue, key, error


async def claim_one_by_one(
    database: Database, bound: Bound, n: int, worker: str, limited: bool, on_refused: RefusalCallback | None
) -> list[Job]:
    """Claims up to `n` rows after a claim of all of them was refused, and sets aside the rows that cause the refusal.

    Raises the database's error when it refuses one row after another, or when the cause is not the row.
    """
    jobs: list[Job] = []
    refused = 0
    for row in await database.fetch(_first_in_line(bound), bound.queue.name, n):
        try:
            jobs += await database.claim(bound, 1, worker, limited, Terms(only=row["native"]))
        except Busy:
            continue  # only this row is locked
        except AWAY:
            if jobs:
                break
            raise
        except StoreError as error:
            if not is_about_the_row(error):
                raise
            await _set_aside(database, bound, row["key"], worker, error.words)
            if on_refused is not None:
                on_refused(bound, row["key"], error.words)
            refused += 1
            if refused == MOST_AT_ONCE:
                if jobs:
                    break
                raise
    return jobs


def is_about_the_row(error: StoreError) -> bool:
    """Whether a rule of the table refused the row; another row may satisfy it."""
    return bool(error.rule) and not error.constraint.startswith("tabellion_")


def _first_in_line(bound: Bound) -> str:
    """$1 queue, $2 how many -> the keys of the rows that a claim would take, in order."""
    key = f"t.{sql.column(bound.key.name)}"
    return f"""SELECT {key} AS native, CAST({key} AS text) AS key FROM {sql.name(bound.queue.table)} AS t
WHERE {sql.holds(bound.queue.states["ready"], bound.dialect)} {extra_condition(bound)}
  AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = CAST({key} AS text)
    AND (a.settled_at IS NULL OR a.retry_at > {NOW})
    AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = a.queue AND m.key = a.key))
ORDER BY {bound.order_by()} LIMIT $2"""


async def _set_aside(database: Database, bound: Bound, key: str, worker: str, error: str) -> None:
    """Records in the register that the row was tried; the attempt is not used up, and the row is left unchanged."""
    continuing, spent = texts(CONTINUING), texts(charging_outcomes(bound.queue))
    token = "CAST(CAST($4 AS text) AS uuid)" if database.dialect == "postgresql" else "$4"
    await database.fetch(
        f"""INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
  claimed_at, lease_until, settled_at, outcome, retry_at, error)
SELECT $1, $2, coalesce(l.n, 0) + 1, {token},
  CASE WHEN l.outcome IN ({spent}) THEN l.attempt + 1 WHEN l.outcome IN ({continuing}) THEN l.attempt ELSE 1 END,
  CASE WHEN l.outcome IN ({continuing}) THEN l.crashes ELSE 0 END,
  CASE WHEN l.outcome IN ({continuing}) THEN l.deferrals ELSE 0 END, $3,
  CASE WHEN l.outcome IN ({continuing}) THEN l.first_at ELSE {NOW} END,
  {NOW}, {NOW}, {NOW}, 'released', {sql.later("$6", database.dialect)}, $5
FROM (SELECT 1 AS one) AS o LEFT JOIN tabellion_attempts AS l ON l.queue = $1 AND l.key = $2
  AND l.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = $1 AND m.key = $2)
WHERE l.n IS NULL OR l.settled_at IS NOT NULL""",
        bound.queue.name, key, worker, str(uuid.uuid4()),
        f"the database does not allow the row to become running: {error}", AGAIN,
    )  # fmt: skip
