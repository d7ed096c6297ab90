"""The tables of the document pipeline, and how they come to be."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.errors import Forbidden, NotMigrated, StoreError, Unreachable
from tabellion.review import tables as review_tables

#: One entry per version, oldest first; a version once released is never edited, and later ones only add.
#: TIME, FLAG and NUMBER stand for what each database calls them; JSON is kept as text on both.
VERSIONS: tuple[tuple[str, ...] | Callable[[Dialect], Sequence[str]], ...] = (
    (
        # `chore` is what is done with a row beside reading it: a duplicate follows its original (follow, following,
        # followed, astray), a failure is told (telling). NULL is a document that is read itself.
        """CREATE TABLE tabellion_documents (
  id text PRIMARY KEY,
  status text NOT NULL DEFAULT 'queued',
  chore text,
  told text,
  type text,
  found_type text,
  type_key text NOT NULL,
  model text NOT NULL DEFAULT 'local',
  sha256 text NOT NULL,
  bytes bigint NOT NULL,
  name text NOT NULL,
  media text NOT NULL,
  blob text NOT NULL,
  key text NOT NULL,
  duplicate_of text,
  pages integer,
  done_pages integer,
  result text,
  verdict text,
  reasons text,
  json_path text,
  json_sha256 text,
  parquet_path text,
  parquet_sha256 text,
  cost NUMBER,
  error text,
  worker text,
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 4,
  webhook text,
  created_at TIME NOT NULL,
  started_at TIME,
  completed_at TIME,
  version integer NOT NULL DEFAULT 1
)""",
        "CREATE INDEX tabellion_documents_ready ON tabellion_documents (model, id) "
        "WHERE status = 'queued' AND chore IS NULL",
        "CREATE INDEX tabellion_documents_running ON tabellion_documents (id) WHERE status = 'processing'",
        "CREATE INDEX tabellion_documents_following ON tabellion_documents (id) WHERE chore = 'follow'",
        "CREATE INDEX tabellion_documents_untold ON tabellion_documents (id) "
        "WHERE status = 'failed' AND chore IS NULL AND told IS NULL",
        "CREATE INDEX tabellion_documents_duplicates ON tabellion_documents (duplicate_of) "
        "WHERE duplicate_of IS NOT NULL",
        "CREATE INDEX tabellion_documents_status ON tabellion_documents (status, id)",
        "CREATE INDEX tabellion_documents_sha256 ON tabellion_documents (sha256)",
        # Whoever watches all documents asks several times a second what came and what ended since.
        "CREATE INDEX tabellion_documents_created ON tabellion_documents (created_at, id)",
        "CREATE INDEX tabellion_documents_completed ON tabellion_documents (completed_at, id) "
        "WHERE completed_at IS NOT NULL",
        """CREATE TABLE tabellion_processed_documents (
  key text PRIMARY KEY,
  document_id text NOT NULL,
  created_at TIME NOT NULL
)""",
        "CREATE INDEX tabellion_processed_documents_document ON tabellion_processed_documents (document_id)",
        """CREATE TABLE tabellion_extracted_fields (
  document_id text NOT NULL,
  name text NOT NULL,
  place integer NOT NULL,
  value text,
  confidence NUMBER NOT NULL,
  page integer,
  box text,
  quote text,
  source text NOT NULL,
  reasons text NOT NULL,
  locked FLAG NOT NULL DEFAULT FALSE,
  corrected_by text,
  corrected_at TIME,
  PRIMARY KEY (document_id, name)
)""",
        """CREATE TABLE tabellion_review_items (
  id text PRIMARY KEY,
  document_id text NOT NULL UNIQUE,
  status text NOT NULL DEFAULT 'pending',
  priority NUMBER NOT NULL,
  confidence NUMBER NOT NULL,
  complexity NUMBER NOT NULL,
  value NUMBER NOT NULL,
  reasons text NOT NULL,
  created_at TIME NOT NULL,
  due_at TIME NOT NULL,
  version integer NOT NULL DEFAULT 1
)""",
        "CREATE INDEX tabellion_review_items_open ON tabellion_review_items (priority DESC, id) "
        "WHERE status IN ('pending', 'in_review')",
    ),
    review_tables.statements,
    (
        # `former` is what a document goes back to when it is read once more and that fails.
        "ALTER TABLE tabellion_documents ADD COLUMN former text",
        # Files of the lake that were a document's outputs until it was read once more; `created_at` is the document's.
        """CREATE TABLE tabellion_superseded_outputs (
  id text PRIMARY KEY,
  document_id text NOT NULL,
  path text NOT NULL,
  sha256 text,
  status text NOT NULL DEFAULT 'waiting',
  error text,
  created_at TIME NOT NULL
)""",
        "CREATE INDEX tabellion_superseded_outputs_waiting ON tabellion_superseded_outputs (id) "
        "WHERE status = 'waiting'",
    ),
    review_tables.later_statements,
    (
        *review_tables.DECISIONS,
        # The model that an upload named; NULL: whichever its type or the settings say.
        "ALTER TABLE tabellion_documents ADD COLUMN asked_model text",
    ),
)
CURRENT = len(VERSIONS)
TABLES = (
    "tabellion_documents", "tabellion_processed_documents", "tabellion_extracted_fields", "tabellion_review_items",
    "tabellion_superseded_outputs", *review_tables.TABLES,
)  # fmt: skip
VERSION_TABLE = (
    "CREATE TABLE IF NOT EXISTS tabellion_documents_schema (version integer PRIMARY KEY, applied_at TIME NOT NULL)"
)
WORDS: dict[Dialect, dict[str, str]] = {
    "postgresql": {"TIME": "timestamptz", "FLAG": "boolean", "NUMBER": "double precision"},
    "sqlite": {"TIME": "REAL", "FLAG": "boolean", "NUMBER": "REAL"},
}
#: Supabase and PostgREST publish every table of `public`: documents are nobody's API but ours.
PRIVATE = f"""DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON {", ".join(TABLES)} FROM %I', outsider);
  END LOOP;
