"""The Typer application, its global options, and the list of commands."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main
from typer.core import TyperGroup

from tabellion import __version__
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import installed_pipelines

#: Our commands and their modules; pipelines add theirs.
COMMANDS = {
    "up": "tabellion.cli.up",
    "read": "tabellion.cli.read",
    "worker": "tabellion.cli.worker",
    "status": "tabellion.cli.status",
    "sla": "tabellion.cli.sla",
    "explain": "tabellion.cli.explain",
    "retry": "tabellion.cli.control",
    "release": "tabellion.cli.control",
    "cancel": "tabellion.cli.control",
    "pause": "tabellion.cli.control",
    "resume": "tabellion.cli.control",
    "limit": "tabellion.cli.control",
    "gates": "tabellion.cli.gates",
    "metrics": "tabellion.cli.metrics",
    "doctor": "tabellion.cli.doctor",
    "adopt": "tabellion.cli.adopt",
    "types": "tabellion.cli.types",
    "webhooks": "tabellion.cli.webhooks",
    "keys": "tabellion.cli.keys",
    "users": "tabellion.cli.users",
    "audit": "tabellion.cli.audit",
    "verify": "tabellion.cli.verify",
    "prune": "tabellion.cli.prune",
    "migrate": "tabellion.cli.migrate",
    "ground": "tabellion.cli.ground",
    "fake-model": "tabellion.cli.fake_model",
}


def commands() -> dict[str, str]:
    """Every command and its module."""
    first = {"up": COMMANDS["up"]}
    added: dict[str, str] = {}
    for pipeline in installed_pipelines().values():
        if repeated := pipeline.commands.keys() & {*added, *COMMANDS}:
            raise ConfigurationError(
                f"the pipeline {pipeline.name!r} adds the command {min(repeated)!r}, which exists: "
                "rename it in its package, or uninstall that"
            )
        added |= pipeline.commands
    return first | added | COMMANDS


GLOBAL = ("--config", "--data", "--queues", "--with")  #: options that may also follow the command


class Commands(TyperGroup):
    """All commands, each loaded when it is called; global options may follow one of them as well as precede it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order of `--help`."""
        return list(commands())

    def get_command(self, ctx: Any, name: str) -> Any:
        """A stub with the summary for `--help`, which loads nothing."""
        module = commands().get(name)
        return None if module is None else typer.core.TyperCommand(name, help=_summary(module, name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself; the error for an unknown one lists similar ones."""
        self.commands.update(dict.fromkeys(commands()))  # type: ignore[arg-type]
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else _load_command(commands()[name], name), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Moves global options to the front."""
        end = args.index("--") if "--" in args else len(args)
        moved: list[str] = []
        rest: list[str] = []
        index = 0
        while index < end:
            name, has_value, _ = args[index].partition("=")
            count = 0 if name not in GLOBAL else 1 if has_value else 2
            (moved if count else rest).extend(args[index : min(index + (count or 1), end)])
            index += count or 1
        return super().parse_args(ctx, [*moved, *rest, *args[end:]])


app = typer.Typer(
    name="tabellion",
    cls=Commands,
    help="Turns the tables you already have into safe work queues.",
    epilog="Start with `tabellion adopt TABLE` on one of your tables, then `tabellion --queues FILE worker`.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(requested: bool) -> None:
    if requested:
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
        typer.Option("--with", help="A pipeline, e.g. documents. May be repeated."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The data folder; may also follow the command. [default: ./tabellion-data]"),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Turns the tables you already have into safe work queues."""
    context.obj = {"config": config, "queues": queues, "with": tuple(with_ or ()), "data": data}


def _load_command(module: str, name: str) -> Any:
    """Imports a command from its module."""
    _find_file(module, name)
    command: Any = getattr(importlib.import_module(module), name.replace("-", "_"), None)
    if command is None:
        raise _describe_missing(name, f"the module {module} has no {name.replace('-', '_')}")
    wrapper = typer.Typer(rich_markup_mode="markdown", add_completion=False, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        wrapper.add_typer(command, name=name)
        return typer.main.get_group(wrapper).commands[name]
    wrapper.command(name)(command)
    return typer.main.get_command(wrapper)


def _summary(module: str, name: str) -> str:
    """The first line of a command's docstring, read from its file."""
    tree = ast.parse(_find_file(module, name).read_text("utf-8"))
    function_name = name.replace("-", "_")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function_name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == function_name:
            for keyword in getattr(node.value, "keywords", ()):
                if keyword.arg == "help":
                    return str(ast.literal_eval(keyword.value))
    return ""


def _find_file(module: str, command: str) -> Path:
    """The file of a command's module."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise _describe_missing(command, f"there is no module {module}")
    return Path(spec.origin)


def _describe_missing(command: str, problem: str) -> ConfigurationError:
    owner = next((one.name for one in installed_pipelines().values() if command in one.commands), "")
    return ConfigurationError(
        f"the command {command!r} of the pipeline {owner!r} cannot be loaded: {problem}: "
        "fix its package, or uninstall it"
    )
