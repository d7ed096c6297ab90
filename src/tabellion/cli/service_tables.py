"""The tables of the document service: made by `up` and `migrate --with documents`, and by nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from tabellion.errors import Busy, NotMigrated, Unreachable

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.sql import Dialect
    from tabellion.engine.store import Store


async def prepare(store: Store) -> None:
    """Makes or updates every table of the document service; those that an earlier version made are renamed."""
    from tabellion.cli.former_tables import rename_former_tables
    from tabellion.delivery import endpoints
    from tabellion.pipelines.documents import tables
    from tabellion.web import tables as web_tables

    await store.open()
    await rename_former_tables(store)
    await tables.prepare(store)
    await endpoints.prepare(store)
    await web_tables.prepare(store)


async def script(store: Store) -> str:
    """The SQL that makes or updates them, for someone who may run it; empty where they are up to date."""
    from tabellion.cli.former_tables import has_former_tables, renaming
    from tabellion.delivery import endpoints
    from tabellion.pipelines.documents import tables
    from tabellion.web import tables as web_tables

    if await has_former_tables(store):
        steps = "".join(f"{text};\n" for text in await renaming(store))
        return f"BEGIN;\n{steps}COMMIT;\n-- Run this, then ask again: the rest depends on it.\n"
    version = await tables.version(store.database)
    made = [tables.script(store.dialect, version)] if version < tables.CURRENT else []
    if not await endpoints.exist(store):
        made += [f"{text};\n" for text in endpoints.statements(store.dialect)]
    if not await web_tables.exist(store):
        made += [f"{text};\n" for text in web_tables.statements(store.dialect)]
    return "".join(made)


def full_script(dialect: Dialect, wanted: bool) -> str:
    """The SQL for a database that has none of them."""
    from tabellion.delivery import endpoints
    from tabellion.pipelines.documents import tables
    from tabellion.web import tables as web_tables

    if not wanted:
        return ""
    others = [*endpoints.statements(dialect), *web_tables.statements(dialect)]
    return tables.script(dialect, 0) + "".join(f"{text};\n" for text in others)


def service_grants(role: str) -> list[str]:
    """What lets a role use them."""
    from tabellion.delivery import endpoints
    from tabellion.engine import sql
    from tabellion.pipelines.documents import tables
    from tabellion.web import tables as web_tables

    names = ("tabellion_documents_schema", *tables.TABLES, *endpoints.TABLES, *web_tables.TABLES)
    return [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(names)} TO {sql.column(role)};"]


async def require(environment: Environment) -> None:
    """Refuses an environment in which the document service has no tables; changes nothing there."""
    from tabellion.cli.former_tables import has_former_tables
    from tabellion.pipelines.documents import tables

    store = environment.store(read_only=True)
    try:
        await store.database.open()
        found = await tables.version(store.database)
        former = not found and await has_former_tables(store)
    finally:
        await store.close()
    if former:
        raise NotMigrated(
            f"the tables of the document service in {environment.address} have the names of an earlier version: stop "
            "what uses them, then `tabellion up` or `tabellion migrate --with documents` renames them"
        )
    if not found:
        raise NotMigrated(
            f"the document service has no tables in {environment.address}: `tabellion up` and "
            "`tabellion migrate --with documents` make them"
        )


@contextlib.asynccontextmanager
async def service_store(environment: Environment) -> AsyncIterator[Store]:
    """A store on an environment that has the document service, its tables brought up to date."""
    await require(environment)
    async with environment.store() as store:
        await prepare(store)
        yield store


def require_all(environments: Iterable[Environment]) -> None:
    """The same for every environment that answers; a worker waits for the others, and asks again."""

    async def one(environment: Environment) -> None:
        with contextlib.suppress(Unreachable, Busy):
            async with service_store(environment):
                pass

    async def every() -> None:
        await asyncio.gather(*(one(environment) for environment in environments))

    asyncio.run(every())
