"""`tabellion migrate`: creates or updates the register in every environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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

    Where no queues of your own are configured, the tables of the document service too. Workers do all this themselves
    where their role may create tables.

    Examples:

        tabellion migrate

        tabellion migrate --sql | psql "$DATABASE_URL"
    """
    import asyncio

    from tabellion.cli import output
    from tabellion.cli.load import config_of, document_pipeline, environment_named, is_documents
    from tabellion.engine import register

    config = config_of(context)
    chosen = [environment_named(config, environment, new=True)] if environment else list(config.environments)
    pipeline = document_pipeline() if is_documents(context, config) else None
    if sql:
        for place in chosen:
            before, script = asyncio.run(_script(place, pipeline))
            typer.echo(f"-- environment {place.name}: version {before}, current is {register.CURRENT}")
            typer.echo(script)
        return
    rows = [{"environment": place.name, **asyncio.run(_migrate(place, pipeline))} for place in chosen]
    if json:
        output.as_json(rows)
        return
    for row in rows:
        changed = "was up to date" if row["before"] == row["version"] else f"brought from version {row['before']}"
        typer.echo(f"{row['environment']}: the register is at version {row['version']} ({changed})")


async def _migrate(place: Environment, pipeline: Any) -> dict[str, int]:
    store = place.store()
    try:
        await store.database.open()
        before = await store.version()
        after = await store.migrate()
        if pipeline:
            await pipeline.prepare(store)
        return {"before": before, "version": after}
    finally:
        await store.close()


async def _script(place: Environment, pipeline: Any) -> tuple[int, str]:
    """The register's version, and what brings it up to date; a file that is not there is not made."""
    from tabellion.engine import register
    from tabellion.engine.store import Store

    store = Store("sqlite:///:memory:") if place.missing_file() else place.store(read_only=True)
    try:
        await store.database.open()
        before = await store.version()
        script = register.script(store.dialect, before) if before < register.CURRENT else ""
        return before, script + (await pipeline.script(store) if pipeline else "")
    finally:
        await store.close()
