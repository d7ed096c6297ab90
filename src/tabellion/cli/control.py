"""`retry`, `release`, `cancel`, `pause`, `resume`, `limit`: operators' commands on queues and jobs."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment, find_queue, queues_of
from tabellion.cli.options import Json, Place
from tabellion.engine import controls
from tabellion.engine.recovery import releasing
from tabellion.engine.tables.primary_key import can_be_key
from tabellion.errors import ValueRefused

if TYPE_CHECKING:
    from tabellion.engine.queue import Queue
    from tabellion.engine.recovery.releasing import KeptRow, ReleasedRows
    from tabellion.engine.store import Store

QueueName = Annotated[str, typer.Argument(help="The queue's name.", metavar="QUEUE")]


def retry(
    context: typer.Context,
    queue: QueueName,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys of failed rows.", metavar="KEY")] = None,
    error: Annotated[str | None, typer.Option(help="Every failed row whose last error contains this text.")] = None,
    all_failed: Annotated[bool, typer.Option("--all", help="Every failed row.")] = False,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Put failed and parked rows back to ready and reset their counters.

    Examples:

        tabellion retry ocr 4711 4712

        tabellion retry ocr --error "429 Too Many Requests"

        tabellion retry ocr --all
    """
    if sum((bool(keys), error is not None, all_failed)) != 1:
        raise typer.BadParameter("use one of: keys, --error TEXT or --all")
    keys = list(dict.fromkeys(keys or []))

    count = _do(
        context, queue, environment, lambda store, chosen: controls.restart(store, chosen, keys or None, error), keys
    )
    output.print_result(
        json, {"queue": queue, "retried": count}, f"{count} {'row' if count == 1 else 'rows'} of {queue} retried"
    )
    if keys and count < len(keys):
        typer.echo(f"{len(keys) - count} of {len(keys)} keys are not failed rows", err=True)
        raise typer.Exit(6)


def release(
    context: typer.Context,
    queue: QueueName,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys of running rows.", metavar="KEY")] = None,
    all_orphans: Annotated[
        bool, typer.Option("--all-orphans", help="Every row that is running and that no live worker holds.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also rows that a live worker holds: the claim ends, its result is rejected."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which rows would be released.")] = False,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Put rows that are running without a live claim back to ready; the attempt does not count.

    Such rows were left by a worker that does not use the register, or by one that died while no other was running.

    Examples:

        tabellion release ocr 4711 4712

        tabellion release ocr --all-orphans --dry-run

        tabellion release ocr 4711 --force
    """
    if bool(keys) == all_orphans:
        raise typer.BadParameter("use one of: keys or --all-orphans")
    if force and all_orphans:
        raise typer.BadParameter("--force requires keys: a row that a live worker holds is not an orphan")
    user = _user()

    def move(store: Store, chosen: Queue) -> Awaitable[ReleasedRows]:
        if all_orphans:
            return releasing.release_orphans(store, chosen, by=user, dry_run=dry_run)
        return releasing.release_rows(store, chosen, keys or [], force=force, by=user, dry_run=dry_run)

    answer: ReleasedRows = _do(context, queue, environment, move, keys)
    count = len(answer.released)
    done = "would be released" if dry_run else "released"
    sentence = f"{count} {'row' if count == 1 else 'rows'} of {queue} {done}"
    summary = {"queue": queue, "dry_run": dry_run, "released": count, "keys": answer.released}
    output.print_result(json, summary | {"kept": [asdict(row) for row in answer.kept]}, sentence)
    for row in answer.kept:
        typer.echo(_why_kept(queue, row), err=True)
    if answer.kept:
        raise typer.Exit(6)


def _why_kept(queue: str, row: KeptRow) -> str:
    if row.reason == "held":
        note = f" ({row.note})" if row.note else ""
        return f"{row.key} is held by {row.worker}{note}: --force ends its claim"
    if row.reason == "parked":
        return f"{row.key} is parked: use `tabellion retry {queue} {row.key}`"
    return f"{row.key} {_KEPT[row.reason]}"


_KEPT = {
    "not_running": "is not running",
    "missing": "is not a key of the table",
    "rejected": "was not released: the table rejects it, or someone else has changed it meanwhile",
}


def cancel(
    context: typer.Context,
    queue: QueueName,
    key: Annotated[str, typer.Argument(help="The row's key.")],
    reason: Annotated[str, typer.Option(help="Stored as the row's error.")] = "cancelled",
    environment: Place = None,
    json: Json = False,
) -> None:
    """Stop one job: a waiting row fails at once, a running one loses its claim; the register records who and why.

    Example:

        tabellion cancel ocr 4711 --reason "wrong file"
    """
    user = _user()
    done = _do(
        context, queue, environment, lambda store, chosen: controls.cancel(store, chosen, key, reason, by=user), [key]
    )
    output.print_result(
        json, {"queue": queue, "key": key, "cancelled": done}, f"{queue} {key} cancelled" if done else ""
    )
    if not done:
        typer.echo(f"{queue} {key} is neither ready nor running: nothing to cancel", err=True)
        raise typer.Exit(5)


def pause(
    context: typer.Context,
    queue: QueueName,
    reason: Annotated[str, typer.Option(help="Reason, shown in status and on the dashboard.")] = "",
    environment: Place = None,
    json: Json = False,
) -> None:
    """Stop claiming from a queue in all workers; running jobs continue.

    Example:

        tabellion pause ocr --reason "new model on Monday"
    """
    _do(context, queue, environment, lambda store, chosen: controls.pause(store, chosen, reason))
    output.print_result(
        json, {"queue": queue, "paused": True}, f"{queue} paused; resume it with `tabellion resume {queue}`"
    )


def resume(context: typer.Context, queue: QueueName, environment: Place = None, json: Json = False) -> None:
    """Resume a paused queue.

    Example:

        tabellion resume ocr
    """
    _do(context, queue, environment, controls.resume)
    output.print_result(json, {"queue": queue, "paused": False}, f"{queue} resumed")


def limit(
    context: typer.Context,
    queue: QueueName,
    running: Annotated[
        int | None,
        typer.Argument(min=0, help="Running jobs across all workers; omit for the declared limit."),
    ] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Change how many jobs of a queue may run at once across all workers.

    Examples:

        tabellion limit ocr 20

        tabellion limit ocr
    """
    _do(context, queue, environment, lambda store, chosen: controls.limit(store, chosen, running))
    sentence = (
        f"the limit of {queue} is now {running} running jobs"
        if running is not None
        else f"{queue} is back to its declared limit"
    )
    output.print_result(json, {"queue": queue, "limit": running}, sentence)


def _user() -> str:
    with contextlib.suppress(Exception):  # a container may have no name for its user
        return getpass.getuser()
    return ""


def _do(
    context: typer.Context, name: str, environment: str | None, move: Callable[..., Awaitable[Any]],
    keys: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    config = config_of(context)
    queue = find_queue(queues_of(context, config), name)

    async def run() -> Any:
        async with find_environment(config, environment).store() as store:
            await _check_keys(store, queue, keys or ())
            return await move(store, queue)

    return asyncio.run(run())


async def _check_keys(store: Store, queue: Queue, keys: Sequence[str]) -> None:
    """Refuses keys of the wrong type before anything is changed."""
    if not keys:
        return
    column = (await store.bind(queue)).key
    for key in keys:
        if not can_be_key(column, key):
            raise ValueRefused(
                f"{key!r} is not a key of {queue.table}: its column {column.name} has the type {column.type}"
            )
