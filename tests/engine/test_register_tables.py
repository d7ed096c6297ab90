"""The register: our own tables in each database, and how they are created."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from tabellion import Store
from tabellion.engine import register_tables
from tabellion.engine.memo import Asker, Memos
from tabellion.errors import NotMigrated, Unreachable
from tests.engine.made_tables import TASKS, asynchronous, attempts, outcomes, run, tasks, tasks_queue
from tests.roles import temporary_role
from tests.servers import Postgres

Arm = Callable[[str], None]
HERE = Path(__file__).parent
RELEASED = 7  #: the version of the scripts beside this file


@pytest.fixture
def anon(postgres18: Postgres) -> Iterator[str]:
    """One of the roles through which Supabase publishes tables."""
    with temporary_role(postgres18, "anon") as name:
        yield name


async def execute(store: Store, script: str) -> None:
    """Run an SQL script as another program would."""
    if store.dialect == "sqlite":
        with contextlib.closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(script)
    else:
        other = await asyncpg.connect(store.url)
        await other.execute(script)
        await other.close()


async def drop_register(store: Store) -> None:
    """Drop the tables of the newest version."""
    await run(store, *(f"DROP TABLE {table}" for table in (*register_tables.TABLES, "tabellion_schema")))


async def columns(store: Store) -> list[str]:
    """Return the columns of the register's tables."""
    tables = [await store.database.table(name) for name in register_tables.TABLES]
    return [f"{table.name}.{column}" for table in tables if table is not None for column in table.columns]


@asynchronous
async def test_the_register_is_created_on_first_use(store: Store) -> None:
    """An empty database has version 0; opening migrates it; opening again changes nothing."""
    await store.database.open()
    assert await store.version() == 0
    await store.open()
    assert await store.version() == register_tables.CURRENT
    assert await store.migrate() == register_tables.CURRENT
    assert [r["version"] for r in await store.database.fetch("SELECT version FROM tabellion_schema")] == [
        *range(1, register_tables.CURRENT + 1)
    ]


@asynchronous
async def test_opening_without_permission_to_migrate(store: Store) -> None:
    """`migrate=False` reports what is missing and creates nothing."""
    with pytest.raises(NotMigrated, match="tabellion migrate"):
        await store.open(migrate=False)
    assert await store.version() == 0


@asynchronous
async def test_a_newer_register_is_rejected(store: Store) -> None:
    """An old worker on an unknown version stops and says what to do."""
    await store.open()
    await run(store, f"INSERT INTO tabellion_schema (version) VALUES ({register_tables.CURRENT + 1})")
    await store.close()
    with pytest.raises(NotMigrated, match=f"version {register_tables.CURRENT + 1}.*upgrade tabellion"):
        await store.open()


@asynchronous
async def test_an_interrupted_migration_changes_nothing(store: Store, arm: Arm) -> None:
    """It is one transaction: the next one starts over and succeeds."""
    arm("migrate.mid:raise@1")
    with pytest.raises(Unreachable):
        await store.open()
    assert await store.version() == 0
    await store.open()
    assert await store.version() == register_tables.CURRENT


@asynchronous
async def test_twenty_migrations_at_once_on_postgresql(pg_url: str) -> None:
    """However many processes start together, the register is created once and all of them continue."""
    stores = [Store(pg_url) for _ in range(20)]
    try:
        assert set(await asyncio.gather(*(store.migrate() for store in stores))) == {register_tables.CURRENT}
        assert len(await stores[0].database.fetch("SELECT * FROM tabellion_schema")) == register_tables.CURRENT
    finally:
        await asyncio.gather(*(store.close() for store in stores))


def test_twenty_migrations_at_once_on_sqlite(sqlite_url: str) -> None:
    """The same for twenty threads on one file that does not exist yet."""
    versions: list[object] = []
    start = threading.Barrier(20)

    def migrate() -> None:
        async def once() -> int:
            store = Store(sqlite_url, deadline=30)
            try:
                return await store.migrate()
            finally:
                await store.close()

        start.wait()
        try:
            versions.append(asyncio.run(once()))
        except Exception as error:
            versions.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [register_tables.CURRENT] * 20


@asynchronous
async def test_the_printed_sql_makes_the_register(store: Store) -> None:
    """What `migrate --sql` prints can be run by someone else, and then no migration is needed."""
    await execute(store, register_tables.SCHEMA.script(store.dialect, 0))
    await store.open(migrate=False)
    assert await store.version() == register_tables.CURRENT
    queue = await tasks(store, 1)
    assert len(await store.claim(queue, 1, "w")) == 1


