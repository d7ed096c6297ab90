"""The tables of registries: `search_sessions` and `rdprm_searches` if they do not exist, and our own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabellion.engine.database import Database
from tabellion.engine.schema import Schema
from tabellion.engine.sql import CLOCK, Dialect
from tabellion.errors import NotMigrated
from tabellion.extractions import tables as extractions

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.engine.tables.table import Table

SESSIONS, RIGHTS = "search_sessions", "rdprm_searches"
COMPANIES, STATEMENTS = "tabellion_registry_companies", "tabellion_registry_statements"


def create_sessions(dialect: Dialect) -> list[str]:
    """Searches of the enterprise register. Never add columns here: a table made by hand counts as version 1 too."""
    return [
        f"""CREATE TABLE {SESSIONS} (
  id text PRIMARY KEY DEFAULT {extractions.NEW_ID[dialect]},
  status text NOT NULL DEFAULT 'pending_company_selection',
  req_completed FLAG NOT NULL DEFAULT FALSE,
  company text,
  created_at TIME NOT NULL DEFAULT {CLOCK[dialect]},
  updated_at TIME NOT NULL DEFAULT {CLOCK[dialect]}
)""",
        f"CREATE INDEX {SESSIONS}_ready ON {SESSIONS} (created_at, id) "
        f"WHERE status = 'pending_company_selection' AND req_completed = {'FALSE' if dialect == 'postgresql' else '0'}",
        f"CREATE INDEX {SESSIONS}_newest ON {SESSIONS} (created_at, id)",
    ]


def create_rights(dialect: Dialect) -> list[str]:
    """Searches of the register of rights."""
    return [
        f"""CREATE TABLE {RIGHTS} (
  id text PRIMARY KEY DEFAULT {extractions.NEW_ID[dialect]},
  search_session_id text,
  name text,
  status text NOT NULL DEFAULT 'pending',
  created_at TIME NOT NULL DEFAULT {CLOCK[dialect]},
  completed_at TIME
)""",
        f"CREATE INDEX {RIGHTS}_ready ON {RIGHTS} (created_at, id) WHERE status = 'pending'",
        f"CREATE INDEX {RIGHTS}_newest ON {RIGHTS} (created_at, id)",
        f"CREATE INDEX {RIGHTS}_session ON {RIGHTS} (search_session_id)",
    ]


async def _adopted_sessions(database: Database) -> int:
    return 1 if await database.table(SESSIONS) is not None else 0


async def _adopted_rights(database: Database) -> int:
    return 1 if await database.table(RIGHTS) is not None else 0


#: Results, in tables of our own: tables made by hand have no columns for them. Keys are texts, as in the register.
_FOUND = (
    f"""CREATE TABLE {COMPANIES} (
  search_session_id text PRIMARY KEY,
  neq text,
  name text,
  data text NOT NULL,
  names text NOT NULL,
  found_at TIME NOT NULL
)""",
    f"""CREATE TABLE {STATEMENTS} (
  rdprm_search_id text PRIMARY KEY,
  is_empty FLAG NOT NULL DEFAULT FALSE,
  storage_path text,
  registrations text NOT NULL,
  found_at TIME NOT NULL
)""",
)

SESSIONS_SCHEMA = Schema(
    "search_sessions", (create_sessions,), (SESSIONS,), adopted=_adopted_sessions, shared=True,
    fix="tabellion migrate --with registries --sql",
)  # fmt: skip
RIGHTS_SCHEMA = Schema(
    "rdprm_searches", (create_rights,), (RIGHTS,), adopted=_adopted_rights, shared=True,
    fix="tabellion migrate --with registries --sql",
)  # fmt: skip
SCHEMA = Schema(
    "registries",
    (_FOUND,),
    (COMPANIES, STATEMENTS),
    fix="tabellion migrate --with registries --sql",
)


async def require_table(store: Store, name: str) -> Table:
    """The table; raises NotMigrated if it does not exist."""
    found = await store.table(name)
    if found is None:
        raise NotMigrated(f"there is no table {name} in this database: run `tabellion migrate --with registries`")
    return found
