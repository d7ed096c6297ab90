"""The register: tabellion's own tables in each database, and their migrations."""

from __future__ import annotations

from tabellion.engine.database import Database
from tabellion.engine.failpoints import failpoint
from tabellion.engine.sql import Dialect
from tabellion.errors import Forbidden, NotMigrated, StoreError, Unreachable

_LATELY = (
    """CREATE INDEX tabellion_attempts_settled
  ON tabellion_attempts (settled_at) WHERE settled_at IS NOT NULL""",
    """CREATE INDEX tabellion_attempts_due
  ON tabellion_attempts (retry_at) WHERE retry_at IS NOT NULL""",
)


#: How far each retention rule has come, and files that are still to be removed after their row was.
_RETENTION = (
    """CREATE TABLE tabellion_retention (
  name text PRIMARY KEY,
  position text,
  removed bigint NOT NULL DEFAULT 0,
  worker text,
  busy_until {time},
  due_at {time}
)""",
    """CREATE TABLE tabellion_leftovers (
  id text PRIMARY KEY,
  rule text NOT NULL,
  detail text NOT NULL,
  due_at {time} NOT NULL
)""",
)

#: What each queue looked like in each hour, and whether each SLA target is kept.
_SLA = (
    """CREATE TABLE tabellion_snapshots (
  at bigint NOT NULL,
  queue text NOT NULL,
  taken_at {time},
  ready bigint,
  waiting bigint,
  running bigint,
  done bigint,
  failed bigint,
  oldest_seconds {number},
  hour_done bigint NOT NULL,
  hour_failed bigint NOT NULL,
  hour_retried bigint NOT NULL,
  hour_cost {number} NOT NULL,
  sla text,
  PRIMARY KEY (at, queue)
)""",
    """CREATE TABLE tabellion_sla (
  target text PRIMARY KEY,
  state text NOT NULL,
  since {time} NOT NULL,
  changing_since {time},
  value {number},
  problem text,
  checked_at {time} NOT NULL,
  turn bigint NOT NULL
)""",
)


def hide_tables(*tables: str) -> str:
    """The statement that hides tables from Supabase and PostgREST, which publish every table of `public`."""
    return f"""DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON {", ".join(tables)} FROM %I', outsider);
  END LOOP;
END $$"""


def _grant_alike(table: str, like: str = "tabellion_attempts") -> str:
    """Copies the rights on a table to another that is written by the same roles."""
    return f"""DO $$ DECLARE held record; BEGIN
  FOR held IN SELECT grantee, privilege_type AS what FROM information_schema.role_table_grants
      WHERE table_schema = current_schema() AND table_name = '{like}' AND grantee <> current_user
        AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') LOOP
    EXECUTE format('GRANT %s ON {table} TO %s', held.what,
      CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END);
  END LOOP;
END $$"""


