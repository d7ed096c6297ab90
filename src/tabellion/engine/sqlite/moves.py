"""The moves on SQLite: statements that run together inside one immediate transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabellion.engine import sql
from tabellion.engine.moves import at_claim, at_renewal, at_settlement, extra_condition, stamp, texts
from tabellion.engine.settlement import CONTINUING, Outcome, charging_outcomes
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.tables.declaration import Bound

_LITE: Dialect = "sqlite"

RUNNING = """SELECT (SELECT count(*) FROM tabellion_attempts WHERE queue = $1 AND settled_at IS NULL),
  (SELECT running_limit FROM tabellion_queues WHERE queue = $1)"""

UPDATED = "tabellion_updated_at"  # an extra column of a claim's result: the value that it writes to updated_at

SUPERSEDE = (
    "UPDATE tabellion_attempts SET outcome = 'superseded', retry_at = NULL WHERE queue = ? AND key = ? AND n = ?"
)


def claim(bound: Bound, condition: str = "", *, early: bool = False) -> str:
    """$1 how many, then the condition's values -> key, n, attempt, crashes, deferrals, age, first_at, started_at of the
    claim, then the row, then updated_at of the claim where the row has it."""
    queue = bound.queue
    key = f"CAST(t.{sql.column(bound.key.name)} AS TEXT)"
    title = sql.literal(queue.name, _LITE)
    where = f"{extra_condition(bound)} {condition}"
    continuing, spent = texts(CONTINUING), texts(charging_outcomes(queue))
    due = "" if early else f"AND (l.retry_at IS NULL OR l.retry_at <= {NOW})"
    updated = f", {stamp(bound, 'updated_at')} AS {UPDATED}" if "updated_at" in bound.mirrors else ""
    return f"""
SELECT {key}, coalesce(l.n, 0) + 1,
  CASE WHEN l.outcome IN ({spent}) THEN l.attempt + 1 WHEN l.outcome IN ({continuing}) THEN l.attempt ELSE 1 END,
  CASE WHEN l.outcome = 'crashed' THEN l.crashes + 1
       WHEN l.outcome IN ('limited', 'released') THEN l.crashes ELSE 0 END,
  CASE WHEN l.outcome = 'limited' THEN l.deferrals + 1 WHEN l.outcome IN ({continuing}) THEN l.deferrals ELSE 0 END,
  CASE WHEN l.outcome IN ({continuing}) THEN {NOW} - l.first_at ELSE 0.0 END,
  CASE WHEN l.outcome IN ({continuing}) THEN l.first_at ELSE {NOW} END,
  {stamp(bound, "started_at") if "started_at" in bound.mirrors else "NULL"}, t.*{updated}
FROM (SELECT t.* FROM {sql.name(queue.table)} AS t WHERE {sql.holds(queue.states["ready"], _LITE)} {where}) AS t
LEFT JOIN tabellion_attempts AS l ON l.queue = {title} AND l.key = {key} AND l.n = (
  SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = {title} AND m.key = {key})
WHERE (l.n IS NULL OR l.settled_at IS NOT NULL {due})
  AND NOT EXISTS (SELECT 1 FROM tabellion_queues AS q WHERE q.queue = {title} AND q.paused_at IS NOT NULL)
ORDER BY {bound.order_by()} LIMIT $1"""


def insert_attempt(bound: Bound) -> str:
    """$1 key, $2 n, $3 token, $4 attempt, $5 crashes, $6 deferrals, $7 worker, $8 first_at, $9 lease seconds."""
    return f"""INSERT INTO tabellion_attempts
  (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until)
  VALUES ({sql.literal(bound.queue.name, _LITE)}, $1, $2, $3, $4, $5, $6, $7, $8, {NOW}, {sql.later("$9", _LITE)})"""


def start(bound: Bound) -> str:
    """$1 key, $2 worker, $3 attempt, $4 started_at, $5 updated_at where the row has it: the row becomes running."""
    changes = at_claim(bound, worker="$2", attempt="$3", now="$4", updated="$5")
    key = sql.column(bound.key.name)
    # Conditions that are always true use every parameter, so that all declarations are called in the same way.
    unused = "AND ($2 IS $2) AND ($3 IS $3) AND ($4 IS $4)"
    return f"UPDATE {sql.name(bound.queue.table)} SET {changes} WHERE {key} = $1 {unused}"


def apply_start(bound: Bound, row: dict[str, Any], worker: str, attempt: int, started_at: Any) -> dict[str, Any]:
    """The row as `start` leaves it."""
    row.update(bound.queue.changes["running"])
    written = {"worker": worker, "attempts": attempt, "started_at": started_at}
    if UPDATED in row:
        written["updated_at"] = row.pop(UPDATED)
    row.update({column: written[mirror] for mirror, column in bound.mirrors.items() if mirror in written})
    return row


def settle_attempt(bound: Bound, outcome: Outcome, expired_only: bool) -> str:
    """Settles the attempt if it is still live.

    $1 key, $2 n, $3 token, $4 error, $5 delay, $6 note, $7 cost, $8 code and $9 parameters of the error
    """
    expired = f"AND lease_until < {NOW}" if expired_only else ""
    return f"""UPDATE tabellion_attempts SET settled_at = {NOW}, outcome = {sql.literal(outcome, _LITE)},
  error = $4, retry_at = {sql.later("$5", _LITE)}, note = coalesce($6, note), cost = $7,
  error_code = $8, error_params = $9
