"""`tabellion keys`: the API keys and their roles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tabellion.accounts import keys as accounts
from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment
from tabellion.cli.service import service_store

keys = typer.Typer(
    help="Create, list and revoke API keys. Each command has --json.",
    epilog="Examples: `tabellion keys create --role operator` · `tabellion keys list --json`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Place = Annotated[
    str | None, typer.Option("--environment", "-e", help="The environment; required if there are several.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DAY = 86_400.0


@keys.command("create")
def create(
    context: typer.Context,
    role: Annotated[str, typer.Option(help="viewer, reviewer, operator or admin; each includes those before it.")],
    name: Annotated[str, typer.Option(help="A name for the key, shown in the list.")] = "",
    days: Annotated[float | None, typer.Option(min=0.001, help="Time until it expires. [default: never]")] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Create a key and print it once.

    Examples:

        tabellion keys create --role operator --name "scanner in the mail room"

        curl -H "Authorization: Bearer $(tabellion keys create --role viewer)" localhost:8080/api/queues
    """

    async def work(store: Any, place: str) -> tuple[str, str]:
        return await accounts.create(store, place, role, name, seconds=None if days is None else days * DAY)

    place, (id_, text) = _do(context, environment, work)
    if json:
        output.as_json({"id": id_, "key": text, "environment": place, "role": role, "name": name})
        return
    typer.echo(text)
    typer.echo(f"key {id_} of environment {place}, {role} (not shown again)", err=True)


@keys.command("list")
def listing(context: typer.Context, environment: Place = None, json: Json = False) -> None:
    """List keys, without their secrets.

    Example:

        tabellion keys list
    """

    _, rows = _do(context, environment, accounts.listing)
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
    """Revoke a key immediately.

    Example:

        tabellion keys revoke 3f9c0a71b2de
    """

    async def work(store: Any, place: str) -> bool:
        return await accounts.revoke(store, place, id)

    _, revoked = _do(context, environment, work)
    if json:
        output.as_json({"id": id, "revoked": revoked})
    elif revoked:
        typer.echo(f"key {id} revoked")
    if not revoked:
        typer.echo(f"no active key has the id {id}", err=True)
        raise typer.Exit(5)


def _do(context: typer.Context, name: str | None, work: Callable[..., Awaitable[Any]]) -> tuple[str, Any]:
    place = find_environment(config_of(context), name)

    async def run() -> Any:
        async with service_store(place) as store:
            return await work(store, place.name)

    return place.name, asyncio.run(run())
