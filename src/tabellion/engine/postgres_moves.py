"""The moves on PostgreSQL, each one statement, so that each is one transaction even behind a pooler."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.engine import sql
from tabellion.engine.declaration import Bound
from tabellion.engine.moves import at_claim, at_settlement, texts
from tabellion.engine.settlement import CHARGED, CONTINUING, Outcome
from tabellion.engine.sql import NOW, Dialect

_PG: Dialect = "postgresql"


def claim(bound: Bound) -> str:
    """$1 how many, $2 worker, $3 lease seconds -> the claim's facts, then the row as it is now.

    The row is locked first (SKIP LOCKED: no two claims wait for each other), then the attempt is inserted, then
    the row is changed. `ON CONFLICT DO NOTHING` covers the one race the row lock cannot: another worker claimed
    and gave back the row between our snapshot and our lock, so that what we read of its last attempt is old.
    """
    queue = bound.queue
    table, key = sql.name(queue.table), sql.column(bound.key.name)
    title = sql.literal(queue.name, _PG)
    continuing, charged = texts(CONTINUING), texts(CHARGED)
    ready = sql.holds(queue.states["ready"], _PG)
    where = f"AND ({queue.where})" if queue.where else ""
    return f"""
WITH c AS MATERIALIZED (
  SELECT t.{key}::text AS key, l.*
  FROM {table} AS t
  LEFT JOIN LATERAL (
    SELECT a.n AS l_n, a.attempt AS l_attempt, a.crashes AS l_crashes, a.deferrals AS l_deferrals,
      a.first_at AS l_first_at, a.outcome AS l_outcome, a.settled_at AS l_settled_at, a.retry_at AS l_retry_at
    FROM tabellion_attempts AS a WHERE a.queue = {title} AND a.key = t.{key}::text ORDER BY a.n DESC LIMIT 1
  ) AS l ON true
  WHERE {ready} {where}
    AND (l.l_n IS NULL OR l.l_settled_at IS NOT NULL AND (l.l_retry_at IS NULL OR l.l_retry_at <= {NOW}))
    AND NOT EXISTS (SELECT FROM tabellion_queues AS q WHERE q.queue = {title} AND q.paused_at IS NOT NULL)
  ORDER BY {bound.order_by()} LIMIT $1
  FOR UPDATE OF t SKIP LOCKED
), a AS (
  INSERT INTO tabellion_attempts
    (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at, lease_until)
  SELECT {title}, c.key, coalesce(c.l_n, 0) + 1, gen_random_uuid(),
    CASE WHEN c.l_outcome IN ({charged}) THEN c.l_attempt + 1
         WHEN c.l_outcome IN ({continuing}) THEN c.l_attempt ELSE 1 END,
    CASE WHEN c.l_outcome = 'crashed' THEN c.l_crashes + 1
         WHEN c.l_outcome IN ('limited', 'released') THEN c.l_crashes ELSE 0 END,
    CASE WHEN c.l_outcome = 'limited' THEN c.l_deferrals + 1
         WHEN c.l_outcome IN ({continuing}) THEN c.l_deferrals ELSE 0 END,
    $2, CASE WHEN c.l_outcome IN ({continuing}) THEN c.l_first_at ELSE {NOW} END, {NOW},
    {sql.later("$3::float8", _PG)}
  FROM c ON CONFLICT DO NOTHING
  RETURNING key, n, token, attempt, crashes, deferrals, first_at
), u AS (
  UPDATE {table} AS t SET {at_claim(bound, worker="$2", attempt="a.attempt")}
  FROM a WHERE t.{key} = a.key::{bound.key.type}
  RETURNING a.key AS tabellion_key, a.n AS tabellion_n, a.token::text AS tabellion_token,
    a.attempt AS tabellion_attempt, a.crashes AS tabellion_crashes, a.deferrals AS tabellion_deferrals,
    {sql.epoch(f"({NOW} - a.first_at)", _PG)} AS tabellion_age, t.*
)
SELECT * FROM u AS t ORDER BY {bound.order_by()}"""


def settle(bound: Bound, outcome: Outcome, columns: Sequence[str], expired_only: bool) -> str:
    """$1 keys, $2 ns, $3 tokens, $4 errors, $5 delays, $6 notes, $7 costs, $8 values as JSON -> key, outcome.

    The attempt is locked first and re-checked under its lock: an attempt that someone else settled meanwhile is
    not touched, however the row looks. A row that is no longer `running` was changed by its owner: superseded.
    (`l` carries the queue's name so that the planner cannot see it as a constant and walk the whole queue.)
    """
    queue = bound.queue
    table, key = sql.name(queue.table), sql.column(bound.key.name)
    title = sql.literal(queue.name, _PG)
    assignments = at_settlement(
        bound, outcome, error="l.error", values={column: f"v.{sql.column(column)}" for column in columns}
    )
    # The table's own row type turns each JSON value back into the column's type.
    values = f", LATERAL json_populate_record(NULL::{table}, l.given) AS v" if columns else ""
    expired = f"AND a.lease_until < {NOW}" if expired_only else ""
    return f"""
WITH j AS (
  SELECT * FROM unnest($1::text[], $2::integer[], $3::uuid[], $4::text[], $5::float8[], $6::text[], $7::float8[],
    $8::json[]) AS j (key, n, token, error, after, note, cost, given)
), l AS MATERIALIZED (
  SELECT {title}::text AS queue, j.* FROM j CROSS JOIN LATERAL (
    SELECT FROM tabellion_attempts AS a
    WHERE a.queue = {title} AND a.key = j.key AND a.n = j.n AND a.token = j.token AND a.settled_at IS NULL {expired}
    FOR UPDATE
  ) AS held
), u AS (
  UPDATE {table} AS t SET {assignments}
  FROM l {values}
  WHERE t.{key} = l.key::{bound.key.type} AND {sql.holds(queue.states["running"], _PG)}
  RETURNING l.key
)
UPDATE tabellion_attempts AS a SET settled_at = {NOW},
  outcome = CASE WHEN l.key IN (SELECT key FROM u) THEN {sql.literal(outcome, _PG)} ELSE 'superseded' END,
  retry_at = {sql.later("l.after", _PG)}, error = l.error, note = coalesce(l.note, a.note), cost = l.cost
FROM l WHERE a.queue = l.queue AND a.key = l.key AND a.n = l.n
RETURNING a.key, a.outcome"""


def renew(bound: Bound) -> str:
    """$1 keys, $2 ns, $3 tokens, $4 notes, $5 lease seconds -> key, and whether the claim still holds."""
    queue = bound.queue
    key, title = sql.column(bound.key.name), sql.literal(queue.name, _PG)
    return f"""
WITH j AS (
  SELECT * FROM unnest($1::text[], $2::integer[], $3::uuid[], $4::text[]) AS j (key, n, token, note)
), l AS MATERIALIZED (
  SELECT {title}::text AS queue, j.* FROM j CROSS JOIN LATERAL (
    SELECT FROM tabellion_attempts AS a
    WHERE a.queue = {title} AND a.key = j.key AND a.n = j.n AND a.token = j.token AND a.settled_at IS NULL
    FOR UPDATE
  ) AS held
), r AS MATERIALIZED (
  SELECT l.*, EXISTS (
    SELECT FROM {sql.name(queue.table)} AS t
    WHERE t.{key} = l.key::{bound.key.type} AND {sql.holds(queue.states["running"], _PG)}
  ) AS holds FROM l
)
UPDATE tabellion_attempts AS a SET
  lease_until = CASE WHEN r.holds THEN {sql.later("$5::float8", _PG)} ELSE a.lease_until END,
  settled_at = CASE WHEN r.holds THEN NULL ELSE {NOW} END,
  outcome = CASE WHEN r.holds THEN NULL ELSE 'superseded' END,
  note = coalesce(r.note, a.note)
FROM r WHERE a.queue = r.queue AND a.key = r.key AND a.n = r.n
RETURNING a.key, r.holds"""
