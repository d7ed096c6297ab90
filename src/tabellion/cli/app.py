"""The application object, its global options, and the list of commands."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tabellion import __version__

#: Every command and the module that has it, in the order `--help` shows them.
COMMANDS = {
    "up": "tabellion.cli.up",
    "submit": "tabellion.cli.submit",
    "read": "tabellion.cli.read",
    "worker": "tabellion.cli.worker",
    "status": "tabellion.cli.status",
    "explain": "tabellion.cli.explain",
    "retry": "tabellion.cli.control",
    "cancel": "tabellion.cli.control",
    "pause": "tabellion.cli.control",
    "resume": "tabellion.cli.control",
    "limit": "tabellion.cli.control",
    "gates": "tabellion.cli.gates",
    "doctor": "tabellion.cli.doctor",
    "adopt": "tabellion.cli.adopt",
    "export": "tabellion.cli.export",
    "compact": "tabellion.cli.compact",
    "types": "tabellion.cli.types",
    "webhooks": "tabellion.cli.webhooks",
    "keys": "tabellion.cli.keys",
    "users": "tabellion.cli.users",
    "audit": "tabellion.cli.audit",
    "migrate": "tabellion.cli.migrate",
    "ground": "tabellion.cli.ground",
    "fake-model": "tabellion.cli.fake_model",
}


GLOBAL = ("--config", "--data", "--queues", "--with")  #: options that may also follow the command


class Commands(TyperGroup):
    """All commands; global options may follow one of them as well as precede it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts them in front."""
        end = args.index("--") if "--" in args else len(args)
        moved: list[str] = []
        rest: list[str] = []
        place = 0
        while place < end:
            name, has_value, _ = args[place].partition("=")
            taken = 0 if name not in GLOBAL else 1 if has_value else 2
            (moved if taken else rest).extend(args[place : min(place + (taken or 1), end)])
            place += taken or 1
        return super().parse_args(ctx, [*moved, *rest, *args[end:]])


app = typer.Typer(
    name="tabellion",
    cls=Commands,
    help="Turns the tables you already have into safe work queues.",
    epilog="Start with `tabellion adopt TABLE` on a table of yours, then `tabellion --queues FILE worker`.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tabellion {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The configuration file. [default: tabellion.toml]")
    ] = None,
    queues: Annotated[
        str | None, typer.Option("--queues", "-q", help="The module or file that declares your queues.")
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", help="A pipeline that comes with tabellion: documents. May be repeated."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The data folder; also behind the command. [default: ./tabellion-data]"),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Turns the tables you already have into safe work queues."""
    context.obj = {"config": config, "queues": queues, "with": tuple(with_ or ()), "data": data}


def _add(name: str, module: str) -> None:
    command: Any = getattr(importlib.import_module(module), name.replace("-", "_"))
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


for _name, _module in COMMANDS.items():
    _add(_name, _module)
