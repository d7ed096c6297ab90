"""The register: tabellion's tables in each database, which every queue uses, and their versions."""

from __future__ import annotations

from collections.abc import Iterator

from tabellion.engine.schema import Schema, SchemaVersion
from tabellion.engine.sql import Dialect

_COUNT_HISTORY: dict[Dialect, str] = {
    "postgresql": """INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
SELECT 3600, floor(extract(epoch FROM settled_at) / 3600)::bigint * 3600, queue, '',
  count(*) FILTER (WHERE outcome = 'done'), count(*) FILTER (WHERE outcome IN ('failed', 'quarantined')),
  count(*) FILTER (WHERE outcome IN ('retried', 'crashed')), coalesce(sum(cost), 0)
FROM tabellion_attempts WHERE settled_at > now() - interval '30 days' GROUP BY 2, 3""",
    "sqlite": """INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
SELECT 3600, CAST(settled_at / 3600 AS INTEGER) * 3600, queue, '', sum(outcome = 'done'),
  sum(outcome IN ('failed', 'quarantined')), sum(outcome IN ('retried', 'crashed')), coalesce(sum(cost), 0)
FROM tabellion_attempts
WHERE settled_at > (julianday('now') - 2440587.5) * 86400.0 - 30 * 86400.0 GROUP BY 2, 3""",
}


def _grant_alike(dialect: Dialect, like: str, *tables: str) -> Iterator[str]:
    """Copies the rights on a table to others that are written by the same roles."""
    for table in tables if dialect == "postgresql" else ():
        yield f"""DO $$ DECLARE held record; BEGIN
  FOR held IN SELECT grantee, privilege_type AS what FROM information_schema.role_table_grants
      WHERE table_schema = current_schema() AND table_name = '{like}' AND grantee <> current_user
        AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') LOOP
    EXECUTE format('GRANT %s ON {table} TO %s', held.what,
      CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END);
  END LOOP;
END $$"""


def _attempts(dialect: Dialect) -> Iterator[str]:
    token = {"postgresql": "uuid", "sqlite": "text"}[dialect]
    vacuum = "WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)"
    yield f"""CREATE TABLE tabellion_attempts (
  queue text NOT NULL,
  key text NOT NULL,
  n integer NOT NULL,
  token {token} NOT NULL,
  attempt integer NOT NULL,
  crashes integer NOT NULL,
  deferrals integer NOT NULL,
  worker text NOT NULL,
  first_at TIME NOT NULL,
  claimed_at TIME NOT NULL,
  lease_until TIME NOT NULL,
  settled_at TIME,
  outcome text,
  retry_at TIME,
  error text,
  note text,
  cost NUMBER,
  PRIMARY KEY (queue, key, n)
) {vacuum if dialect == "postgresql" else "WITHOUT ROWID"}"""
    yield """CREATE UNIQUE INDEX tabellion_attempts_live
  ON tabellion_attempts (queue, key) WHERE settled_at IS NULL"""
    yield """CREATE TABLE tabellion_workers (
  id text PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  boot text NOT NULL,
  version text NOT NULL,
  queues text NOT NULL,
  slots integer NOT NULL,
  busy integer NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  retried bigint NOT NULL DEFAULT 0,
  started_at TIME NOT NULL,
  seen_at TIME NOT NULL,
  stopped_at TIME,
  ending text
)"""
    yield """CREATE TABLE tabellion_queues (
  queue text PRIMARY KEY,
  paused_at TIME,
  reason text,
  running_limit integer,
  updated_at TIME NOT NULL
)"""


def _gates(dialect: Dialect) -> Iterator[str]:
    yield f"""CREATE TABLE tabellion_gates (
  name text PRIMARY KEY,
  version bigint NOT NULL,
  state text NOT NULL,
  updated_at TIME NOT NULL
){" WITH (fillfactor = 50)" if dialect == "postgresql" else ""}"""
    yield """CREATE TABLE tabellion_memos (
  key text PRIMARY KEY,
  model text NOT NULL,
  queue text NOT NULL,
  row_key text NOT NULL,
  token text NOT NULL,
  asked_at TIME NOT NULL,
  lease_until TIME,
  reply text,
  cost NUMBER,
  hint text,
  raw text
)"""


