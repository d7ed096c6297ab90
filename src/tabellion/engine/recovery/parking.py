"""Parked jobs: the database refuses even the failed state, so they end in the register and the row stays as it is."""

from __future__ import annotations

from tabellion.engine import counts, sql
from tabellion.engine.database import Database
from tabellion.engine.moves import extra_condition, price
from tabellion.engine.queue import format_state
from tabellion.engine.settlement import STATE_OF, Settlement
from tabellion.engine.sql import NOW
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import StoreError

MOST_LISTED = 1000


def describe_refusal(settlement: Settlement, refusal: StoreError) -> str:
    """The error of a job that fails because the database refused its settlement."""
    if STATE_OF[settlement.outcome] == "ready":
        before = f"{settlement.error}; " if settlement.error else ""
        return f"{before}the row could not be put back to ready: {refusal}"
    return f"the result could not be written: {refusal}"


def describe_parking(bound: Bound, why: str, refusal: StoreError) -> str:
    """The error of a parked job: how it ended, and why that could not be written."""
    failed = format_state(bound.queue.changes["failed"])
    return f"{why}; the database rejects the state failed ({failed}), so the row is left running: {refusal.words}"


async def park(database: Database, bound: Bound, settlement: Settlement, error: str) -> bool:
    """Ends the claim and leaves the row unchanged; False: the claim was not ours any more."""
    job = settlement.job
    expired = f"AND lease_until < {NOW}" if settlement.expired_only else ""
    settle = f"""UPDATE tabellion_attempts SET settled_at = {NOW}, outcome = 'parked', retry_at = NULL, error = $5,
  note = coalesce($6, note), cost = $7
WHERE queue = $1 AND key = $2 AND n = $3 AND CAST(token AS text) = $4 AND settled_at IS NULL {expired}
RETURNING n"""
    cost = price(job.cost)
    values = (bound.queue.name, job.text_key, job.n, job.token, error, job._note, cost)
    count_values = (bound.queue.name, "", *counts.numbers("parked", 1, cost or 0.0))
    return bool(await database.transact([(settle, values), (counts.add(database.dialect), count_values)], guarded=True))


async def find_parked_rows(database: Database, bound: Bound) -> list[str]:
    """The keys of parked rows, a thousand at most."""
    rows = await database.fetch(
        f"""SELECT CAST(t.{sql.column(bound.key.name)} AS text) AS key FROM {sql.name(bound.queue.table)} AS t
WHERE {is_parked(bound)} LIMIT {MOST_LISTED}""",
        bound.queue.name,
    )
    return [row["key"] for row in rows]


async def has_work(database: Database, bound: Bound) -> bool:
    """Whether a row is ready, due now or later, or being worked on; a parked row is none of these."""
    ready = f"{sql.holds(bound.queue.states['ready'], bound.dialect)} {extra_condition(bound)}"
    running = f"{sql.holds(bound.queue.states['running'], bound.dialect)} AND NOT ({is_parked(bound)})"
    source = sql.name(bound.queue.table)
    rows = await database.fetch(
        f"""SELECT 1 FROM (SELECT 1) AS one WHERE EXISTS (SELECT 1 FROM {source} AS t WHERE {ready})
OR EXISTS (SELECT 1 FROM {source} AS t WHERE {running})""",
        bound.queue.name,
    )
    return bool(rows)


def is_parked(bound: Bound) -> str:
    """$1 queue: the condition that the row `t` is running and its last attempt was parked."""
    running = sql.holds(bound.queue.states["running"], bound.dialect)
    return f"""{running} AND EXISTS (SELECT 1 FROM tabellion_attempts AS p
WHERE p.queue = $1 AND p.key = CAST(t.{sql.column(bound.key.name)} AS text) AND p.outcome = 'parked'
  AND p.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = p.queue AND m.key = p.key))"""
