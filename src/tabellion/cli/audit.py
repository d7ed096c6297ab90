"""`tabellion audit`: verifies the audit log, and shows what was done to a document or another subject."""

from __future__ import annotations

import asyncio
import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.accounts import audit as trail
from tabellion.cli import INPUT, PARTIAL, output
from tabellion.cli.load import config_of, find_environment
from tabellion.cli.service import service_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

audit = typer.Typer(
    help="Verify the audit log and show what was done to a subject, such as a document. Each command has --json.",
    epilog="Examples: `tabellion audit verify` · `tabellion audit show 01hz…`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Place = Annotated[
    str | None, typer.Option("--environment", "-e", help="The environment; required if there are several.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@audit.command("verify")
def verify(
    context: typer.Context,
    known: Annotated[
        str | None, typer.Option("--known", help="A hash printed by an earlier check; it must still be in the log.")
    ] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Check every entry of the audit log. Exit code 6 if one was changed.

    Store the hash that it prints elsewhere, and pass it with --known later: then not even an administrator of the
    database can rewrite the history unnoticed.

    Examples:

        tabellion audit verify

        tabellion audit verify --known 7d1a…
    """

    result = _do(context, environment, lambda store: trail.verify(store, known=known))
    if json:
        output.as_json(
            {
                "whole": result.whole,
                "entries": result.n,
                "head": result.head,
                "broken": result.broken,
                "why": result.why,
            }
        )
    elif result.whole:
        typer.echo(f"{result.n:,} entries, all unchanged; the hash of the last one is {result.head}")
    else:
        typer.echo(f"entry {result.broken:,} was changed: {result.why}", err=True)
    if not result.whole:
        raise typer.Exit(PARTIAL)


@audit.command("show")
def show(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="The id of a document, or of what another pipeline works on.")],
    environment: Place = None,
    json: Json = False,
) -> None:
    """Show what was done to a subject, such as a document, oldest first.

    Examples:

        tabellion audit show 01hzx3t9q4

        tabellion audit show 01hzx3t9q4 --json | jq '.[] | select(.action == "corrected")'
    """

    entries = _do(context, environment, lambda store: trail.history(store, subject=subject))
    if json:
        output.as_json(entries)
    elif entries:
        headings = ("n", "at", "who", "did", "field", "before", "after", "why")
        rows = [
            [entry["n"], entry["at"], entry["actor"], entry["action"], entry["field"], _short(entry, "before"),
             _short(entry, "after"), entry["reason"]]
            for entry in entries
        ]  # fmt: skip
        output.show(output.table("", headings, rows))
    if not entries:
        typer.echo(f"no history found for {subject}", err=True)
        raise typer.Exit(INPUT)


def _short(entry: dict[str, Any], name: str) -> str:
    value = entry[name]
    if value is None:
        return "" if entry["field"] is None else "(nothing)"
    text = value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


def _do(context: typer.Context, name: str | None, work: Callable[..., Awaitable[Any]]) -> Any:
    place = find_environment(config_of(context), name)

    async def run() -> Any:
        async with service_store(place) as store:
            return await work(store)

    return asyncio.run(run())