#: The dashboard's queries run every second and must not get slower as history grows: they read recent settlements and
#: waiting rows.
_RECENT = (
    """CREATE INDEX tabellion_attempts_settled
  ON tabellion_attempts (settled_at) WHERE settled_at IS NOT NULL""",
    """CREATE INDEX tabellion_attempts_due
  ON tabellion_attempts (retry_at) WHERE retry_at IS NOT NULL""",
)


def _counts(dialect: Dialect) -> Iterator[str]:
    """An index entry for each settled attempt cost a tenth of the throughput: settlements are counted instead."""
    yield f"""CREATE TABLE tabellion_counts (
  period integer NOT NULL,
  at bigint NOT NULL,
  queue text NOT NULL,
  writer text NOT NULL,
  done bigint NOT NULL,
  failed bigint NOT NULL,
  retried bigint NOT NULL,
  cost NUMBER NOT NULL,
  PRIMARY KEY (period, at, queue, writer)
) {"WITH (fillfactor = 50)" if dialect == "postgresql" else "WITHOUT ROWID"}"""
    yield _COUNT_HISTORY[dialect]
    yield "DROP INDEX IF EXISTS tabellion_attempts_settled"
    yield from _grant_alike(dialect, "tabellion_attempts", "tabellion_counts")


def _retention(dialect: Dialect) -> Iterator[str]:
    """How far each retention rule has come, and files that are still to be removed after their row was."""
    yield """CREATE TABLE tabellion_retention (
  name text PRIMARY KEY,
  position text,
  removed bigint NOT NULL DEFAULT 0,
  worker text,
  busy_until TIME,
  due_at TIME
)"""
    yield """CREATE TABLE tabellion_leftovers (
  id text PRIMARY KEY,
  rule text NOT NULL,
  detail text NOT NULL,
  due_at TIME NOT NULL
)"""
    yield from _grant_alike(dialect, "tabellion_memos", "tabellion_retention", "tabellion_leftovers")


def _sla(dialect: Dialect) -> Iterator[str]:
    """What each queue looked like in each hour, and whether each SLA target is kept."""
    yield """CREATE TABLE tabellion_snapshots (
  at bigint NOT NULL,
  queue text NOT NULL,
  taken_at TIME,
  ready bigint,
  waiting bigint,
  running bigint,
  done bigint,
  failed bigint,
  oldest_seconds NUMBER,
  hour_done bigint NOT NULL,
  hour_failed bigint NOT NULL,
  hour_retried bigint NOT NULL,
  hour_cost NUMBER NOT NULL,
  sla text,
  PRIMARY KEY (at, queue)
)"""
    yield """CREATE TABLE tabellion_sla (
  target text PRIMARY KEY,
  state text NOT NULL,
  since TIME NOT NULL,
  changing_since TIME,
  value NUMBER,
  problem text,
  checked_at TIME NOT NULL,
  turn bigint NOT NULL
)"""
    yield from _grant_alike(dialect, "tabellion_memos", "tabellion_snapshots", "tabellion_sla")


#: Changes only add (a column that may be NULL, a table, an index) or drop an index: older workers run beside new ones.
VERSIONS: tuple[SchemaVersion, ...] = (
    _attempts,
    _gates,
    _RECENT,
    _counts,
    tuple(f"ALTER TABLE tabellion_attempts ADD COLUMN {name} text" for name in ("error_code", "error_params")),
    ("ALTER TABLE tabellion_attempts ADD COLUMN note_form text",),
    _retention,
    _sla,
)
TABLES = (
    "tabellion_attempts", "tabellion_workers", "tabellion_queues", "tabellion_gates", "tabellion_memos",
    "tabellion_counts", "tabellion_retention", "tabellion_leftovers", "tabellion_snapshots", "tabellion_sla",
)  # fmt: skip
SCHEMA = Schema("register", VERSIONS, TABLES, fix="tabellion migrate --sql", version_table="tabellion_schema")
CURRENT = SCHEMA.current

MISSING = "this database has no register yet: workers create it if their role is allowed to, or run `tabellion migrate`"
OLD = "the register has version {}, which is too old for this tabellion: workers update it, or run `tabellion migrate`"


def attempts_due(dialect: Dialect) -> str:
    """The attempts table as `a`, with a hint to use the index on `retry_at`.

    SQLite has no statistics here, and without the hint it would read the whole history in key order.
    """
    hint = " INDEXED BY tabellion_attempts_due" if dialect == "sqlite" else ""
    return f"tabellion_attempts AS a{hint}"
