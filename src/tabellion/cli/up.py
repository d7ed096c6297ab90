"""`tabellion up`: runs the API and its workers."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tabellion.config import Config


def up(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="The API's port; 0 picks one. [default: 8080]")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The API's address. [default: 127.0.0.1]")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="The data folder. [default: ./tabellion-data]")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Submit sample documents and show the results.")] = False,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Exit when every document has been processed; for scripts and CI.")
    ] = False,
    consume: Annotated[
        Path | None,
        typer.Option("--consume", help="Watch this folder and submit the documents put there.", file_okay=False),
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="With --consume: include subfolders.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="Default model for documents whose upload and type name none.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=0, help="0: API only; 1: in this process; more: processes. [default: 1]"),
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="Which environment. [default: the first]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """Run the document service: its API and its worker, on SQLite unless a database is configured.

    The first start creates the data folder and an admin key, which is printed once and stored in `admin.key`. Ctrl-C
    shuts down gracefully: requests are answered, documents finished or put back. A second Ctrl-C does not wait.

    Examples:

        tabellion up

        tabellion up --demo

        tabellion up --port 9000 --data /srv/tabellion --consume /srv/inbox
    """
    from tabellion import extras

    extras.require(extras.SERVICE)
    from tabellion.cli.installation import Installation
    from tabellion.cli.load import find_environment, load_pipelines
    from tabellion.cli.worker_defaults import with_worker_defaults
    from tabellion.pipeline import defaults

    if model is not None:
        os.environ["TABELLION_DEFAULT_MODEL"] = model  # worker processes inherit it
    config = load_config(context, data)
    place = find_environment(config, environment, new=True) if environment else config.environments[0]
    pipelines = load_pipelines(context, config) or defaults()
    if workers is None:
        workers = with_worker_defaults(replace(config, processes=1), pipelines).processes
    installation = Installation(
        config, place, pipelines, host=host or config.host,
        port=config.port if port is None else port, workers=workers, demo=demo, until_done=until_done, as_json=json,
        file=context.obj["config"], consume=consume, deep=deep,
    )  # fmt: skip
    code = asyncio.run(installation.run())
    if code:
        raise typer.Exit(code)


def load_config(context: typer.Context, data: Path | None) -> Config:
    """The configuration with the data folder of the options, which child processes inherit."""
    from tabellion.cli.load import config_of

    data = data or context.obj["data"]
    if data is not None:
        os.environ["TABELLION_DATA"] = str(data.expanduser().absolute())
    return config_of(context)
