"""`tabellion batches`: lists batches, shows one, starts what failed again, closes what has ended, makes secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment
from tabellion.cli.pipeline_tables import service_store

if TYPE_CHECKING:
    from tabellion.engine.store import Store

REFUSED = 5  #: exit code
Value = TypeVar("Value")
Id = Annotated[str, typer.Argument(help="The batch's id.", metavar="ID")]
Place = Annotated[
    str | None, typer.Option("--environment", "-e", help="The environment; required if there are several.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

batches = typer.Typer(
    help="List batches, show one, retry failed refs, close batches that have ended. Each command has --json.",
    epilog="Examples: `tabellion batches list` · `tabellion batches show scans-2026-11` · "
    "`tabellion batches retry scans-2026-11`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@batches.command("list")
def list_(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    environment: Place = None,
    json: Json = False,
) -> None:
    """List batches with their progress, newest first.

    Example:

        tabellion batches list --json
    """
    from tabellion.pipelines.batches import lookup

    found, _ = _with_store(context, environment, lambda store: lookup.list_batches(store, None, limit))
    if json:
        output.as_json(found)
        return
    headings = ("batch", "status", "chunks", "refs", "completed", "failed", "pending", "created")
    rows = [
        (one["id"], one["status"], one["total_chunks"], one["progress"]["total_refs"], one["progress"]["completed"],
         one["progress"]["failed"], one["progress"]["pending"], one["created_at"].replace("T", " ")[:16])
        for one in found
    ]  # fmt: skip
    output.show(output.table("", headings, rows, whole=("batch",)))


@batches.command("show")
def show(context: typer.Context, id: Id, environment: Place = None, json: Json = False) -> None:  # noqa: A002
    """Show a batch: its progress, its chunks by phase, and the errors of its refs.

    Example:

        tabellion batches show scans-2026-11
    """
    from tabellion.pipelines.batches import failures, lookup

    async def read(store: Store) -> tuple[lookup.Batch | None, list[failures.RefError], lookup.UndeliveredCallbacks]:
        return (
            await lookup.get_batch(store, id),
            await failures.failed_refs(store, id),
            await lookup.count_undelivered(store, id),
        )

    found, errors, undelivered = _with_store(context, environment, read)
    if found is None:
        _refuse(f"batch {id}")
    elif json:
        output.as_json({**found, "errors": errors, "undelivered_callbacks": undelivered})
    else:
        progress = found["progress"]
        facts = [
            ("status", found["status"]), ("entities", found["total_pis"]), ("chunks", found["total_chunks"]),
            ("refs", progress["total_refs"]), ("completed", progress["completed"]), ("skipped", found["skipped"]),
            ("failed", progress["failed"]), ("pending", progress["pending"]),
            *((f"chunks {phase}", count) for phase, count in found["phases"].items() if count),
            *((f"callbacks {state}", count) for state, count in undelivered.items() if count),
            ("closed", found["closed_at"] or "no"),
        ]  # fmt: skip
        output.show(output.table(id, ("", ""), [(name, str(value)) for name, value in facts]))
        if errors:
            rows = [(one["refs"], one["error"], one["examples"][0]["filename"]) for one in errors]
            output.show(output.table("errors", ("refs", "error", "e.g."), rows))


@batches.command("retry")
def retry(
    context: typer.Context,
    id: Id,  # noqa: A002
    chunk: Annotated[str | None, typer.Option(help="Only this chunk.")] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Retry chunks that ended with failed refs or an error; what was read before is kept.

    Example:

        tabellion batches retry scans-2026-11 --chunk 7
    """
    from tabellion.pipelines.batches import changes, lookup

    async def start(store: Store) -> int:
        if not await lookup.has_batch(store, id):
            _refuse(f"batch {id}")
        if chunk is not None and await lookup.get_chunk(store, id, chunk) is None:
            _refuse(f"chunk {chunk} of {id}")
        return await changes.retry_failed(store, id, chunk)

    count = _with_store(context, environment, start)
    if json:
        output.as_json({"chunks": count})
    else:
        typer.echo(f"{count} chunks started again" if count != 1 else "1 chunk started again")


@batches.command("close")
def close(context: typer.Context, id: Id, environment: Place = None, json: Json = False) -> None:  # noqa: A002
    """Close a batch that has ended: its rows may be pruned from now on.

    Example:

        tabellion batches close scans-2026-11
    """
    from tabellion.pipelines.batches import changes

    try:
        closed = _with_store(context, environment, lambda store: changes.close(store, id))
    except changes.StillOpen as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from None
    if not closed:
        _refuse(f"batch {id}")
    elif json:
        output.as_json({"id": id, "closed": True})
    else:
        typer.echo(f"{id} is closed")


@batches.command("secret")
def secret(
    context: typer.Context,
    origin: Annotated[
        str | None, typer.Argument(help="The address of an orchestrator: show the secret that it has.")
    ] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Create a new secret for `batches.orchestrators`; the orchestrator verifies callbacks with it.

    An orchestrator without an entry there has a secret too: name its address, and that one is printed.

    Examples:

        tabellion batches secret

        tabellion batches secret https://orchestrator.example
    """
    from tabellion.delivery.endpoints import make_secret
    from tabellion.net.guard import Blocked, parse
    from tabellion.pipelines.batches.callbacks import fetch_callback_secret
    from tabellion.pipelines.batches.settings import settings_of

    if origin is None:
        made = make_secret()
    else:
        try:
            parse(origin)
        except Blocked as error:
            typer.echo(f"{origin} is not an address: {error.reason}", err=True)
            raise typer.Exit(REFUSED) from None
        settings = settings_of(config_of(context))
        made = settings.configured_secret(origin) or _with_store(
            context, environment, lambda store: fetch_callback_secret(store.database.fetch, settings, origin)
        )
    output.as_json({"secret": made}) if json else typer.echo(made)


def _with_store(
    context: typer.Context, environment: str | None, question: Callable[[Store], Awaitable[Value]]
) -> Value:
    place = find_environment(config_of(context), environment)

    async def go() -> Value:
        async with service_store(place) as store:
            return await question(store)

    return asyncio.run(go())


def _refuse(name: str) -> NoReturn:
    typer.echo(f"there is no {name}", err=True)
    raise typer.Exit(REFUSED)