WHERE {_is_live_claim(bound)} {expired}"""


def settle_row(bound: Bound, outcome: Outcome, columns: Sequence[str]) -> str:
    """$1 key, $2 error, then the handler's values: changes the row if it is still running."""
    queue = bound.queue
    items = at_settlement(bound, outcome, error="$2", columns=columns)
    items += [f"{sql.column(column)} = ${number}" for number, column in enumerate(columns, 3)]
    return f"""UPDATE {sql.name(queue.table)} AS t SET {", ".join(items)}
WHERE t.{sql.column(bound.key.name)} = $1 AND {sql.holds(queue.states["running"], _LITE)} AND ($2 IS $2)"""


def settle_plainly(bound: Bound, outcome: Outcome) -> tuple[str, str]:
    """$1 keys, $2 tokens as JSON: settles attempts with nothing but an outcome; $1 the rows' keys as JSON: their rows.

    Two statements for a whole batch, because each statement makes Python switch threads.
    """
    queue = bound.queue
    items = ", ".join(at_settlement(bound, outcome, error="NULL", columns=()))
    attempts = f"""UPDATE tabellion_attempts SET settled_at = {NOW}, outcome = {sql.literal(outcome, _LITE)}
WHERE queue = {sql.literal(queue.name, _LITE)} AND key IN (SELECT value FROM json_each($1))
  AND token IN (SELECT value FROM json_each($2)) AND settled_at IS NULL"""
    rows = f"""UPDATE {sql.name(queue.table)} AS t SET {items}
WHERE t.{sql.column(bound.key.name)} IN (SELECT value FROM json_each($1))
  AND {sql.holds(queue.states["running"], _LITE)}"""
    return attempts, rows


def renew(bound: Bound) -> str:
    """Extends a claim that holds.

    $1 key, $2 n, $3 token, $4 note, $5 lease seconds, $6 the row's key, $7 the note's form
    """
    return f"""UPDATE tabellion_attempts SET lease_until = {sql.later("$5", _LITE)}, note = coalesce($4, note),
  note_form = CASE WHEN $4 IS NULL THEN note_form ELSE $7 END
WHERE {_is_live_claim(bound)} AND EXISTS (
  SELECT 1 FROM {sql.name(bound.queue.table)} AS t
  WHERE t.{sql.column(bound.key.name)} = $6 AND {sql.holds(bound.queue.states["running"], _LITE)})"""


def renew_mirrors(bound: Bound) -> str:
    """$1 key, $2 n, $3 token, $4 the row's key: renews the times in the row of a claim that still holds."""
    return f"""UPDATE {sql.name(bound.queue.table)} AS t SET {at_renewal(bound)}
WHERE t.{sql.column(bound.key.name)} = $4 AND {sql.holds(bound.queue.states["running"], _LITE)}
  AND EXISTS (SELECT 1 FROM tabellion_attempts WHERE {_is_live_claim(bound)})"""


def supersede_unheld(bound: Bound) -> str:
    """$1 key, $2 n, $3 token, $4 note: ends a claim whose row its owner has changed."""
    return f"""UPDATE tabellion_attempts SET settled_at = {NOW}, outcome = 'superseded', note = coalesce($4, note)
WHERE {_is_live_claim(bound)}"""


def _is_live_claim(bound: Bound) -> str:
    return (
        f"queue = {sql.literal(bound.queue.name, _LITE)} AND key = $1 AND n = $2 AND token = $3 AND settled_at IS NULL"
    )
