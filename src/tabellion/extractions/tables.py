"""Creates the table `extraction_queue` if it does not exist; an existing one is not changed."""

from __future__ import annotations

from tabellion.engine.database import Database
from tabellion.engine.schema import Schema
from tabellion.engine.sql import CLOCK, Dialect

TABLE = "extraction_queue"

NEW_ID: dict[Dialect, str] = {  #: the default of a key
    "postgresql": "(gen_random_uuid()::text)",
    # SQLite has no UUIDs: 32 random digits, with the version and variant digits of UUID version 4.
    "sqlite": """(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
    || '-' || substr('89ab', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2)
    || '-' || hex(randomblob(6))))""",
}
_JSON: dict[Dialect, str] = {"postgresql": "jsonb", "sqlite": "json"}


def create(dialect: Dialect) -> list[str]:
    """The first version. Never add columns here: a table made by hand counts as version 1 too. What later versions
    need goes into a table of our own."""
    return [
        f"""CREATE TABLE {TABLE} (
  id text PRIMARY KEY DEFAULT {NEW_ID[dialect]},
  status_id integer NOT NULL DEFAULT 1,
  document_type text NOT NULL DEFAULT 'index',
  document_number text,
  lot text,
  cadastre text,
  circonscription text,
  designation_secondaire text,
  worker_id text,
  processing_started_at TIME,
  error_message text,
  storage_path text,
  ocr_worker_id text,
  ocr_started_at TIME,
  ocr_attempts integer NOT NULL DEFAULT 0,
  ocr_max_attempts integer NOT NULL DEFAULT 3,
  ocr_error text,
  ocr_text text,
  ocr_metadata {_JSON[dialect]},
  created_at TIME NOT NULL DEFAULT {CLOCK[dialect]},
  updated_at TIME NOT NULL DEFAULT {CLOCK[dialect]}
)""",
        # The indexes that `tabellion adopt` recommends for the two queues, and one for lists, newest first.
        f"CREATE INDEX {TABLE}_extraction_ready ON {TABLE} (created_at, id) WHERE status_id = 1",
        f"CREATE INDEX {TABLE}_ocr_ready ON {TABLE} (created_at, id) WHERE status_id = 3",
        f"CREATE INDEX {TABLE}_newest ON {TABLE} (created_at DESC, id DESC)",
    ]


async def _find_version(database: Database) -> int:
    return 1 if await database.table(TABLE) is not None else 0


SCHEMA = Schema("extractions", (create,), (TABLE,), adopted=_find_version, shared=True)
