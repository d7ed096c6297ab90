"""Tables of the document service under the names of an earlier version: detects and renames them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabellion.accounts import tables as accounts
from tabellion.delivery import endpoints
from tabellion.pipelines.documents import tables

if TYPE_CHECKING:
    from tabellion.engine.sql import Dialect
    from tabellion.engine.store import Store
    from tabellion.engine.tables.table import Table

PREFIX = "tabellion_"  #: of their current names
VERSIONS = "documents_schema"
LOCK = ("SET LOCAL lock_timeout = '2s'", "SELECT pg_advisory_xact_lock(hashtext('documents'))")


async def has_former_tables(store: Store) -> bool:
    """Whether an earlier version created its tables here and they have not been renamed since."""
    if await store.table(VERSIONS) is None or await store.table(PREFIX + VERSIONS) is not None:
        return False
    return "documents" in await _find_tables(store)


async def rename_former_tables(store: Store) -> bool:
    """Renames them, with their indexes and triggers, in one transaction; returns whether there were any."""
    if not await has_former_tables(store):
        return False
    await store.database.transact([(text, ()) for text in await rename_statements(store)])
    return True


async def rename_statements(store: Store) -> list[str]:
    """The statements that rename them."""
    found = await _find_tables(store)
    dialect = store.dialect
    version = (await store.database.fetch(f"SELECT max(version) AS version FROM {VERSIONS}"))[0]["version"] or 0
    steps = [*(LOCK if dialect == "postgresql" else ())]
    steps += [f"ALTER TABLE {name} RENAME TO {PREFIX}{name}" for name in (VERSIONS, *found)]
    statements = _statements(dialect, version)
    for name, table in found.items():
        for index in table.indexes:
            text = _last(statements, rf"CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?{PREFIX}{index.name} ")
            if text is not None:
                steps += _rename_index(index.name, text, dialect)
        triggers = _TRIGGERS[dialect].get(name, ())
        for trigger in triggers:
            text = _last(statements, rf"CREATE TRIGGER {PREFIX}{trigger} ")
            if text is not None:
                steps += _rename_trigger(name, trigger, text, dialect)
    if dialect == "postgresql":
        functions = [
            name for name in ("audit_log_kept", "audit_head_kept") if _last(statements, f"FUNCTION {PREFIX}{name}")
        ]
        steps += [f"ALTER FUNCTION {name}() RENAME TO {PREFIX}{name}" for name in functions if "audit_log" in found]
    return steps


#: In SQLite trigger names are global, in PostgreSQL they belong to a table.
_TRIGGERS: dict[Dialect, dict[str, tuple[str, ...]]] = {
    "postgresql": {
        "audit_log": ("audit_log_kept",),
        "audit_head": ("audit_head_kept", "audit_head_whole"),
    },
    "sqlite": {
        "audit_log": ("audit_log_unchanged", "audit_log_undeleted", "audit_log_unreplaced", "audit_log_headed"),
        "audit_head": ("audit_head_unchanged", "audit_head_undeleted", "audit_head_unreplaced"),
    },
}


def _rename_index(name: str, text: str, dialect: Dialect) -> list[str]:
    if dialect == "postgresql":
        return [f"ALTER INDEX {name} RENAME TO {PREFIX}{name}"]
    return [f"DROP INDEX {name}", text]


def _rename_trigger(table: str, name: str, text: str, dialect: Dialect) -> list[str]:
    if dialect == "postgresql":
        return [f"ALTER TRIGGER {name} ON {PREFIX}{table} RENAME TO {PREFIX}{name}"]
    return [f"DROP TRIGGER {name}", text]


async def _find_tables(store: Store) -> dict[str, Table]:
    """Tables with a former name and all our columns: a table of the user's with that name lacks some."""
    found: dict[str, Table] = {}
    for text in _statements(store.dialect, tables.SCHEMA.current):
        match = re.match(rf"CREATE TABLE (?:IF NOT EXISTS )?{PREFIX}(\w+) \(\n(.*)\n\)", text, re.DOTALL)
        if match is None:
            continue
        lines = [line.split()[0] for line in match[2].splitlines()]
        columns = {word for word in lines if word.islower()}  # the others start constraints
        table = await store.table(match[1])
        if table is not None and columns <= set(table.columns):
            found[match[1]] = table
    return found


def _statements(dialect: Dialect, version: int) -> list[str]:
    """All statements that create the tables of this version, as written today; accounts came with versions 2 and 4."""
    others = [accounts.SCHEMA.steps(dialect, number) for number, since in ((1, 2), (2, 4)) if version >= since]
    steps = [tables.SCHEMA.steps(dialect, number) for number in range(1, version + 1)]
    later = [accounts.SCHEMA.steps(dialect, 3), endpoints.SCHEMA.steps(dialect, 1)]
    return [text for steps_of_version in (*others, *steps, *later) for text in steps_of_version]


def _last(statements: Sequence[str], pattern: str) -> str | None:
    """The last statement that creates it: a later version may have recreated a trigger."""
    return next((text for text in reversed(statements) if re.search(pattern, text)), None)
