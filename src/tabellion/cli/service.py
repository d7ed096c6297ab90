"""The tables of pipelines in a database: made by `up` and `migrate --with`, and required by everything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from tabellion.accounts import tables
from tabellion.delivery import endpoints
from tabellion.engine import sql
from tabellion.engine.schema import in_order
from tabellion.errors import Busy, NotMigrated, Unreachable
from tabellion.pipeline import Pipeline, installed_pipelines

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.schema import Schema
    from tabellion.engine.sql import Dialect
    from tabellion.engine.store import Store


def schemas_of(pipelines: Sequence[Pipeline]) -> list[Schema]:
    """Everything that serving these pipelines needs, needed ones first: accounts and webhooks with any of them."""
    own = [schema for one in pipelines for schema in one.schemas()]
    return in_order([tables.SCHEMA, endpoints.SCHEMA, *own]) if pipelines else []


async def prepare(store: Store, pipelines: Sequence[Pipeline]) -> None:
    """Makes or updates every table of these pipelines."""
    await store.open()
    for one in pipelines:
        await one.before_migration(store)
    for schema in schemas_of(pipelines):
        await schema.prepare(store)


async def script(store: Store, pipelines: Sequence[Pipeline]) -> str:
    """The SQL that does so, for someone who may run it; empty where they are up to date."""
    first = "".join([await one.before_migration_script(store) for one in pipelines])
    if first:
        return first
    made = ""
    for schema in schemas_of(pipelines):
        version = await schema.version(store.database)
        made += schema.script(store.dialect, version) if version < schema.current else ""
    return made


def full_script(dialect: Dialect, pipelines: Sequence[Pipeline]) -> str:
    """The SQL for a database that has none of them."""
    return "".join(schema.script(dialect, 0) for schema in schemas_of(pipelines))


def grants(role: str, pipelines: Sequence[Pipeline]) -> list[str]:
    """What lets a role use them."""

    names = [name for schema in schemas_of(pipelines) for name in (schema.version_table, *schema.tables)]
    return [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(names)} TO {sql.column(role)};"] if names else []


@contextlib.asynccontextmanager
async def service_store(environment: Environment) -> AsyncIterator[Store]:
    """A store on an environment that is served, its tables brought up to date; one that is not is left alone."""
    pipelines = await _present(environment)
    async with environment.store() as store:
        await prepare(store, pipelines)
        for schema in (tables.SCHEMA, endpoints.SCHEMA):  # also where no pipeline has tables of its own
            await schema.prepare(store)
        yield store


async def _present(environment: Environment) -> list[Pipeline]:
    found: list[Pipeline] = []
    missing: list[NotMigrated] = []
    for one in installed_pipelines().values():
        if not one.schemas():
            continue
        try:
            await one.require(environment)
            found.append(one)
        except NotMigrated as error:
            missing.append(error)
    if not found and missing and not await _has_accounts(environment):
        raise missing[0]
    return found


async def _has_accounts(environment: Environment) -> bool:
    store = environment.store(read_only=True)
    try:
        await store.database.open()
        return await tables.SCHEMA.version(store.database) > 0
    finally:
        await store.close()


def require_all(environments: Iterable[Environment], pipelines: Sequence[Pipeline]) -> None:
    """Refuses environments that lack the tables, and brings those there are up to date; a database that does not
    answer is left to the worker, which waits for it and asks again."""

    if not pipelines:
        return

    async def one(environment: Environment) -> None:
        with contextlib.suppress(Unreachable, Busy):
            for pipeline in pipelines:
                await pipeline.require(environment)
            async with environment.store() as store:
                await prepare(store, pipelines)

    async def everywhere() -> None:
        await asyncio.gather(*(one(environment) for environment in environments))

    asyncio.run(everywhere())
