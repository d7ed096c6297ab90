"""The moves on PostgreSQL, each one statement, so that each is one transaction even behind a pooler."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.engine import counts, sql
from tabellion.engine.moves import at_claim, at_renewal, at_settlement, extra_condition, texts
from tabellion.engine.settlement import CONTINUING, Outcome, charging_outcomes
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.tables.declaration import Bound

_PG: Dialect = "postgresql"

#: Lists are sent as text[]: for any other array type asyncpg queries the catalog on every new connection.
_TOKENS = "ARRAY(SELECT one::uuid FROM unnest($2::text[]) AS one)"


def claim(bound: Bound, condition: str = "", *, single: bool = False, early: bool = False) -> str:
    """$1 how many, $2 worker, $3 lease seconds, then the condition's values -> the attempts in line order, then the
    rows as they are now. `single`: the condition names one row, which is looked up by its key without ordering.

    Rows are read in order one by one (`r` is only read as far as `c` needs), each locked before anything else is read:
    skipping a row that another claim has locked costs next to nothing. Then the attempt is inserted, then the row is
    changed. The row lock cannot prevent one race: another worker claimed and released the row between our snapshot and
    our lock, so that the last attempt we read is out of date. Then the new attempt's key already exists, the whole
    statement fails, and the caller repeats it.
    """
    # Rows are found by `= ANY (array)`, never by a join: if the statistics say that a table is empty (it was, last
    # night), the planner scans all of it for each joined row, while an array is always looked up in the key's index.
    attempt = f"(SELECT a.attempt FROM tabellion_a AS a WHERE a.key = t.{sql.column(bound.key.name)}::text)"
    queue = bound.queue
    table, key = sql.name(queue.table), sql.column(bound.key.name)
    title = sql.literal(queue.name, _PG)
    continuing, spent = texts(CONTINUING), texts(charging_outcomes(queue))
    ready = sql.holds(queue.states["ready"], _PG)
    where = f"{extra_condition(bound)} {condition}"
    due = "" if early else f"AND (l.l_retry_at IS NULL OR l.l_retry_at <= {NOW})"
    order = "" if single else f"ORDER BY {bound.order_by()}"
    return f"""
WITH tabellion_r AS MATERIALIZED (
  SELECT t.{key} AS k FROM {table} AS t WHERE {ready} {where} {order} FOR UPDATE SKIP LOCKED
), tabellion_c AS MATERIALIZED (
  SELECT r.k::text AS key, l.*
  FROM tabellion_r AS r
  LEFT JOIN LATERAL (
    SELECT a.n AS l_n, a.attempt AS l_attempt, a.crashes AS l_crashes, a.deferrals AS l_deferrals,
      a.first_at AS l_first_at, a.outcome AS l_outcome, a.settled_at AS l_settled_at, a.retry_at AS l_retry_at
    FROM tabellion_attempts AS a WHERE a.queue = {title} AND a.key = r.k::text ORDER BY a.n DESC LIMIT 1
  ) AS l ON true
  WHERE (l.l_n IS NULL OR l.l_settled_at IS NOT NULL {due})
    AND NOT EXISTS (SELECT FROM tabellion_queues AS q WHERE q.queue = {title} AND q.paused_at IS NOT NULL)
  LIMIT $1
), tabellion_a AS (
  INSERT INTO tabellion_attempts
    (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until)
  SELECT {title}, c.key, coalesce(c.l_n, 0) + 1, gen_random_uuid(),
    CASE WHEN c.l_outcome IN ({spent}) THEN c.l_attempt + 1
         WHEN c.l_outcome IN ({continuing}) THEN c.l_attempt ELSE 1 END,
    CASE WHEN c.l_outcome = 'crashed' THEN c.l_crashes + 1
         WHEN c.l_outcome IN ('limited', 'released') THEN c.l_crashes ELSE 0 END,
    CASE WHEN c.l_outcome = 'limited' THEN c.l_deferrals + 1
         WHEN c.l_outcome IN ({continuing}) THEN c.l_deferrals ELSE 0 END,
    $2, CASE WHEN c.l_outcome IN ({continuing}) THEN c.l_first_at ELSE {NOW} END, {NOW},
    {sql.later("$3::float8", _PG)}
  FROM tabellion_c AS c
  RETURNING key, n, token, attempt, crashes, deferrals, first_at
), tabellion_u AS (
  UPDATE {table} AS t SET {at_claim(bound, worker="$2", attempt=attempt)}
  WHERE t.{key} = ANY (ARRAY(SELECT a.key::{bound.key.type} FROM tabellion_a AS a)) RETURNING t.*
)
SELECT a.key, a.n, a.token::text, a.attempt, a.crashes, a.deferrals,
  {sql.epoch(f"({NOW} - a.first_at)", _PG)} AS age, (NULL::{table}).* FROM tabellion_a AS a