END $$"""

_prepared: weakref.WeakSet[Store] = weakref.WeakSet()


def statements(dialect: Dialect, since: int) -> list[str]:
    """What brings tables of version `since` (0: none) up to date, in order."""
    steps = [worded(VERSION_TABLE, dialect)]
    for number, version in enumerate(VERSIONS[since:], since + 1):
        steps += [worded(step, dialect) for step in (version(dialect) if callable(version) else version)]
        steps.append(
            f"INSERT INTO tabellion_documents_schema (version, applied_at) VALUES ({number}, {sql.CLOCK[dialect]})"
        )
    return [*steps, *([PRIVATE] if dialect == "postgresql" else [])]


def script(dialect: Dialect, since: int) -> str:
    """The same as one text, for someone who may run it."""
    begin = {"postgresql": "BEGIN;\nSET LOCAL lock_timeout = '2s';", "sqlite": "BEGIN IMMEDIATE;"}[dialect]
    return "\n".join([begin, *(f"{statement};" for statement in statements(dialect, since)), "COMMIT;", ""])


async def version(database: Database) -> int:
    """The tables' version; 0 when there are none."""
    if await database.table("tabellion_documents_schema") is None:
        return 0
    rows = await database.fetch("SELECT max(version) AS version FROM tabellion_documents_schema")
    return rows[0]["version"] or 0


async def migrate(database: Database) -> int:
    """Brings the tables up to date and returns their version; safe to call from many processes at once."""
    dialect = database.dialect
    lock = {
        "postgresql": ["SET LOCAL lock_timeout = '2s'", "SELECT pg_advisory_xact_lock(hashtext('documents'))"],
        "sqlite": [],
    }[dialect]
    first = [*lock, worded(VERSION_TABLE, dialect), "SELECT max(version) AS version FROM tabellion_documents_schema"]
    try:
        # Two transactions: the version must be read after the lock is ours, in a snapshot of its own.
        found = (await database.transact([(text, ()) for text in first]))[-1][0]["version"] or 0
        if found < CURRENT:
            await database.transact([(text, ()) for text in [*lock, *statements(dialect, found)]])
    except Forbidden as error:
        raise NotMigrated(
            f"the document tables are not in this database and this role may not create them ({error}): "
            "have someone who may run the SQL that `tabellion migrate --with documents --sql` prints"
        ) from error
    except StoreError as error:
        # Another process may have been quicker.
        if isinstance(error, Unreachable) or await version(database) < CURRENT:
            raise
    return await version(database)


async def prepare(store: Store) -> None:
    """Sees to it that the tables are there; asked once for each store."""
    if store in _prepared:
        return
    await store.open()
    found = await version(store.database)
    if found < CURRENT:
        found = await migrate(store.database)
    if found > CURRENT:
        raise NotMigrated(
            f"the document tables are of version {found}, this tabellion knows {CURRENT}: upgrade tabellion"
        )
    _prepared.add(store)


def worded(text: str, dialect: Dialect) -> str:
    """A statement with what this database calls TIME, FLAG and NUMBER."""
    for word, meant in WORDS[dialect].items():
        text = text.replace(f" {word}", f" {meant}")
    return text
