"""The tables of the application: who may use it, and what was answered to whom."""

from __future__ import annotations

import weakref

from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.errors import Forbidden, NotMigrated, StoreError, Unreachable

TABLES = (
    "tabellion_api_keys", "tabellion_idempotency_keys", "tabellion_sessions", "tabellion_sign_in_links",
    "tabellion_sign_in_tries",
)  # fmt: skip
#: TIME stands for what each database calls it. Later changes only add.
STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS tabellion_api_keys (
  id text PRIMARY KEY,
  environment text NOT NULL,
  role text NOT NULL,
  name text NOT NULL,
  hash text NOT NULL,
  created_at TIME NOT NULL,
  expires_at TIME,
  last_used_at TIME,
  revoked_at TIME
)""",
    """CREATE TABLE IF NOT EXISTS tabellion_idempotency_keys (
  owner text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  answer text,
  lease_until TIME NOT NULL,
  expires_at TIME NOT NULL,
  PRIMARY KEY (owner, key)
)""",
    "CREATE INDEX IF NOT EXISTS tabellion_idempotency_keys_expiry ON tabellion_idempotency_keys (expires_at)",
    # Of sessions and links only hashes are kept: who reads this table can enter nowhere.
    """CREATE TABLE IF NOT EXISTS tabellion_sessions (
  hash text PRIMARY KEY,
  environment text NOT NULL,
  user_id text NOT NULL,
  opened_by text NOT NULL,
  created_at TIME NOT NULL,
  seen_at TIME NOT NULL
)""",
    "CREATE INDEX IF NOT EXISTS tabellion_sessions_user ON tabellion_sessions (user_id)",
    """CREATE TABLE IF NOT EXISTS tabellion_sign_in_links (
  hash text PRIMARY KEY,
  environment text NOT NULL,
  user_name text NOT NULL,
  new_role text,
  created_at TIME NOT NULL,
  expires_at TIME NOT NULL,
  used_at TIME
)""",
    """CREATE TABLE IF NOT EXISTS tabellion_sign_in_tries (
  subject text PRIMARY KEY,
  tries integer NOT NULL,
  last_at TIME NOT NULL,
  closed_until TIME NOT NULL
)""",
)
#: Supabase and PostgREST publish every table of `public`.
PRIVATE = f"""DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON {", ".join(TABLES)} FROM %I', outsider);
  END LOOP;
END $$"""
LOCK = ("SET LOCAL lock_timeout = '2s'", "SELECT pg_advisory_xact_lock(hashtext('tabellion web'))")

_prepared: weakref.WeakSet[Store] = weakref.WeakSet()


def statements(dialect: Dialect) -> list[str]:
    """What makes the tables where they are missing."""
    time = {"postgresql": " timestamptz", "sqlite": " REAL"}[dialect]
    made = [text.replace(" TIME", time) for text in STATEMENTS]
    return [*made, PRIVATE] if dialect == "postgresql" else made


async def prepare(store: Store) -> None:
    """Sees to it that the tables are there; asked once for each store."""
    if store in _prepared:
        return
    await store.open()
    if not await exist(store):
        lock = LOCK if store.dialect == "postgresql" else ()
        try:
            await store.database.transact([(text, ()) for text in (*lock, *statements(store.dialect))])
        except Forbidden as error:
            raise NotMigrated(
                f"the tables {' and '.join(TABLES)} are not in this database and this role may not create them: "
                "have someone who may run the SQL that `tabellion migrate --with documents --sql` prints"
            ) from error
        except StoreError as error:
            # Another process may have been quicker.
            if isinstance(error, Unreachable) or not await exist(store):
                raise
    _prepared.add(store)


async def exist(store: Store) -> bool:
    """Whether the tables are there."""
    return all([await store.table(name) is not None for name in TABLES])
