"""`tabellion migrate`: creates or updates the register in every environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment


def migrate(
    context: typer.Context,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL for someone who may run it; change nothing.")
    ] = False,
    environment: Annotated[str | None, typer.Option("--environment", "-e", help="Only this environment.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Create or update the register (our own few tables) where it is missing or old.

    Workers make the register themselves where their role may create tables. `--with documents` also makes the tables
    of the document service, as `tabellion up` does.

    Examples:

        tabellion migrate

        tabellion migrate --with documents

        tabellion migrate --sql | psql "$DATABASE_URL"
    """
    import asyncio

    from tabellion.cli import output
    from tabellion.cli.load import config_of, environment_named, pipelines_of
    from tabellion.engine import register

    config = config_of(context)
    chosen = [environment_named(config, environment, new=True)] if environment else list(config.environments)
    documents = bool(pipelines_of(context, config))
    if sql:
        for place in chosen:
            before, script = asyncio.run(_script(place, documents))
            typer.echo(f"-- environment {place.name}: version {before}, current is {register.CURRENT}")
            typer.echo(script)
        return
    rows = [{"environment": place.name, **asyncio.run(_migrate(place, documents))} for place in chosen]
    if json:
        output.as_json(rows)
        return
    for row in rows:
        changed = "was up to date" if row["before"] == row["version"] else f"brought from version {row['before']}"
        typer.echo(f"{row['environment']}: the register is at version {row['version']} ({changed})")


async def _migrate(place: Environment, documents: bool) -> dict[str, int]:
    from tabellion.cli import service_tables

    store = place.store()
    try:
        await store.database.open()
        before = await store.version()
        after = await store.migrate()
        if documents:
            await service_tables.prepare(store)
        return {"before": before, "version": after}
    finally:
        await store.close()


async def _script(place: Environment, documents: bool) -> tuple[int, str]:
    """The register's version, and what brings it up to date; a file that is not there is not made."""
    from tabellion.cli import service_tables
    from tabellion.engine import register
    from tabellion.engine.store import Store

    store = Store("sqlite:///:memory:") if place.missing_file() else place.store(read_only=True)
    try:
        await store.database.open()
        before = await store.version()
        script = register.script(store.dialect, before) if before < register.CURRENT else ""
        return before, script + (await service_tables.script(store) if documents else "")
    finally:
        await store.close()
