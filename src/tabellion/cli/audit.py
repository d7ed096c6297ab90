"""`tabellion audit`: verifies the audit log, and shows what was done to a document or another subject."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

from tabellion.accounts import audit as trail
from tabellion.cli import INPUT, PARTIAL, output
from tabellion.cli.options import Json, Place, group
from tabellion.cli.pipeline_tables import run_on_service

audit = group(
    help="Verify the audit log and show what was done to a subject, such as a document. Each command has --json.",
    epilog="Examples: `tabellion audit verify` · `tabellion audit show 01hz…`",
)


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
    result = run_on_service(context, environment, lambda store, _: trail.verify(store, known=known))
    if json:
        facts = {"whole": result.whole, "entries": result.n, "head": result.head}
        output.as_json(facts | {"broken": result.broken, "why": result.why})
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
    entries = run_on_service(context, environment, lambda store, _: trail.history(store, subject=subject))
    if json:
        output.as_json(entries)
    elif entries:
        headings = ("n", "at", "who", "did", "field", "before", "after", "why")
        rows = [
            [entry["n"], entry["at"], entry["actor"], entry["action"], entry["field"], _short(entry, entry["before"]),
             _short(entry, entry["after"]), ": ".join(filter(None, (entry["more"].get("code"), entry["reason"])))]
            for entry in entries
        ]  # fmt: skip
        output.show(output.table("", headings, rows))
    if not entries:
        typer.echo(f"no history found for {subject}", err=True)
        raise typer.Exit(INPUT)


def _short(entry: trail.HistoryEntry, value: Any) -> str:
    if value is None:
        return "" if entry["field"] is None else "(nothing)"
    text = value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