#: One entry per version, oldest first; a version once released is never edited.
#: Changes only add (a column that may be NULL, a table, an index) or drop an index: older workers run beside new ones.
VERSIONS: tuple[dict[Dialect, tuple[str, ...]], ...] = (
    {
        "postgresql": (
            """CREATE TABLE tabellion_attempts (
  queue text NOT NULL,
  key text NOT NULL,
  n integer NOT NULL,
  token uuid NOT NULL,
  attempt integer NOT NULL,
  crashes integer NOT NULL,
  deferrals integer NOT NULL,
  worker text NOT NULL,
  first_at timestamptz NOT NULL,
  claimed_at timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  settled_at timestamptz,
  outcome text,
  retry_at timestamptz,
  error text,
  note text,
  cost double precision,
  PRIMARY KEY (queue, key, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)""",
            """CREATE UNIQUE INDEX tabellion_attempts_live
  ON tabellion_attempts (queue, key) WHERE settled_at IS NULL""",
            """CREATE TABLE tabellion_workers (
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
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  stopped_at timestamptz,
  ending text
)""",
            """CREATE TABLE tabellion_queues (
  queue text PRIMARY KEY,
  paused_at timestamptz,
  reason text,
  running_limit integer,
  updated_at timestamptz NOT NULL
)""",
            hide_tables("tabellion_attempts", "tabellion_workers", "tabellion_queues"),
        ),
        "sqlite": (
            """CREATE TABLE tabellion_attempts (
  queue TEXT NOT NULL,
  key TEXT NOT NULL,
  n INTEGER NOT NULL,
  token TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  deferrals INTEGER NOT NULL,
  worker TEXT NOT NULL,
  first_at REAL NOT NULL,
  claimed_at REAL NOT NULL,
  lease_until REAL NOT NULL,
  settled_at REAL,
  outcome TEXT,
  retry_at REAL,
  error TEXT,
  note TEXT,
  cost REAL,
  PRIMARY KEY (queue, key, n)
) WITHOUT ROWID""",
            """CREATE UNIQUE INDEX tabellion_attempts_live
  ON tabellion_attempts (queue, key) WHERE settled_at IS NULL""",
            """CREATE TABLE tabellion_workers (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  boot TEXT NOT NULL,
  version TEXT NOT NULL,
  queues TEXT NOT NULL,
  slots INTEGER NOT NULL,
  busy INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  retried INTEGER NOT NULL DEFAULT 0,
  started_at REAL NOT NULL,
  seen_at REAL NOT NULL,
  stopped_at REAL,
  ending TEXT
)""",
            """CREATE TABLE tabellion_queues (
  queue TEXT PRIMARY KEY,
  paused_at REAL,
  reason TEXT,
  running_limit INTEGER,
  updated_at REAL NOT NULL
)""",
        ),
    },
    {
        "postgresql": (
            """CREATE TABLE tabellion_gates (
  name text PRIMARY KEY,
  version bigint NOT NULL,
  state text NOT NULL,
  updated_at timestamptz NOT NULL
) WITH (fillfactor = 50)""",
            """CREATE TABLE tabellion_memos (
  key text PRIMARY KEY,
  model text NOT NULL,
  queue text NOT NULL,
  row_key text NOT NULL,
  token text NOT NULL,
  asked_at timestamptz NOT NULL,
  lease_until timestamptz,
  reply text,
  cost double precision,
  hint text,
  raw text
)""",
            hide_tables("tabellion_gates", "tabellion_memos"),
        ),
        "sqlite": (
            """CREATE TABLE tabellion_gates (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL,
  updated_at REAL NOT NULL
)""",
            """CREATE TABLE tabellion_memos (
  key TEXT PRIMARY KEY,
  model TEXT NOT NULL,
  queue TEXT NOT NULL,
  row_key TEXT NOT NULL,
  token TEXT NOT NULL,
  asked_at REAL NOT NULL,
  lease_until REAL,
  reply TEXT,
  cost REAL,
  hint TEXT,
  raw TEXT
)""",
        ),
    },
    # The dashboard's queries run every second and must not get slower as history grows: they read recent settlements
    # and waiting rows.
    {"postgresql": _LATELY, "sqlite": _LATELY},
    # An index entry for each settled attempt cost a tenth of the throughput: settlements are counted instead.
    {
        "postgresql": (
            """CREATE TABLE tabellion_counts (
  period integer NOT NULL,
  at bigint NOT NULL,
  queue text NOT NULL,
  writer text NOT NULL,
  done bigint NOT NULL,
  failed bigint NOT NULL,
  retried bigint NOT NULL,
  cost double precision NOT NULL,
  PRIMARY KEY (period, at, queue, writer)
) WITH (fillfactor = 50)""",
            """INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
SELECT 3600, floor(extract(epoch FROM settled_at) / 3600)::bigint * 3600, queue, '',
  count(*) FILTER (WHERE outcome = 'done'), count(*) FILTER (WHERE outcome IN ('failed', 'quarantined')),
  count(*) FILTER (WHERE outcome IN ('retried', 'crashed')), coalesce(sum(cost), 0)
FROM tabellion_attempts WHERE settled_at > now() - interval '30 days' GROUP BY 2, 3""",
            "DROP INDEX IF EXISTS tabellion_attempts_settled",
            hide_tables("tabellion_counts"),
            _grant_alike("tabellion_counts"),
        ),
        "sqlite": (
            """CREATE TABLE tabellion_counts (
  period INTEGER NOT NULL,
  at INTEGER NOT NULL,
  queue TEXT NOT NULL,
  writer TEXT NOT NULL,
  done INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  retried INTEGER NOT NULL,
  cost REAL NOT NULL,
  PRIMARY KEY (period, at, queue, writer)
) WITHOUT ROWID""",
            """INSERT INTO tabellion_counts (period, at, queue, writer, done, failed, retried, cost)
SELECT 3600, CAST(settled_at / 3600 AS INTEGER) * 3600, queue, '', sum(outcome = 'done'),
  sum(outcome IN ('failed', 'quarantined')), sum(outcome IN ('retried', 'crashed')), coalesce(sum(cost), 0)
FROM tabellion_attempts
WHERE settled_at > (julianday('now') - 2440587.5) * 86400.0 - 30 * 86400.0 GROUP BY 2, 3""",
            "DROP INDEX IF EXISTS tabellion_attempts_settled",
        ),
    },
    {
        dialect: tuple(
            f"ALTER TABLE tabellion_attempts ADD COLUMN {name} text" for name in ("error_code", "error_params")
        )
        for dialect in ("postgresql", "sqlite")
    },
    dict.fromkeys(("postgresql", "sqlite"), ("ALTER TABLE tabellion_attempts ADD COLUMN note_form text",)),
    {
        "postgresql": (
            *(text.format(time="timestamptz") for text in _RETENTION),
            hide_tables("tabellion_retention", "tabellion_leftovers"),
            _grant_alike("tabellion_retention", "tabellion_memos"),
            _grant_alike("tabellion_leftovers", "tabellion_memos"),
        ),
        "sqlite": tuple(text.format(time="REAL") for text in _RETENTION),
    },
    {
        "postgresql": (
            *(text.format(time="timestamptz", number="double precision") for text in _SLA),
            hide_tables("tabellion_snapshots", "tabellion_sla"),
            _grant_alike("tabellion_snapshots", "tabellion_memos"),
            _grant_alike("tabellion_sla", "tabellion_memos"),
        ),
        "sqlite": tuple(text.format(time="REAL", number="REAL") for text in _SLA),
    },
)

