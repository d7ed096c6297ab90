"""`tabellion keys`: who may use the API, and as what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tabellion.accounts import keys as kept
from tabellion.cli import output
from tabellion.cli.load import config_of, environment_named
from tabellion.cli.service import service_store

keys = typer.Typer(
    help="API keys: make one, list them, end one. Each has --json.",
    epilog="Examples: `tabellion keys create --role operator` · `tabellion keys list --json`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Place = Annotated[
    str | None, typer.Option("--environment", "-e", help="Where; needed when there are several environments.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DAY = 86_400.0


@keys.command("create")
def create(
    context: typer.Context,
    role: Annotated[str, typer.Option(help="viewer, reviewer, operator or admin; each may what those before it may.")],
    name: Annotated[str, typer.Option(help="Whose it is, for whoever reads the list.")] = "",
    days: Annotated[float | None, typer.Option(min=0.001, help="How long it works. [default: until revoked]")] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Make a key and show it, this once.

    Examples:

        tabellion keys create --role operator --name "scanner in the mail room"

        curl -H "Authorization: Bearer $(tabellion keys create --role viewer)" localhost:8080/api/documents
    """

    async def work(store: Any, place: str) -> tuple[str, str]:
        return await kept.create(store, place, role, name, seconds=None if days is None else days * DAY)

    place, (id_, text) = _do(context, environment, work)
    if json:
        output.as_json({"id": id_, "key": text, "environment": place, "role": role, "name": name})
        return
    typer.echo(text)
    typer.echo(f"key {id_} of environment {place}, {role}: it is not shown again", err=True)


@keys.command("list")
def listing(context: typer.Context, environment: Place = None, json: Json = False) -> None:
    """Show every key without its secret.

    Example:

        tabellion keys list
    """

    _, rows = _do(context, environment, kept.listing)
    for row in rows:
        for column in ("created_at", "expires_at", "last_used_at", "revoked_at"):
            if row[column] is not None:
                row[column] = datetime.fromtimestamp(row[column], UTC).isoformat(timespec="seconds")
    if json:
        output.as_json(rows)
        return
    columns = ("id", "role", "name", "state", "created_at", "expires_at", "last_used_at")
    for row in rows:
        row |= {name: row[name][:10] for name in ("created_at", "expires_at") if row[name]}
        row["last_used_at"] = (row["last_used_at"] or "").replace("T", " ")[:16]
    headings = [column.replace("_at", "").replace("_", " ") for column in columns]
    output.show(
        output.table("", headings, [[row[column] for column in columns] for row in rows], whole=("id", "role", "state"))
    )


@keys.command("revoke")
def revoke(
    context: typer.Context,
    id: Annotated[str, typer.Argument(help="The key's id, as `tabellion keys list` shows it.")],  # noqa: A002
    environment: Place = None,
    json: Json = False,
) -> None:
    """End a key at once and for good.

    Example:

        tabellion keys revoke 3f9c0a71b2de
    """

    async def work(store: Any, place: str) -> bool:
        return await kept.revoke(store, place, id)

    _, done = _do(context, environment, work)
    if json:
        output.as_json({"id": id, "revoked": done})
    elif done:
        typer.echo(f"key {id} is revoked")
    if not done:
        typer.echo(f"there is no working key {id} here", err=True)
        raise typer.Exit(5)


def _do(context: typer.Context, name: str | None, work: Callable[..., Awaitable[Any]]) -> tuple[str, Any]:
    place = environment_named(config_of(context), name)

    async def run() -> Any:
        async with service_store(place) as store:
            return await work(store, place.name)

    return place.name, asyncio.run(run())
