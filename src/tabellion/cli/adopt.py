"""`tabellion adopt`: examines a table of yours and writes the declaration that makes it a queue."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment
from tabellion.cli.options import Json, Place
from tabellion.engine.log import printable
from tabellion.monitor.adoption.adopt import Adoption, propose_declaration


def adopt(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table, with its schema if needed.")],
    status: Annotated[str | None, typer.Option(help="The status column, if it cannot be guessed.")] = None,
    ready: Annotated[str | None, typer.Option(help="The status value that means ready.")] = None,
    running: Annotated[str | None, typer.Option(help="The status value that means running.")] = None,
    done: Annotated[str | None, typer.Option(help="The status value that means done.")] = None,
    failed: Annotated[str | None, typer.Option(help="The status value that means failed.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The column that identifies a row. [default: the primary key]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The queue's name. [default: the table's]")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the declaration to this new file.")] = None,
    notify: Annotated[bool, typer.Option(help="Also print a trigger that wakes workers (PostgreSQL).")] = False,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Write the declaration for an existing table, and print the index it needs. Changes nothing.

    Each guess is marked with its reason. Each state transition is tested on one row in a transaction that is rolled
    back; exits with 3 if the table rejects a transition.

    Examples:

        tabellion adopt invoices

        tabellion adopt extraction_queue --status status_id --ready 1 --running 2 --done 3 --failed 4 --write queues.py
    """
    config = config_of(context)
    states = {"ready": ready, "running": running, "done": done, "failed": failed}

    place = find_environment(config, environment)

    async def run() -> Adoption:
        async with place.connect() as store:
            return await propose_declaration(store, table, status=status, states=states, name=name, key=key)

    result = asyncio.run(run())
    if write is not None:
        if write.exists():
            raise typer.BadParameter(f"{write} already exists; nothing was written", param_hint="--write")
        write.write_text(result.declaration, "utf-8")
    if json:
        output.as_json(asdict(result))
        if result.problems:
            raise typer.Exit(3)
        return
    typer.echo(f"# wrote {write}" if write else result.declaration)
    for note in result.notes:
        typer.echo(f"-- note: {printable(note)}")
    if not result.indexed:
        typer.echo("-- The index that keeps claiming cheap; run it once:")
        typer.echo(result.index)
    if notify and result.trigger:
        typer.echo("\n-- Wakes idle workers at every INSERT, once per statement:")
        typer.echo(result.trigger)
    for number, problem in enumerate(result.problems, 1):
        typer.echo(f"{number}. {printable(problem['what'])}\n   fix: {printable(problem['fix'])}", err=True)
    if result.problems:
        raise typer.Exit(3)
