"""Tabellion's own tables in numbered versions: created and updated, or printed as SQL."""

from __future__ import annotations

import re
import weakref
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.failpoints import failpoint
from tabellion.engine.sql import Dialect
from tabellion.errors import Forbidden, NotMigrated, StoreError, Unreachable

if TYPE_CHECKING:
    from tabellion.engine.store import Store

_TYPE = re.compile(r"\b(?:TIME|FLAG|NUMBER)\b(?! ZONE)")
_CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")
SchemaVersion = tuple[str, ...] | Callable[[Dialect], Iterable[str]]

#: Placeholders in statements for types that the databases name differently.
TYPES: dict[Dialect, dict[str, str]] = {
    "postgresql": {"TIME": "timestamptz", "FLAG": "boolean", "NUMBER": "double precision"},
    "sqlite": {"TIME": "REAL", "FLAG": "boolean", "NUMBER": "REAL"},
}


async def _none(_: Database) -> int:
    return 0


@dataclass(frozen=True, eq=False)
class Schema:
    """A group of tables that are migrated together.

    `versions` are their statements, the oldest version first; a released version is never edited. Changes only add, so
    that older processes keep running beside newer ones. `adopted` finds the version of tables that were created before
    versions were recorded. `needs` are schemas that are migrated first. `fix` is the command that prints the SQL.
    """

    name: str
    versions: tuple[SchemaVersion, ...]
    tables: tuple[str, ...]
    needs: tuple[Schema, ...] = ()
    adopted: Callable[[Database], Awaitable[int]] = _none
    fix: str = "tabellion migrate --sql --with …"
    shared: bool = False  #: whether users may have created the tables
    version_table: str = ""  #: stores the version; `tabellion_NAME_schema` if not given
    _prepared: weakref.WeakSet[Store] = field(default_factory=weakref.WeakSet, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "version_table", self.version_table or f"tabellion_{self.name}_schema")

    @property
    def current(self) -> int:
        """The version that this release of tabellion requires."""
        return len(self.versions)

    def steps(self, dialect: Dialect, number: int) -> list[str]:
        """The statements of one version."""
        version = self.versions[number - 1]
        return [substitute_types(text, dialect) for text in (version(dialect) if callable(version) else version)]

    def statements(self, dialect: Dialect, since: int) -> list[str]:
        """The statements that bring tables of version `since` (0: none) up to date, in order."""
        statements = [self._version_table(dialect)]
        for number in range(since + 1, self.current + 1):
            statements += self.steps(dialect, number)
            statements.append(self._note(number, dialect))
        # Only new tables: rights on those that exist may have been granted on purpose.
        created = {match[1] for text in statements if (match := _CREATE.match(text))}
        new = [table for table in self.tables if table in created]
        return [*statements, *([hide_tables(*new)] if dialect == "postgresql" and new else [])]

    def script(self, dialect: Dialect, since: int) -> str:
        """The same as one SQL script, for a role that may run it."""
        begin = {"postgresql": "BEGIN;\nSET LOCAL lock_timeout = '2s';", "sqlite": "BEGIN IMMEDIATE;"}[dialect]
        return "\n".join([begin, *(f"{text};" for text in self.statements(dialect, since)), "COMMIT;", ""])

    async def version(self, database: Database) -> int:
        """The version of the existing tables; 0: there are none."""
        try:
            rows = await database.fetch(f"SELECT max(version) AS version FROM {self.version_table}")
        except NotMigrated:
            return await self.adopted(database)
        return rows[0]["version"] or await self.adopted(database)

    async def migrate(self, database: Database) -> int:
        """Brings the tables up to date and returns their version; safe to call from many processes at once."""
        dialect = database.dialect
        lock = ["SET LOCAL lock_timeout = '2s'", f"SELECT pg_advisory_xact_lock(hashtext('{self.name}'))"]
        lock = lock if dialect == "postgresql" else []
        query = f"SELECT max(version) AS version FROM {self.version_table}"
        first = [*lock, self._version_table(dialect), query]
        try:
            # Two transactions: the version must be read in a new snapshot, after the lock is held.
            recorded = (await database.transact([(text, ()) for text in first]))[-1][0]["version"]
            installed = recorded or await self.adopted(database)
            adopting = [self._note(installed, dialect)] if installed and not recorded else []
            if installed < self.current or adopting:
                failpoint("migrate.mid")
                steps = [*lock, *adopting, *self.statements(dialect, installed)]
                await database.transact([(text, ()) for text in steps])
        except Forbidden as error:
            role = (await database.fetch("SELECT current_user AS role"))[0]["role"]
            words = error.__cause__ or error  # the driver's: ours advise to grant rights on tables, not CREATE
            raise NotMigrated(
                f"the {self.name} tables are missing or old, and role {role} may not create them ({words}): ask a "
                f"role that may do so to run the SQL that `{self.fix} --grant {role}` prints"
            ) from error
        except StoreError as error:
            # Another process may have migrated first.
            if isinstance(error, Unreachable) or await self.version(database) < self.current:
                raise
        return await self.version(database)

    async def prepare(self, store: Store) -> None:
        """Makes sure that the tables exist and are up to date; checked once for each store."""
        if store in self._prepared:
            return
        for needed in self.needs:
            await needed.prepare(store)
        await store.open()
        version = await self.version(store.database)
        if version < self.current or await store.table(self.version_table) is None:
            try:
                version = await self.migrate(store.database)
            except NotMigrated:
                if version < self.current:
                    raise  # otherwise the tables are up to date, and only their version is not recorded
        self.check_supported(version)
        self._prepared.add(store)

    def check_supported(self, version: int) -> None:
        """Raises NotMigrated for tables of a newer release."""
        if version > self.current:
            raise NotMigrated(
                f"the {self.name} tables have version {version}, this tabellion supports {self.current}: "
                "upgrade tabellion"
            )

    def _version_table(self, dialect: Dialect) -> str:
        text = f"""CREATE TABLE IF NOT EXISTS {self.version_table} (
  version integer PRIMARY KEY,
  applied_at TIME NOT NULL DEFAULT {sql.CLOCK[dialect]}
)"""
        return substitute_types(text, dialect)

    def _note(self, number: int, dialect: Dialect) -> str:
        return f"INSERT INTO {self.version_table} (version, applied_at) VALUES ({number}, {sql.CLOCK[dialect]})"


def hide_tables(*tables: str) -> str:
    """The statement that hides tables from Supabase and PostgREST, which publish every table of `public`."""
    return f"""DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON {", ".join(tables)} FROM %I', outsider);
  END LOOP;
END $$"""


def substitute_types(text: str, dialect: Dialect) -> str:
    """A statement with this database's types for TIME, FLAG and NUMBER."""
    return _TYPE.sub(lambda match: TYPES[dialect][match[0]], text)


def in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """The schemas and those they need, each once, needed ones first."""
    ordered: list[Schema] = []
    for schema in schemas:
        ordered += [candidate for candidate in (*in_order(schema.needs), schema) if candidate not in ordered]
    return ordered