@asynchronous
async def test_a_register_of_any_earlier_version_is_updated(store: Store) -> None:
    """To the same tables and columns as a new one."""
    await store.open()
    expected = await columns(store)
    for version in range(1, register_tables.CURRENT):
        await drop_register(store)
        # Of its tables, every version has the first.
        earlier = dataclasses.replace(
            register_tables.SCHEMA, versions=register_tables.VERSIONS[:version], tables=register_tables.TABLES[:1]
        )
        await earlier.migrate(store.database)
        assert await store.version() == version
        assert await store.migrate() == register_tables.CURRENT
        assert await columns(store) == expected


@asynchronous
async def test_a_register_of_an_earlier_release_is_updated_with_its_rows(store: Store) -> None:
    """What another release created and wrote: every row stays as it was, is read, and work goes on."""
    await store.open()
    expected = await columns(store)
    await drop_register(store)
    await execute(store, (HERE / f"register_{RELEASED}.{store.dialect}.sql").read_text())
    queries = {table: f"SELECT * FROM {table}" for table in register_tables.TABLES[:8]}
    before = {table: await store.database.fetch(query) for table, query in queries.items()}
    assert await store.version() == RELEASED
    assert await store.migrate() == register_tables.CURRENT
    assert await columns(store) == expected
    for table, query in queries.items():
        after = await store.database.fetch(query)
        assert [new | old for new, old in zip(after, before[table], strict=True)] == after
    queue = await tasks(store, 1)
    await run(store, "INSERT INTO tasks (id, status) VALUES (2, 'failed'), (3, 'done'), (4, 'working')")
    assert await outcomes(store) == ["retried", "failed", "done", None]
    assert "empty PDF" in " ".join((await store.explain(queue, 2)).sentences)
    assert (await Memos(store).recall("sha256:1", Asker(), "local", 60.0)).reply == '{"text":"x"}'
    [job] = await store.claim(queue, 9, "w2")
    assert (job.key, job.attempt) == (1, 2)


@asynchronous
async def test_a_second_live_claim_is_impossible_in_the_database(store: Store) -> None:
    """One owner at a time is a constraint: even manual SQL cannot add a second live attempt."""
    queue = await tasks(store, 1)
    await store.claim(queue, 1, "w1")
    [live] = await attempts(store, 1)
    token = "'00000000-0000-0000-0000-000000000000'"
    with pytest.raises(Exception, match=r"(?i)unique"):
        await run(
            store,
            f"""INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
claimed_at, lease_until) SELECT queue, key, n + 1, {token}, 1, 0, 0, 'w2', first_at, claimed_at, lease_until
FROM tabellion_attempts""",
        )
    assert await attempts(store, 1) == [live]


@asynchronous
async def test_a_role_that_may_not_create_is_told_what_to_do(pg_url: str, role: str) -> None:
    """PostgreSQL: without CREATE, the error says what to do; once the tables exist and are granted, it works."""
    async with Store(pg_url) as admin:
        await run(admin, TASKS, f"GRANT SELECT, INSERT, UPDATE ON tasks TO {role}")
        await drop_register(admin)
        store = Store(pg_url.replace("postgres@", f"{role}@"))
        try:
            with pytest.raises(NotMigrated, match="tabellion migrate --sql") as missing:
                await store.open()
            assert f"role {role} may not create them (permission denied for schema public): " in str(missing.value)
            await admin.migrate()
            for table in (*register_tables.TABLES, "tabellion_schema"):
                await run(admin, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}")
            queue = tasks_queue()
            await store.add(queue, id=1)
            [job] = await store.claim(queue, 1, "w")
            await store.finish(job, {"result": "x"})
        finally:
            await store.close()


@asynchronous
async def test_public_roles_have_no_rights_on_the_register(pg_url: str, anon: str) -> None:
    """PostgreSQL: the roles through which Supabase publishes tables cannot read ours."""
    async with Store(pg_url) as store:
        await drop_register(store)
        await run(store, f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {anon}")
        await store.migrate()
        for table in register_tables.TABLES:
            [found] = await store.database.fetch(f"SELECT has_table_privilege('{anon}', '{table}', 'SELECT') AS may")
            assert found["may"] is False, table


@asynchronous
async def test_an_upgrade_leaves_granted_rights(pg_url: str, anon: str) -> None:
    """PostgreSQL: it hides the tables that it adds, and no other."""
    async with Store(pg_url) as store:
        await drop_register(store)
        await execute(store, (HERE / f"register_{RELEASED}.postgresql.sql").read_text("utf-8"))
        await run(store, f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {anon}")
        await run(store, f"GRANT SELECT ON tabellion_attempts TO {anon}")
        await store.migrate()
        for table, may in (("tabellion_attempts", True), ("tabellion_snapshots", False), ("tabellion_sla", False)):
            [found] = await store.database.fetch(f"SELECT has_table_privilege('{anon}', '{table}', 'SELECT') AS may")
            assert found["may"] is may, table
