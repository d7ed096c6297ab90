"""Our own tables in numbered versions."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine.database import Database
from tabellion.engine.schema import Schema, in_order, substitute_types
from tabellion.errors import NotMigrated
from tests.workers import ask

FIRST = Schema("first", (("CREATE TABLE tabellion_first (id text PRIMARY KEY, at TIME)",),), ("tabellion_first",))
SECOND = Schema(
    "second",
    (("CREATE TABLE tabellion_second (id text)",), ("ALTER TABLE tabellion_second ADD COLUMN seen FLAG",)),
    ("tabellion_second",),
    needs=(FIRST,),
)


@pytest.mark.parametrize(
    ("text", "sqlite"),
    [
        ("a TIME NOT NULL, b FLAG, c NUMBER)", "a REAL NOT NULL, b boolean, c REAL)"),
        ("a TIMESTAMP, b text", "a TIMESTAMP, b text"),
        ("now() AT TIME ZONE 'UTC'", "now() AT TIME ZONE 'UTC'"),
    ],
)
def test_types_are_translated_for_each_database(text: str, sqlite: str) -> None:
    """Words that only begin like a type are left alone."""
    assert substitute_types(text, "sqlite") == sqlite


def test_required_schemas_come_first_and_once() -> None:
    """However many schemas require them."""
    assert in_order([SECOND, FIRST, SECOND]) == [FIRST, SECOND]


def test_tables_are_created_and_migrated(url: str) -> None:
    """From nothing, and from an earlier version; required schemas are created with them."""

    async def go(store: Store) -> list[int]:
        await SECOND.prepare(store)
        return [await one.version(store.database) for one in (FIRST, SECOND)]

    assert ask(url, go) == [1, 2]
    third = Schema("second", (*SECOND.versions, ("ALTER TABLE tabellion_second ADD COLUMN n NUMBER",)), SECOND.tables)
    assert ask(url, lambda store: third.migrate(store.database)) == 3


def test_complete_tables_need_no_right_to_create(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables created before versions existed work for a role that may not create, unless one is missing."""

    async def adopted(database: Database) -> int:
        return 1 if await database.table("tabellion_first") is not None else 0

    async def forbidden(schema: Schema, database: Database) -> int:
        raise NotMigrated("this role may not create tables")

    older = Schema("older", FIRST.versions, FIRST.tables, adopted=adopted)
    ask(url, Store.open)  # makes the register
    monkeypatch.setattr(Schema, "migrate", forbidden)
    with pytest.raises(NotMigrated, match="may not create"):
        ask(url, older.prepare)
    monkeypatch.undo()
    ask(url, FIRST.prepare)
    monkeypatch.setattr(Schema, "migrate", forbidden)
    ask(url, older.prepare)
