"""`tabellion keys`: the API keys and their roles."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tabellion.accounts import keys as accounts
from tabellion.cli import output
from tabellion.cli.options import Json, Place, group
from tabellion.cli.pipeline_tables import run_on_service
from tabellion.engine.store import Store

keys = group(
    help="Create, list and revoke API keys. Each command has --json.",
    epilog="Examples: `tabellion keys create --role operator` · `tabellion keys list --json`",
)
DAY = 86_400.0


@keys.command("create")
def create(
    context: typer.Context,
    role: Annotated[
        str, typer.Option(help="metrics, viewer, reviewer, operator or admin; each includes those before it.")
    ],
    name: Annotated[str, typer.Option(help="A name for the key, shown in the list.")] = "",
    days: Annotated[float | None, typer.Option(min=0.001, help="Days until it expires. [default: never]")] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Create a key and print it once.

    Examples:

        tabellion keys create --role operator --name "scanner in the mail room"

        curl -H "Authorization: Bearer $(tabellion keys create --role viewer)" localhost:8080/api/queues

        tabellion keys create --role metrics --name prometheus > /etc/prometheus/tabellion.key
    """

    async def create_key(store: Store, place: str) -> tuple[str, str, str]:
        seconds = None if days is None else days * DAY
        return place, *await accounts.create(store, place, role, name, seconds=seconds)

    place, id_, text = run_on_service(context, environment, create_key)
    if json:
        output.as_json({"id": id_, "key": text, "environment": place, "role": role, "name": name})
        return
    typer.echo(text)
    typer.echo(f"key {id_} of environment {place}, {role} (not shown again)", err=True)


@keys.command("list")
def list_keys(context: typer.Context, environment: Place = None, json: Json = False) -> None:
    """List keys, without their secrets.

    Example:

        tabellion keys list
    """
    rows: list[dict[str, Any]] = [dict(row) for row in run_on_service(context, environment, accounts.list_keys)]
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
    revoked = run_on_service(context, environment, lambda store, place: accounts.revoke(store, place, id))
    output.print_result(json, {"id": id, "revoked": revoked}, f"key {id} revoked" if revoked else "")
    if not revoked:
        typer.echo(f"no active key has the id {id}", err=True)
        raise typer.Exit(5)