CURRENT = len(VERSIONS)
TABLES = (
    "tabellion_attempts", "tabellion_workers", "tabellion_queues", "tabellion_gates", "tabellion_memos",
    "tabellion_counts", "tabellion_retention", "tabellion_leftovers", "tabellion_snapshots", "tabellion_sla",
)  # fmt: skip

MISSING = "this database has no register yet: workers create it if their role is allowed to, or run `tabellion migrate`"
OLD = "the register has version {}, which is too old for this tabellion: workers update it, or run `tabellion migrate`"

VERSION_TABLE: dict[Dialect, str] = {
    "postgresql": """CREATE TABLE IF NOT EXISTS tabellion_schema (
  version integer PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT now()
)""",
    "sqlite": """CREATE TABLE IF NOT EXISTS tabellion_schema (
  version INTEGER PRIMARY KEY,
  applied_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0)
)""",
}


def attempts_due(dialect: Dialect, alias: str = "a") -> str:
    """The attempts table with a hint to use the index on `retry_at`.

    SQLite has no statistics here, and without the hint it would read the whole history in key order.
    """
    hint = " INDEXED BY tabellion_attempts_due" if dialect == "sqlite" else ""
    return f"tabellion_attempts AS {alias}{hint}"


def statements(dialect: Dialect, since: int) -> list[str]:
    """The statements that bring a register of version `since` (0: none) up to date, in order."""
    steps = [VERSION_TABLE[dialect]]
    for number, version in enumerate(VERSIONS[since:], since + 1):
        steps += version[dialect]
        steps.append(f"INSERT INTO tabellion_schema (version) VALUES ({number})")
    return steps


def script(dialect: Dialect, since: int) -> str:
    """The same as one SQL script, for a role that may run it."""
    begin = {"postgresql": "BEGIN;\nSET LOCAL lock_timeout = '2s';", "sqlite": "BEGIN IMMEDIATE;"}[dialect]
    return "\n".join([begin, *(f"{statement};" for statement in statements(dialect, since)), "COMMIT;", ""])


async def version(database: Database) -> int:
    """The register's version; 0 when there is none."""
    try:
        rows = await database.fetch("SELECT max(version) AS version FROM tabellion_schema")
    except NotMigrated:
        return 0
    return rows[0]["version"] or 0


async def migrate(database: Database) -> int:
    """Brings the register up to date and returns its version; safe to call from many processes at once."""
    lock = {
        "postgresql": ["SET LOCAL lock_timeout = '2s'", "SELECT pg_advisory_xact_lock(hashtext('tabellion'))"],
        "sqlite": [],
    }[database.dialect]
    first = [*lock, VERSION_TABLE[database.dialect], "SELECT max(version) AS version FROM tabellion_schema"]
    try:
        # Two transactions: the version must be read in a new snapshot, after the lock is held.
        installed = (await database.transact([(text, ()) for text in first]))[-1][0]["version"] or 0
        if installed < CURRENT:
            failpoint("migrate.mid")
            await database.transact([(text, ()) for text in [*lock, *statements(database.dialect, installed)]])
    except Forbidden as error:
        role = (await database.fetch("SELECT current_user AS role"))[0]["role"]
        raise NotMigrated(
            f"the register is not in this database and role {role} may not create it: "
            f"ask a role that may do so to run the SQL that `tabellion migrate --sql --grant {role}` prints"
        ) from error
    except StoreError as error:
        # Another process may have migrated first.
        if isinstance(error, Unreachable) or await version(database) < CURRENT:
            raise
    return await version(database)
