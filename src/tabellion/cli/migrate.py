"""`tabellion migrate`: creates or updates the register in every environment."""

from __future__ import annotations

from typing import Annotated

import typer


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
    from tabellion.engine.store import Store

    config = config_of(context)
    chosen = [environment_named(config, environment, new=True)] if environment else list(config.environments)

    pipeline = document_pipeline() if is_documents(context, config) else None

    async def one(store: Store) -> tuple[int, int, str]:
        try:
            await store.database.open()
            before = await store.version()
            if sql:
                script = register.script(store.dialect, before) if before < register.CURRENT else ""
                return before, before, script + (await pipeline.script(store) if pipeline else "")
            after = await store.migrate()
            if pipeline:
                await pipeline.prepare(store)
            return before, after, ""
        finally:
            await store.close()

    rows = []
    for place in chosen:
        before, after, script = asyncio.run(one(place.store()))
        if sql:
            typer.echo(f"-- environment {place.name}: version {before}, current is {register.CURRENT}")
            typer.echo(script)
        rows.append({"environment": place.name, "before": before, "version": after})
    if json and not sql:
        output.as_json(rows)
    elif not sql:
        for row in rows:
            changed = "was up to date" if row["before"] == row["version"] else f"brought from version {row['before']}"
            typer.echo(f"{row['environment']}: the register is at version {row['version']} ({changed})")
