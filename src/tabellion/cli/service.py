"""The tables of pipelines: `up` and `migrate --with` create them, everything else requires them."""

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
    """The schemas for serving these pipelines, in order of dependency, including accounts and webhooks."""
    pipeline_schemas = [schema for pipeline in pipelines for schema in pipeline.schemas()]
    return in_order([tables.SCHEMA, endpoints.SCHEMA, *pipeline_schemas]) if pipelines else []


async def prepare(store: Store, pipelines: Sequence[Pipeline]) -> None:
    """Creates or updates every table of these pipelines."""
    await store.open()
    for pipeline in pipelines:
        await pipeline.before_migration(store)
    for schema in schemas_of(pipelines):
        await schema.prepare(store)


async def script(store: Store, pipelines: Sequence[Pipeline]) -> str:
    """The SQL of `prepare`, for a role that may run it; empty if all tables are up to date."""
    first = "".join([await pipeline.before_migration_script(store) for pipeline in pipelines])
    if first:
        return first
    text = ""
    for schema in schemas_of(pipelines):
        version = await schema.version(store.database)
        text += schema.script(store.dialect, version) if version < schema.current else ""
    return text


def full_script(dialect: Dialect, pipelines: Sequence[Pipeline]) -> str:
    """The SQL for a database without these tables."""
    return "".join(schema.script(dialect, 0) for schema in schemas_of(pipelines))


def grants(role: str, pipelines: Sequence[Pipeline]) -> list[str]:
    """The GRANTs for using these tables."""

    names = [name for schema in schemas_of(pipelines) for name in (schema.version_table, *schema.tables)]
    return [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(names)} TO {sql.column(role)};"] if names else []


@contextlib.asynccontextmanager
async def service_store(environment: Environment) -> AsyncIterator[Store]:
    """The store of a served environment, with its tables up to date; raises NotMigrated for any other."""
    pipelines = await _present(environment)
    async with environment.store() as store:
        await prepare(store, pipelines)
        for schema in (tables.SCHEMA, endpoints.SCHEMA):  # also if no pipeline has its own tables
            await schema.prepare(store)
        yield store


async def _present(environment: Environment) -> list[Pipeline]:
    found: list[Pipeline] = []
    missing: list[NotMigrated] = []
    for pipeline in installed_pipelines().values():
        if not pipeline.schemas():
            continue
        try:
            await pipeline.require(environment)
            found.append(pipeline)
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
    """Raises NotMigrated for environments without the tables, and updates the others; a database that does not answer
    is left to the worker, which waits for it."""

    if not pipelines:
        return

    async def prepare_one(environment: Environment) -> None:
        with contextlib.suppress(Unreachable, Busy):
            for pipeline in pipelines:
                await pipeline.require(environment)
            async with environment.store() as store:
                await prepare(store, pipelines)

    async def prepare_all() -> None:
        await asyncio.gather(*(prepare_one(environment) for environment in environments))

    asyncio.run(prepare_all())
