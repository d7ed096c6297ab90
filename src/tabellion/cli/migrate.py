"""`tabellion migrate`: creates or updates the register in every environment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output, pipeline_tables
from tabellion.cli.load import config_of, find_environment, load_pipelines, module_of
from tabellion.cli.options import Json, OnlyPlace
from tabellion.cli.queue_module import declared_queues
from tabellion.engine import register_tables
from tabellion.engine.store import Store
from tabellion.errors import StoreError, Unreachable
from tabellion.monitor.rights import register_grants, table_grants

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.pipeline import Pipeline


def migrate(
    context: typer.Context,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL for a role that is allowed to run it; change nothing.")
    ] = False,
    grant: Annotated[
        str | None,
        typer.Option("--grant", metavar="ROLE", help="With --sql: also the grants that this role needs (PostgreSQL)."),
    ] = None,
    environment: OnlyPlace = None,
    json: Json = False,
) -> None:
    """Create or update the register (tabellion's own tables) where it is missing or outdated.

    Workers create the register themselves if their role may create tables. `--with NAME` also creates the tables of a
    pipeline, as `tabellion up` does.

    Examples:

        tabellion migrate

        tabellion migrate --with documents

        tabellion migrate --sql | psql "$DATABASE_URL"

        tabellion migrate --queues shop.queues --sql --grant app | psql "$ADMIN_DATABASE_URL"
    """
    config = config_of(context)
    chosen = [find_environment(config, environment, new=True)] if environment else list(config.environments)
    pipelines = load_pipelines(context, config)
    if grant is not None and not sql:
        raise typer.BadParameter("--grant only prints grants: use it with --sql", param_hint="--grant")
    if sql:
        for place in chosen:
            if grant is not None and place.url.startswith("sqlite"):
                raise typer.BadParameter(f"{place.name} is SQLite, which has no roles", param_hint="--grant")
            before, script, schema = asyncio.run(_script(place, pipelines))
            typer.echo(f"-- environment {place.name}: version {before}, current is {register_tables.CURRENT}")
            typer.echo(script)
            if grant is not None:
                typer.echo("\n".join(_grants(context, config, grant, schema)))
        return
    rows: list[dict[str, Any]] = []
    errors: dict[str, StoreError] = {}
    for place in chosen:
        try:
            rows.append({"environment": place.name, **asyncio.run(_migrate(place, pipelines))})
        except StoreError as error:
            if len(chosen) == 1:
                raise
            errors[place.name] = error
            rows.append({"environment": place.name, "error": str(error)})
    if json:
        output.as_json(rows)
    else:
        _show(rows)
    if errors:
        raise typer.Exit(4 if len(errors) == len(chosen) else 6)


def _show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if "error" in row:
            typer.echo(f"{row['environment']}: not migrated: {row['error']}", err=True)
            continue
        typer.echo(f"{row['environment']}: the register is at {_describe(row)}")
        for name, versions in row.get("schemas", {}).items():
            typer.echo(f"{row['environment']}: the tables of {name} are at {_describe(versions)}")


def _describe(versions: Mapping[str, Any]) -> str:
    before, version = versions["before"], versions["version"]
    changed = "was up to date" if before == version else f"brought from version {before}" if before else "created"
    return f"version {version} ({changed})"


async def _migrate(place: Environment, pipelines: list[Pipeline]) -> dict[str, Any]:
    async with place.connect(read_only=False) as store:
        await store.database.open()
        before = await store.version()
        after = await store.migrate()
        schemas = pipeline_tables.schemas_of(pipelines)
        versions = {schema.name: {"before": await schema.version(store.database)} for schema in schemas}
        await pipeline_tables.prepare(store, pipelines)
        for schema in schemas:
            versions[schema.name]["version"] = await schema.version(store.database)
        return {"before": before, "version": after} | ({"schemas": versions} if versions else {})


async def _script(place: Environment, pipelines: list[Pipeline]) -> tuple[int, str, str]:
    """The register's version, the SQL that updates it, and its schema.

    A missing file is not created, and an unreachable server is treated as an empty database.
    """
    store = Store("sqlite:///:memory:") if place.missing_file() else place.store(read_only=True)
    try:
        try:
            await store.database.open()
        except Unreachable as error:
            typer.echo(f"{place.name} could not be reached, so this SQL is for an empty database: {error}", err=True)
            return (
                0,
                register_tables.SCHEMA.script(store.dialect, 0) + pipeline_tables.full_script(store.dialect, pipelines),
                "public",
            )
        before = await store.version()
        script = register_tables.SCHEMA.script(store.dialect, before) if before < register_tables.CURRENT else ""
        schema = "public"
        if store.dialect == "postgresql":
            schema = (await store.database.fetch("SELECT current_schema()::text AS name"))[0]["name"] or schema
        return before, script + await pipeline_tables.script(store, pipelines), schema
    finally:
        await store.close()


def _grants(context: typer.Context, config: Config, role: str, schema: str) -> list[str]:
    module = module_of(context, config)
    lines = [*register_grants(role, schema), *pipeline_tables.grants(role, load_pipelines(context, config))]
    return [*lines, *table_grants(role, declared_queues(module) if module is not None else [])]
