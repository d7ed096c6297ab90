"""Tables of ours other than the register, in numbered versions: made, brought up to date, or printed as SQL."""

from __future__ import annotations

import re
import weakref
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.errors import Forbidden, NotMigrated, StoreError, Unreachable

_TYPE = re.compile(r"\b(?:TIME|FLAG|NUMBER)\b(?! ZONE)")
Version = tuple[str, ...] | Callable[[Dialect], Iterable[str]]

#: What stands in statements for the types that databases name differently.
TYPES: dict[Dialect, dict[str, str]] = {
    "postgresql": {"TIME": "timestamptz", "FLAG": "boolean", "NUMBER": "double precision"},
    "sqlite": {"TIME": "REAL", "FLAG": "boolean", "NUMBER": "REAL"},
}


async def _none(_: Database) -> int:
    return 0


@dataclass(frozen=True, eq=False)
class Schema:
    """Some tables under one name.

    `versions` are their statements, the oldest version first; one that was released is never edited. Changes only add,
    so that older processes go on beside newer ones. `adopted` tells the version of tables that were made before they
    were numbered. `needs` are schemas that are made first. `fix` is the command that prints the SQL.
    """

    name: str
    versions: tuple[Version, ...]
    tables: tuple[str, ...]
    needs: tuple[Schema, ...] = ()
    adopted: Callable[[Database], Awaitable[int]] = _none
    fix: str = "tabellion migrate --sql --with …"
    shared: bool = False  #: whether people may have made them by hand: the rights on those are theirs to give
    _prepared: weakref.WeakSet[Store] = field(default_factory=weakref.WeakSet, init=False, repr=False)

    @property
    def current(self) -> int:
        """The version that this tabellion works with."""
        return len(self.versions)

    @property
    def version_table(self) -> str:
        """The table that keeps the version."""
        return f"tabellion_{self.name}_schema"

    def steps(self, dialect: Dialect, number: int) -> list[str]:
        """The statements of one version."""
        version = self.versions[number - 1]
        return [substitute_types(text, dialect) for text in (version(dialect) if callable(version) else version)]

    def statements(self, dialect: Dialect, since: int) -> list[str]:
        """What brings tables of version `since` (0: none) up to date, in order."""
        made = [self._version_table(dialect)]
        for number in range(since + 1, self.current + 1):
            made += self.steps(dialect, number)
            made.append(self._note(number, dialect))
        theirs = self.shared and since > 0
        return [*made, *([private(self.tables)] if dialect == "postgresql" and not theirs else [])]

    def script(self, dialect: Dialect, since: int) -> str:
        """The same as one text, for someone who may run it."""
        begin = {"postgresql": "BEGIN;\nSET LOCAL lock_timeout = '2s';", "sqlite": "BEGIN IMMEDIATE;"}[dialect]
        return "\n".join([begin, *(f"{text};" for text in self.statements(dialect, since)), "COMMIT;", ""])

    async def version(self, database: Database) -> int:
        """The version of the tables there are; 0: none."""
        if await database.table(self.version_table) is None:
            return await self.adopted(database)
        rows = await database.fetch(f"SELECT max(version) AS version FROM {self.version_table}")
        return rows[0]["version"] or await self.adopted(database)

    async def migrate(self, database: Database) -> int:
        """Brings the tables up to date and returns their version; safe to call from many processes at once."""
        dialect = database.dialect
        lock = ["SET LOCAL lock_timeout = '2s'", f"SELECT pg_advisory_xact_lock(hashtext('{self.name}'))"]
        lock = lock if dialect == "postgresql" else []
        asking = f"SELECT max(version) AS version FROM {self.version_table}"
        first = [*lock, self._version_table(dialect), asking]
        try:
            # Two transactions: the version must be read after the lock is ours, in a snapshot of its own.
            noted = (await database.transact([(text, ()) for text in first]))[-1][0]["version"]
            found = noted or await self.adopted(database)
            adopting = [self._note(found, dialect)] if found and not noted else []
            if found < self.current or adopting:
                steps = [*lock, *adopting, *self.statements(dialect, found)]
                await database.transact([(text, ()) for text in steps])
        except Forbidden as error:
            raise NotMigrated(
                f"the {self.name} tables are not in this database and this role may not create them ({error}): "
                f"ask a role that may do so to run the SQL that `{self.fix}` prints"
            ) from error
        except StoreError as error:
            # Another process may have been quicker.
            if isinstance(error, Unreachable) or await self.version(database) < self.current:
                raise
        return await self.version(database)

    async def prepare(self, store: Store) -> None:
        """Makes sure that the tables are there and up to date; asked once for each store."""
        if store in self._prepared:
            return
        for one in self.needs:
            await one.prepare(store)
        await store.open()
        found = await self.version(store.database)
        if found < self.current or await store.table(self.version_table) is None:
            try:
                found = await self.migrate(store.database)
            except NotMigrated:
                if found < self.current:
                    raise  # else they are all there, and only the note of it is not
        if found > self.current:
            raise NotMigrated(
                f"the {self.name} tables have version {found}, tabellion supports {self.current}: upgrade tabellion"
            )
        self._prepared.add(store)

    def _version_table(self, dialect: Dialect) -> str:
        text = (
            f"CREATE TABLE IF NOT EXISTS {self.version_table} (version integer PRIMARY KEY, applied_at TIME NOT NULL)"
        )
        return substitute_types(text, dialect)

    def _note(self, number: int, dialect: Dialect) -> str:
        return f"INSERT INTO {self.version_table} (version, applied_at) VALUES ({number}, {sql.CLOCK[dialect]})"


def substitute_types(text: str, dialect: Dialect) -> str:
    """A statement with what this database calls TIME, FLAG and NUMBER."""
    return _TYPE.sub(lambda match: TYPES[dialect][match[0]], text)


def private(tables: Iterable[str]) -> str:
    """Supabase and PostgREST publish every table of `public`: ours are nobody's API but our own."""
    return f"""DO $$ DECLARE outsider text; BEGIN
  FOR outsider IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON {", ".join(tables)} FROM %I', outsider);
  END LOOP;
END $$"""


def in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """The schemas and those they need, each once, needed ones first."""
    found: list[Schema] = []
    for schema in schemas:
        found += [one for one in (*in_order(schema.needs), schema) if one not in found]
    return found
