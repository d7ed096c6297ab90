"""Options that several commands have, and groups of commands."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Place = Annotated[
    str | None, typer.Option("--environment", "-e", help="The environment; required if there are several.")
]
OnlyPlace = Annotated[str | None, typer.Option("--environment", "-e", help="Only this environment.")]
OnlyPlaces = Annotated[
    list[str] | None, typer.Option("--environment", "-e", help="Only this environment; may be repeated.")
]


def group(*, help: str, epilog: str) -> typer.Typer:  # noqa: A002 - Typer's name
    """A command that has commands."""
    return typer.Typer(help=help, epilog=epilog, no_args_is_help=True, rich_markup_mode="markdown")
