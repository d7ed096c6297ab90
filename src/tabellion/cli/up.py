"""`tabellion up`: runs the API and its workers."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.installed_pipelines import installed_pipelines

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.pipeline import Pipeline, UpOption


def up(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="The API's port; 0 picks one. [default: 8080]")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The API's address. [default: 127.0.0.1]")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="The data folder. [default: ./tabellion-data]")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Run a pipeline on samples and show the results.")] = False,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Exit when nothing is left to do; for scripts and CI.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=0, help="0: API only; 1: in this process; more: processes. [default: 1]"),
    ] = None,
    celery: Annotated[
        bool, typer.Option("--celery", help="Work through Celery; --workers then counts its processes.")
    ] = False,
    environment: Annotated[
        list[str] | None,
        typer.Option("--environment", "-e", help="Only this environment; may be repeated. [default: all]"),
    ] = None,
    no_admin: Annotated[
        bool,
        typer.Option("--no-admin", help="Create neither an admin key nor a sign-in link, e.g. if output is logged."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    **options: Any,
) -> None:
    """Run the service: its API and its worker, on SQLite unless a database is configured.

    The first start creates the data folder and an admin key, which is printed once and stored in `admin.key`. Ctrl-C
    shuts down gracefully: requests are answered, jobs are finished or released. A second Ctrl-C does not wait.

    All environments of the configuration are served. Each has its own users, keys and admin key; a watched folder and
    the demo are for the first.

    Examples:

        tabellion up

        tabellion up --demo

        tabellion up --port 9000 --data /srv/tabellion --consume /srv/inbox

        tabellion up --environment prod

        REDIS_URL=redis://127.0.0.1:6379/0 tabellion up --celery
    """
    from tabellion import extras

    extras.require(extras.SERVICE)
    from tabellion.cli import celery_worker
    from tabellion.cli.installation import Installation
    from tabellion.cli.load import find_environment, load_pipelines
    from tabellion.cli.worker_defaults import with_worker_defaults
    from tabellion.installed_pipelines import default_pipelines

    options = {name: value for name, value in options.items() if value not in (None, False)}
    for name, option in _pipeline_options().items():
        if name in options and option.variable is not None:
            os.environ[option.variable] = str(options[name])  # worker processes inherit it
    config = load_config(context, data)
    if celery:
        celery_worker.check(config)
        if workers == 0:
            raise typer.BadParameter("--workers 0 serves the API only: omit one of them", param_hint="--celery")
    names = dict.fromkeys(environment or ())
    places = [find_environment(config, name, new=True) for name in names] or list(config.environments)
    pipelines = load_pipelines(context, config) or default_pipelines()
    _check_options(options, pipelines)
    if workers is None and not celery:
        workers = with_worker_defaults(replace(config, processes=1), pipelines).processes
    installation = Installation(
        config, places, pipelines, host=host or config.host,
        port=config.port if port is None else port, workers=workers, celery=celery, demo=demo, until_done=until_done,
        as_json=json, with_admin=not no_admin, file=context.obj["config"], **options,
    )  # fmt: skip
    code = asyncio.run(installation.run())
    if code:
        raise typer.Exit(code)


def _pipeline_options() -> dict[str, UpOption]:
    return {name: option for pipeline in installed_pipelines().values() for name, option in pipeline.options.items()}


def _check_options(chosen: Mapping[str, Any], pipelines: Sequence[Pipeline]) -> None:
    """Rejects an option that none of the selected pipelines would see."""
    for name in chosen:
        owners = [pipeline.name for pipeline in installed_pipelines().values() if name in pipeline.options]
        if not any(name in pipeline.options for pipeline in pipelines):
            fix = f"add --with {owners[0]}, or omit it"
            raise typer.BadParameter(f"it is an option of the pipeline {owners[0]}: {fix}", param_hint=f"--{name}")


def _signature() -> inspect.Signature:
    """The parameters of `up` with those of pipelines, from which Typer makes the command."""
    *own, _ = inspect.signature(up, eval_str=True).parameters.values()
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if option.type is bool else None,
            annotation=Annotated[
                option.type if option.type is bool else option.type | None,
                typer.Option(f"--{name.replace('_', '-')}", help=option.help, file_okay=False),
            ],
        )
        for name, option in _pipeline_options().items()
    ]  # fmt: skip
    return inspect.Signature([*own, *added])


def load_config(context: typer.Context, data: Path | None) -> Config:
    """The configuration with the data folder of the options, which child processes inherit."""
    from tabellion.cli.load import config_of

    data = data or context.obj["data"]
    if data is not None:
        os.environ["TABELLION_DATA"] = str(data.expanduser().absolute())
    return config_of(context)


up.__signature__ = _signature()  # type: ignore[attr-defined]
