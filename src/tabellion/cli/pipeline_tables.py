"""The tables of pipelines: `up` and `migrate --with` create them, everything else requires them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from tabellion.accounts import tables
from tabellion.cli.load import config_of, find_environment, present
from tabellion.delivery import endpoints
from tabellion.engine import sql
from tabellion.engine.schema import in_order
from tabellion.errors import Busy, ConfigurationError, NotMigrated, StoreError, TabellionError, Unreachable
from tabellion.installed_pipelines import installed_pipelines
from tabellion.pipeline import Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.schema import Schema
    from tabellion.engine.sql import Dialect
    from tabellion.engine.store import Store

Result = TypeVar("Result")
ANSWER = 3.0  #: seconds that a worker waits at its start for a database to answer


def schemas_of(pipelines: Sequence[Pipeline]) -> list[Schema]:
    """The schemas for serving these pipelines, in order of dependency, including accounts and webhooks."""
    pipeline_schemas = [schema for pipeline in pipelines for schema in pipeline.schemas()]
    return in_order([tables.SCHEMA, endpoints.SCHEMA, *pipeline_schemas]) if pipelines else []


def tables_of(pipelines: Sequence[Pipeline]) -> list[str]:
    """The tables for serving these pipelines."""
    return [table for schema in schemas_of(pipelines) for table in schema.tables]


async def prepare(store: Store, pipelines: Sequence[Pipeline]) -> None:
    """Creates or updates every table of these pipelines."""
    await store.open()
    for pipeline in pipelines:
        await pipeline.before_migration(store)
    for schema in schemas_of(pipelines):
        await schema.prepare(store)


async def prepare_own(store: Store, config: Config, pipeline: Pipeline) -> None:
    """Creates or updates the tables of a pipeline in the installation's own database; any other must have them."""
    place = config.environments[0]
    if not config.has_own_database:
        await pipeline.require(place)
    elif missing := place.missing_file():
        Path(missing).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    await prepare(store, [pipeline])


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


def run_on_service(
    context: typer.Context, environment: str | None, work: Callable[[Store, str], Coroutine[Any, Any, Result]]
) -> Result:
    """The result of work on the store of a served environment, which also gets the environment's name."""
    place = find_environment(config_of(context), environment)

    async def run() -> Result:
        async with service_store(place) as store:
            return await work(store, place.name)

    return asyncio.run(run())


async def _present(environment: Environment) -> list[Pipeline]:
    found: list[Pipeline] = []
    missing: list[NotMigrated] = []
    # If none is there, the error is about a pipeline that runs by default.
    for pipeline in sorted(installed_pipelines().values(), key=lambda one: not one.default):
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
    async with environment.connect() as store:
        await store.database.open()
        return await tables.SCHEMA.version(store.database) > 0


@dataclass(frozen=True)
class PreparedEnvironments:
    """The environments that a worker can use, and what it has to leave out."""

    usable: list[Environment]
    silent: set[str]  #: the names of usable ones whose database does not answer: the worker waits for it
    skipped: dict[str, str]  #: environments by name, with the reason
    missing: dict[tuple[str, str], str]  #: by pipeline and usable environment: why its tables are missing there


@dataclass
class _Outcome:
    """Why an environment cannot be used, whether it answered, and which pipelines have no tables there."""

    error: TabellionError | None = None
    answered: bool = True
    missing: dict[str, NotMigrated] = field(default_factory=dict)


def prepare_environments(
    environments: Sequence[Environment], pipelines: Sequence[Pipeline], queues: Sequence[Queue]
) -> PreparedEnvironments:
    """Updates the tables of the pipelines of these queues where they are; other environments are left unchanged.

    An environment is usable if it has the table of a queue. Raises if no environment is usable, or if a pipeline has
    no tables in any of them. A database that does not answer is left to the worker, which waits for it.
    """
    pipelines = [pipeline for pipeline in pipelines if _queues_of(pipeline, queues)]

    async def prepare_all() -> list[_Outcome]:
        return await asyncio.gather(*(_prepare_one(place, pipelines, queues) for place in environments))

    outcomes = dict(zip(environments, asyncio.run(prepare_all()), strict=True))
    usable = [place for place, outcome in outcomes.items() if outcome.error is None]
    errors = {place.name: outcome.error for place, outcome in outcomes.items() if outcome.error is not None}
    if not usable:
        _raise_all(errors)
    for pipeline in pipelines:
        lacking = {place.name: outcomes[place].missing.get(pipeline.name) for place in usable}
        if all(lacking.values()):
            _raise_all(errors | {name: error for name, error in lacking.items() if error is not None})
    return PreparedEnvironments(
        usable,
        {place.name for place in usable if not outcomes[place].answered},
        {name: str(error) for name, error in errors.items()},
        {(name, place.name): str(error) for place in usable for name, error in outcomes[place].missing.items()},
    )


async def _prepare_one(environment: Environment, pipelines: Sequence[Pipeline], queues: Sequence[Queue]) -> _Outcome:
    outcome = _Outcome()
    try:
        present(environment)
        found = await _find_tables(environment, queues if pipelines else ())
        for pipeline in pipelines:
            try:
                await pipeline.require(environment)
            except NotMigrated as error:
                if not found.intersection(queue.table for queue in _queues_of(pipeline, queues)):
                    outcome.missing[pipeline.name] = error
                continue  # with some of its tables, the worker skips the queues of the others
            async with environment.store() as store:
                await prepare(store, [pipeline])
        if outcome.missing and not found:
            outcome.error = next(iter(outcome.missing.values()))
    except (Unreachable, Busy):
        return _Outcome(answered=False)
    except (ConfigurationError, StoreError) as error:
        outcome.error = error
    return outcome


def _queues_of(pipeline: Pipeline, queues: Sequence[Queue]) -> list[Queue]:
    """The queues among these that work on tables of a pipeline."""
    names = {table for schema in pipeline.all_schemas() for table in schema.tables}
    return [queue for queue in queues if queue.table in names]


async def _find_tables(environment: Environment, queues: Sequence[Queue]) -> set[str]:
    """Those tables of the queues that a database has."""
    async with environment.connect() as store:
        await open_soon(store)
        return {queue.table for queue in queues if await store.table(queue.table) is not None}


async def open_soon(store: Store) -> None:
    """Connects; raises Unreachable if the database does not answer soon, because the other environments wait for it."""
    try:
        async with asyncio.timeout(ANSWER):
            await store.database.open()
    except TimeoutError:
        raise Unreachable(f"no response from the database within {ANSWER:g} s") from None


def _raise_all(errors: Mapping[str, TabellionError]) -> NoReturn:
    if len(errors) == 1:
        raise next(iter(errors.values()))
    raise NotMigrated("\n".join(f"{name}: {error}" for name, error in errors.items()))
