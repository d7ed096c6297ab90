"""The tables are created once, however many processes start."""

from __future__ import annotations

import asyncio

import pytest

from tabellion import Store
from tabellion.errors import NotMigrated, StoreError
from tabellion.pipelines.documents import states, tables
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.written_columns import FormerRequest, NewDocument, WrittenColumns
from tests.pipelines.documents.papers import document, submit_bills
from tests.table_owner import owning
from tests.workers import ask


def test_tables_are_created_on_first_use(url: str) -> None:
    """From nothing to the current version; the second time there is nothing to do."""

    async def go(store: Store) -> list[int]:
        await store.open()
        before = await tables.SCHEMA.version(store.database)
        await tables.SCHEMA.prepare(store)
        await tables.SCHEMA.prepare(store)
        return [before, await tables.SCHEMA.version(store.database), await tables.SCHEMA.migrate(store.database)]

    assert ask(url, go) == [0, tables.SCHEMA.current, tables.SCHEMA.current]
    for table in tables.SCHEMA.tables:
        assert ask(url, lambda store, name=table: store.table(name)) is not None  # type: ignore[misc]


def test_what_is_written_to_a_document_has_its_column(url: str) -> None:
    """The types of rows that are written name no other columns."""
    ask(url, tables.SCHEMA.prepare)
    found = ask(url, lambda store: store.table("tabellion_documents"))
    assert found is not None
    for kind in (NewDocument, WrittenColumns, FormerRequest):
        assert kind.__annotations__.keys() <= found.columns.keys()
    assert {*states.FORMER} == FormerRequest.__annotations__.keys() - {"status"}


def test_concurrent_preparation_creates_the_tables_once(url: str) -> None:
    """Eight stores that find nothing create the tables once."""

    async def go() -> int:
        stores = [Store(url) for _ in range(8)]
        try:
            await asyncio.gather(*(tables.SCHEMA.prepare(store) for store in stores))
            return await tables.SCHEMA.version(stores[0].database)
        finally:
            for store in stores:
                await store.close()

    assert asyncio.run(go()) == tables.SCHEMA.current


def test_a_later_version_is_left_alone(url: str) -> None:
    """Tables of a future tabellion are not touched by this one."""
    ask(url, tables.SCHEMA.prepare)
    with owning(url, create=False) as owner:
        at = "now()" if owner.dialect == "postgresql" else "0"
        owner(f"INSERT INTO tabellion_documents_schema (version, applied_at) VALUES (99, {at})")
    with pytest.raises(NotMigrated, match="upgrade tabellion"):
        ask(url, tables.SCHEMA.prepare)


def test_an_existing_table_of_the_same_name_is_not_ours(url: str) -> None:
    """A database with its own table `documents` keeps it: nothing is created beside it."""
    with owning(url, create=False) as owner:
        owner("CREATE TABLE tabellion_documents (id integer PRIMARY KEY)")
    with pytest.raises(StoreError, match="documents"):
        ask(url, tables.SCHEMA.prepare)
    assert ask(url, lambda store: store.table("tabellion_review_items")) is None


def test_the_script_creates_the_same_tables(url: str) -> None:
    """After running what is printed there is nothing left to do."""
    dialect = Store(url).dialect
    with owning(url, create=False) as owner:
        text = tables.SCHEMA.script(dialect, 0)
        if dialect == "sqlite":
            assert owner._sqlite is None
            owner("SELECT 1")
            assert owner._sqlite is not None
            owner._sqlite.executescript(text)
        else:
            owner("SELECT 1")
            owner._loop.run_until_complete(owner._postgres.execute(text))
    assert ask(url, lambda store: tables.SCHEMA.version(store.database)) == tables.SCHEMA.current


def test_errors_of_older_versions_get_their_codes(url: str, settings: Settings) -> None:
    """A sentence stored by the engine becomes a problem with a code in the migration."""
    old = {
        "timed out after 9 s": "timed_out", "quarantined after 2 crashes in a row; the last: x": "worker_crashed",
        "its document type cannot be used for now: x; a retry would exceed the deadline": "configuration",
        "outputs cannot be written for now: full": "outputs_failed", "Unavailable: it's \"away\"": "try_failed",
    }  # fmt: skip
    submitted = submit_bills(url, settings, 0, 1, 2, 3, 4)
    with owning(url, create=False) as owner:
        for one, text in zip(submitted, old, strict=True):
            owner(
                f"UPDATE tabellion_documents SET error = '{text.replace(chr(39), chr(39) * 2)}' WHERE id = '{one.id}'"
            )
        owner(tables.errors_with_codes(Store(url).dialect)[0])
    for one, (text, code) in zip(submitted, old.items(), strict=True):
        error = document(url, one.id)["error"]
        assert (error["code"], error["message"]) == (code, text)


def test_states_of_older_versions_are_renamed(url: str, settings: Settings) -> None:
    """A failure that was reported stays reported, and the failed jobs of a queue stay failed jobs."""
    older = ("told = 'told'", "told = 'untold'", "chore = 'astray'")
    keys = [one.id for one in submit_bills(url, settings, 0, 1, 2)]
    with owning(url, create=False) as owner:
        for key, change in zip(keys, older, strict=True):
            owner(f"UPDATE tabellion_documents SET {change} WHERE id = '{key}'")
        for change in states.RENAMED_VALUES:
            owner(change)
        found = {
            row["id"]: (row["told"], row["chore"]) for row in owner("SELECT id, told, chore FROM tabellion_documents")
        }
    assert [found[key] for key in keys] == [("reported", None), ("unreported", None), (None, "unfollowed")]