UNION ALL SELECT u.{key}::text, NULL, NULL, NULL, NULL, NULL, NULL, u.* FROM tabellion_u AS u"""


def settle(
    bound: Bound, outcome: Outcome, columns: Sequence[str], *, expired_only: bool, detailed: bool, coded: bool,
    writer: str | None,
) -> str:  # fmt: skip
    """$1 keys, $2 tokens; detailed: $3 errors, $4 delays, $5 notes, $6 costs; coded: codes and parameters of errors;
    last, the values as JSON -> key, outcome.

    The attempt is locked first and checked again under its lock: an attempt that was settled meanwhile is not
    changed, whatever state the row is in. A row that is no longer `running` was changed by its owner: superseded.
    With a `writer` the settlements are also counted.
    """
    table, key = sql.name(bound.queue.table), sql.column(bound.key.name)
    details, error = "error = NULL", "NULL"
    if detailed:
        place = "array_position($1::text[], a.key)"
        due = sql.later(f"(($4::text[])[{place}])::float8", _PG)
        details = f"""retry_at = CASE WHEN a.key IN (TABLE tabellion_u) THEN {due} END, error = ($3::text[])[{place}],
  note = coalesce(($5::text[])[{place}], a.note), cost = (($6::text[])[{place}])::float8"""
        if coded:
            details += f", error_code = ($7::text[])[{place}], error_params = ($8::text[])[{place}]"
        error = f"($3::text[])[array_position($1::text[], t.{key}::text)]"
    items = at_settlement(bound, outcome, error=error, columns=columns)
    if columns:
        # The column's type converts each JSON value back.
        values = f"((${9 if coded else 7}::text[])[array_position($1::text[], t.{key}::text)])::json"
        targets = ", ".join(map(sql.column, columns))
        typed = ", ".join(f"{sql.column(name)} {bound.column(name).type}" for name in columns)
        items.append(f"({targets}) = (SELECT {targets} FROM json_to_record({values}) AS v ({typed}))")
    count = ""
    if writer is not None and counts.is_counted(outcome, detailed):
        count = f", tabellion_n AS (\n  {counts.add_settled(bound.queue.name, outcome, writer, 'tabellion_s')}\n)"
    return f"""
WITH tabellion_l AS MATERIALIZED (
  {_lock_live_attempts(bound, f"AND a.lease_until < {NOW}" if expired_only else "")}
), tabellion_u AS (
  UPDATE {table} AS t SET {", ".join(items)}
  WHERE t.{key} = ANY (ARRAY(SELECT l.key::{bound.key.type} FROM tabellion_l AS l)) AND {_is_running(bound)}
  RETURNING t.{key}::text AS key
), tabellion_s AS (
  UPDATE tabellion_attempts AS a SET settled_at = {NOW},
    outcome = CASE WHEN a.key IN (TABLE tabellion_u) THEN {sql.literal(outcome, _PG)} ELSE 'superseded' END,
    {details}
  WHERE {_match_locked(bound)} RETURNING a.key, a.outcome, a.cost
){count}
SELECT s.key, s.outcome FROM tabellion_s AS s"""


def renew(bound: Bound) -> str:
    """$1 keys, $2 tokens, $3 notes, $4 lease seconds, $5 forms of notes -> key, and whether the claim still holds."""
    key, place = sql.column(bound.key.name), "array_position($1::text[], a.key)"
    return f"""
WITH tabellion_l AS MATERIALIZED (
  {_lock_live_attempts(bound)}
), tabellion_h AS MATERIALIZED (
  SELECT t.{key}::text AS key FROM {sql.name(bound.queue.table)} AS t
  WHERE t.{key} = ANY (ARRAY(SELECT l.key::{bound.key.type} FROM tabellion_l AS l)) AND {_is_running(bound)}
)
UPDATE tabellion_attempts AS a SET
  lease_until = CASE WHEN a.key IN (TABLE tabellion_h) THEN {sql.later("$4::float8", _PG)} ELSE a.lease_until END,
  settled_at = CASE WHEN a.key IN (TABLE tabellion_h) THEN NULL ELSE {NOW} END,
  outcome = CASE WHEN a.key IN (TABLE tabellion_h) THEN NULL ELSE 'superseded' END,
  note = coalesce(($3::text[])[{place}], a.note),
  note_form = CASE WHEN ($3::text[])[{place}] IS NULL THEN a.note_form ELSE ($5::text[])[{place}] END
WHERE {_match_locked(bound)} RETURNING a.key, a.settled_at IS NULL AS holds"""


def renew_mirrors(bound: Bound) -> str:
    """$1 keys, $2 tokens: renews the times in the rows of claims that still hold.

    A separate statement that skips locked rows: no lease must wait for a mirror.
    """
    table, key = sql.name(bound.queue.table), sql.column(bound.key.name)
    return f"""UPDATE {table} AS u SET {at_renewal(bound)} WHERE u.{key} = ANY (ARRAY(
  SELECT t.{key} FROM {table} AS t
  WHERE t.{key} = ANY (ARRAY(SELECT one::{bound.key.type} FROM unnest($1::text[]) AS one)) AND {_is_running(bound)}
    AND EXISTS (SELECT FROM tabellion_attempts AS a WHERE a.queue = {sql.literal(bound.queue.name, _PG)}
      AND a.key = t.{key}::text AND a.token = ANY ({_TOKENS}) AND a.settled_at IS NULL)
  FOR UPDATE OF t SKIP LOCKED))"""


def _lock_live_attempts(bound: Bound, condition: str = "") -> str:
    """$1 keys, $2 tokens: the attempts among them that are still live, locked."""
    return f"""SELECT a.key FROM tabellion_attempts AS a
  WHERE a.queue = {sql.literal(bound.queue.name, _PG)} AND a.key = ANY ($1::text[]) AND a.token = ANY ({_TOKENS})
    AND a.settled_at IS NULL {condition} FOR UPDATE"""


def _match_locked(bound: Bound) -> str:
    queue = sql.literal(bound.queue.name, _PG)
    return f"a.queue = {queue} AND a.key = ANY (ARRAY(TABLE tabellion_l)) AND a.token = ANY ({_TOKENS})"


def _is_running(bound: Bound) -> str:
    """The condition that the row is running, hidden from the planner, so that it uses the key's index and no other."""
    return f"CASE WHEN {sql.holds(bound.queue.states['running'], _PG)} THEN true END"
