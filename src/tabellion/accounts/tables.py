"""The tables of accounts: users, keys, sessions, the audit log, idempotency keys and shared secrets."""

from __future__ import annotations

from tabellion.engine.database import Database
from tabellion.engine.schema import Schema
from tabellion.engine.sql import Dialect

GENESIS = "0" * 64  #: the previous hash of the first audit entry

#: TIME and FLAG are placeholders for the type in each database.
_PEOPLE = (
    """CREATE TABLE tabellion_users (
  id text PRIMARY KEY,
  name text NOT NULL UNIQUE,
  role text NOT NULL,
  password text,
  available FLAG NOT NULL DEFAULT TRUE,
  created_at TIME NOT NULL,
  disabled_at TIME,
  last_seen_at TIME,
  language text
)""",
    """CREATE TABLE tabellion_audit_log (
  n bigint PRIMARY KEY,
  at text NOT NULL,
  document_id text,
  item_id text,
  actor text NOT NULL,
  action text NOT NULL,
  body text NOT NULL,
  previous text NOT NULL,
  hash text NOT NULL
)""",
    "CREATE INDEX tabellion_audit_log_document ON tabellion_audit_log (document_id, n)",
    "CREATE INDEX tabellion_audit_log_item ON tabellion_audit_log (item_id, n)",
    # The end of the chain: each append locks this row first, and it shows when the last entries were deleted.
    """CREATE TABLE tabellion_audit_head (
  id integer PRIMARY KEY CHECK (id = 1),
  n bigint NOT NULL,
  previous text NOT NULL,
  hash text NOT NULL
)""",
    f"INSERT INTO tabellion_audit_head (id, n, previous, hash) VALUES (1, 0, '{GENESIS}', '{GENESIS}')",
)
_AUDIT: dict[Dialect, tuple[str, ...]] = {
    "postgresql": (
        """CREATE FUNCTION tabellion_audit_log_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'audit_log is append-only';
END $$""",
        """CREATE TRIGGER tabellion_audit_log_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON tabellion_audit_log
FOR EACH STATEMENT EXECUTE FUNCTION tabellion_audit_log_kept()""",
    ),
    "sqlite": (
        """CREATE TRIGGER tabellion_audit_log_unchanged BEFORE UPDATE ON tabellion_audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END""",
        """CREATE TRIGGER tabellion_audit_log_undeleted BEFORE DELETE ON tabellion_audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END""",
        # INSERT OR REPLACE deletes without firing the trigger above.
        """CREATE TRIGGER tabellion_audit_log_unreplaced BEFORE INSERT ON tabellion_audit_log
WHEN EXISTS (SELECT 1 FROM tabellion_audit_log WHERE n = NEW.n) BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END""",
        """CREATE TRIGGER tabellion_audit_log_headed AFTER INSERT ON tabellion_audit_log BEGIN
  UPDATE tabellion_audit_head SET n = NEW.n, previous = NEW.previous, hash = NEW.hash WHERE id = 1;
END""",
    ),
}
#: Version 2: the end of the chain moves one step at a time.
_LATER = (
    "ALTER TABLE tabellion_audit_head ADD COLUMN at text",
    "UPDATE tabellion_audit_head SET at = (SELECT l.at FROM tabellion_audit_log AS l ORDER BY l.n DESC LIMIT 1)",
)
_LATER_AUDIT: dict[Dialect, tuple[str, ...]] = {
    "postgresql": (
        # NOT VALID: a forged row must not block the migration; `audit verify` reports it.
        "ALTER TABLE tabellion_audit_log ADD CONSTRAINT audit_log_counted CHECK (n > 0) NOT VALID",
        """CREATE FUNCTION tabellion_audit_head_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'UPDATE' AND NEW.id = OLD.id AND NEW.n = OLD.n + 1 AND NEW.previous = OLD.hash THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'audit_head follows audit_log';
END $$""",
        """CREATE TRIGGER tabellion_audit_head_kept BEFORE UPDATE OR DELETE ON tabellion_audit_head
FOR EACH ROW EXECUTE FUNCTION tabellion_audit_head_kept()""",
        """CREATE TRIGGER tabellion_audit_head_whole BEFORE TRUNCATE ON tabellion_audit_head
FOR EACH STATEMENT EXECUTE FUNCTION tabellion_audit_head_kept()""",
    ),
    "sqlite": (
        "DROP TRIGGER tabellion_audit_log_headed",
        """CREATE TRIGGER tabellion_audit_log_headed AFTER INSERT ON tabellion_audit_log BEGIN
  UPDATE tabellion_audit_head SET n = NEW.n, previous = NEW.previous, hash = NEW.hash, at = NEW.at WHERE id = 1;
END""",
        """CREATE TRIGGER tabellion_audit_head_unchanged BEFORE UPDATE ON tabellion_audit_head
WHEN NEW.id IS NOT OLD.id OR NEW.n IS NOT OLD.n + 1 OR NEW.previous IS NOT OLD.hash BEGIN
  SELECT RAISE(ABORT, 'audit_head follows audit_log');
END""",
        """CREATE TRIGGER tabellion_audit_head_undeleted BEFORE DELETE ON tabellion_audit_head BEGIN
  SELECT RAISE(ABORT, 'audit_head follows audit_log');
END""",
        """CREATE TRIGGER tabellion_audit_head_unreplaced BEFORE INSERT ON tabellion_audit_head
WHEN EXISTS (SELECT 1 FROM tabellion_audit_head) BEGIN
  SELECT RAISE(ABORT, 'audit_head follows audit_log');
END""",
    ),
}
#: Version 3. Before schemas had versions these were created without one, so they may exist.
_STATEMENTS = (
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
    # Sessions and links are stored as hashes only: reading the table does not let anyone sign in.
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
#: Version 4: keys that the machines of an environment share, such as the one that signs cursors.
_SECRETS = (
    """CREATE TABLE tabellion_secrets (
  name text PRIMARY KEY,
  value text NOT NULL,
  created_at TIME NOT NULL
)""",
)


TABLES = (
    "tabellion_users", "tabellion_audit_log", "tabellion_audit_head", "tabellion_api_keys",
    "tabellion_idempotency_keys", "tabellion_sessions", "tabellion_sign_in_links", "tabellion_sign_in_tries",
    "tabellion_secrets",
)  # fmt: skip
UNVERSIONED = TABLES[:-1]  #: those that exist in databases without a version number


async def _detect_version(database: Database) -> int:
    """The version of tables that are older than version numbers, by the columns of the audit head."""
    head = await database.table("tabellion_audit_head")
    if head is None:
        return 0
    if "at" not in head.columns:
        return 1
    return 3 if all([await database.table(name) is not None for name in UNVERSIONED]) else 2


SCHEMA = Schema(
    "accounts",
    versions=(lambda d: (*_PEOPLE, *_AUDIT[d]), lambda d: (*_LATER, *_LATER_AUDIT[d]), _STATEMENTS, _SECRETS),
    tables=TABLES,
    adopted=_detect_version,
)  # fmt: skip
