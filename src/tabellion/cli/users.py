"""`tabellion users`: the people who may sign in, and their roles."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.accounts import links, passwords, sessions
from tabellion.accounts import users as accounts
from tabellion.cli import output
from tabellion.cli.datafolder import address_in
from tabellion.cli.load import config_of
from tabellion.cli.options import Json, Place, group
from tabellion.cli.pipeline_tables import run_on_service

if TYPE_CHECKING:
    from tabellion.accounts.users import User
    from tabellion.engine.store import Store

users = group(
    help="Manage the users of the web pages: add, list, link, password, disable. Each command has --json.",
    epilog="Examples: `tabellion users add anna --role reviewer` · `tabellion users link anna`",
)
UserName = Annotated[str, typer.Argument(help="The user's name, as `tabellion users list` shows it.")]
PublicUrl = Annotated[
    str | None, typer.Option("--url", help="Where the pages are. [default: server.public_url, or this machine]")
]


@users.command("add")
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Letters a-z, digits and . _ @ + -.")],
    role: Annotated[str, typer.Option(help="viewer, reviewer, operator or admin; each includes those before it.")],
    url: PublicUrl = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Add a user and print a one-time sign-in link; they set a password in the pages.

    Example:

        tabellion users add anna --role reviewer
    """

    async def add_user(store: Store, place: str) -> tuple[str, User, Any]:
        user = await accounts.add(store, name, role)
        return place, user, await links.make(store, place, user.name)

    place, user, ticket = run_on_service(context, environment, add_user)
    link = links.address(_base(context, url), ticket)
    if json:
        output.as_json({"name": user.name, "role": user.role.word, "environment": place, "link": link})
        return
    typer.echo(link)
    typer.echo(f"{user.name} is a {user.role.word}; the link works once, within 15 minutes", err=True)


@users.command("list")
def list_users(context: typer.Context, environment: Place = None, json: Json = False) -> None:
    """List users.

    Example:

        tabellion users list
    """

    def moment(seconds: float | None) -> str | None:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

    found = run_on_service(context, environment, lambda store, _: accounts.list_users(store))
    rows = [
        {
            "name": user.name, "role": user.role.word, "state": "disabled" if user.disabled_at else "active",
            "available": user.available, "password": user.has_password, "created_at": moment(user.created_at),
            "last_seen_at": moment(user.last_seen_at),
        }
        for user in found
    ]  # fmt: skip
    if json:
        output.as_json(rows)
        return
    headings = ["name", "role", "state", "available", "password", "created", "last seen"]
    output.show(output.table("", headings, [list(row.values()) for row in rows]))


@users.command("password")
def password(context: typer.Context, name: UserName, environment: Place = None, json: Json = False) -> None:
    """Set a user's password (prompted twice, or read from standard input); ends their sessions.

    Examples:

        tabellion users password anna

        pass show tabellion/anna | tabellion users password anna
    """
    if sys.stdin.isatty():
        text = typer.prompt("New password", hide_input=True, confirmation_prompt="Repeat the new password")
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    passwords.check_new(text, name)

    async def set_password(store: Store, _: str) -> None:
        user = await accounts.get_by_name(store, name)
        await accounts.set_password(store, user, await passwords.hash_password(text))
        await sessions.end_all(store, user.id)

    run_on_service(context, environment, set_password)
    sentence = f"{name.lower()} has a new password; open sessions have ended"
    output.print_result(json, {"name": name.lower(), "password": True}, sentence)


@users.command("disable")
def disable(
    context: typer.Context,
    name: UserName,
    undo: Annotated[bool, typer.Option("--undo", help="Enable the user again.")] = False,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Disable a user immediately and end their sessions; nothing they did is lost.

    Examples:

        tabellion users disable anna

        tabellion users disable anna --undo
    """

    async def change_user(store: Store, _: str) -> None:
        await accounts.change(store, (await accounts.get_by_name(store, name)).id, disabled=not undo)

    run_on_service(context, environment, change_user)
    sentence = f"{name.lower()} {'is enabled' if undo else 'is disabled'}"
    output.print_result(json, {"name": name.lower(), "disabled": not undo}, sentence)


@users.command("link")
def link(
    context: typer.Context, name: UserName, url: PublicUrl = None, environment: Place = None, json: Json = False
) -> None:  # fmt: skip
    """Print a sign-in link for a user, valid once and for 15 minutes.

    Example:

        tabellion users link anna
    """

    async def make_link(store: Store, place: str) -> tuple[User, Any]:
        user = await accounts.get_by_name(store, name)
        return user, await links.make(store, place, user.name)

    user, ticket = run_on_service(context, environment, make_link)
    if ticket is None:
        typer.echo(f"{user.name} is disabled: `tabellion users disable {user.name} --undo`", err=True)
        raise typer.Exit(5)
    address = links.address(_base(context, url), ticket)
    output.print_result(json, {"name": user.name, "link": address, "seconds": links.SECONDS}, address)


def _base(context: typer.Context, url: str | None) -> str:
    config = config_of(context)
    running = address_in(config.data)
    return (url or config.public_url or running or f"http://{config.host}:{config.port}").rstrip("/")
