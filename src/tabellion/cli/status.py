"""`tabellion status`: how many rows are ready, running, done and failed, and which workers are alive."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment, find_queue, present, queues_of
from tabellion.cli.options import Json, OnlyPlace
from tabellion.engine.recovery import orphans
from tabellion.engine.timestamps import iso
from tabellion.monitor import snapshot
from tabellion.monitor.active_workers import active_workers

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.store import Store
    from tabellion.monitor.active_workers import ActiveWorker
    from tabellion.monitor.snapshot import Snapshot

REFRESH = 1.0
TIMES = ("oldest", "newest")


def status(
    context: typer.Context,
    queue: Annotated[str | None, typer.Argument(help="Only this queue, with its most frequent errors.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    workers: Annotated[
        bool, typer.Option("--workers", help="Only workers: the jobs each one holds, the oldest, the newest, its note.")
    ] = False,
    environment: OnlyPlace = None,
    json: Json = False,
) -> None:
    """Show queues, running jobs and workers of every environment.

    Examples:

        tabellion status

        tabellion status --watch

        tabellion status --workers

        tabellion status ocr --json | jq '.[0].errors'
    """
    config = config_of(context)
    queues = queues_of(context, config)
    chosen = [find_queue(queues, queue)] if queue else queues
    names = [environment] if environment else [known.name for known in config.environments]
    places = [find_environment(config, name, new=True) for name in names]
    if all(place.missing_file() for place in places):
        present(places[0])
    if workers and watch:
        raise typer.BadParameter("use one of: --workers or --watch")
    try:
        if workers:
            down = asyncio.run(_show_workers(places, chosen, json=json))
        else:
            down = asyncio.run(_run(places, chosen, watch=watch, json=json, with_errors=queue is not None))
    except KeyboardInterrupt:
        return
    if down:
        raise typer.Exit(4 if down == len(places) else 6)


async def _run(places: Any, queues: Any, *, watch: bool, json: bool, with_errors: bool) -> int:
    stores = [(place, place.store(read_only=True)) for place in places]
    try:
        pictures = await asyncio.gather(*(_take(place, store, queues) for place, store in stores))
        while watch and json:
            typer.echo(dumps([asdict(picture) for picture in pictures], ensure_ascii=False, default=str))
            await asyncio.sleep(REFRESH)
            pictures = await asyncio.gather(*(_take(place, store, queues) for place, store in stores))
        if watch:
            await _keep_up(stores, queues, pictures)
        errors = [
            await snapshot.errors(store, queues[0]) if with_errors and picture.up and not picture.register else []
            for (_, store), picture in zip(stores, pictures, strict=True)
        ]
        if json:
            output.as_json(
                [asdict(picture) | {"errors": found} for picture, found in zip(pictures, errors, strict=True)]
            )
        else:
            output.show(picture_of(pictures))
            for picture, found in zip(pictures, errors, strict=True):
                if found:
                    rows = [(error["n"], error["error"]) for error in found]
                    output.show(
                        output.table(f"errors of failed rows in {picture.environment}", ("rows", "error"), rows)
                    )
        return sum(not picture.up for picture in pictures)
    finally:
        for _, store in stores:
            with contextlib.suppress(Exception):
                await store.close()


async def _take(place: Environment, store: Store, queues: Sequence[Queue]) -> Snapshot:
    if missing := place.missing_file():
        return snapshot.Snapshot(place.name, place.address, up=False, problem=f"there is no database file {missing}")
    return await snapshot.take(place, store, queues)


async def _show_workers(places: Any, queues: Any, *, json: bool) -> int:
    missing = {place.name: path for place in places if (path := place.missing_file())}
    stores = [(place.name, place.store(read_only=True)) for place in places if place.name not in missing]
    try:
        workers, problems = await active_workers(stores, queues)
        problems |= {name: f"there is no database file {path}" for name, path in missing.items()}
    finally:
        for _, store in stores:
            with contextlib.suppress(Exception):
                await store.close()
    if json:
        output.as_json(workers)
    elif workers:
        rows = [
            (worker["environment"], _worker_name(worker), worker["queue"], worker["jobs"],
             _short(worker["oldest_at"]), _short(worker["newest_at"]), worker["note"])
            for worker in workers
        ]  # fmt: skip
        columns = ("environment", "worker", "queue", "jobs", *TIMES, "note")
        output.show(output.table("workers (times are UTC)", columns, rows, whole=TIMES))
    elif not problems:
        typer.echo("no live worker: start one with `tabellion worker`")
    for name, problem in problems.items():
        typer.echo(f"{name} is unreachable: {problem}", err=True)
    return len(problems)


def _short(moment: str | None) -> str | None:
    """The time of day, with the date if that was another day: more leaves no room at 80 columns."""
    if moment is None:
        return None
    is_today = iso(time.time()).startswith(moment[:10])
    return moment[11:19] if is_today else moment[5:16].replace("T", " ")


def _worker_name(worker: ActiveWorker) -> str:
    if worker["registered"]:
        return worker["worker"] or ""
    return f"{worker['worker'] or 'unknown'} (outside the register)"


async def _keep_up(stores: Any, queues: Any, pictures: Any) -> None:
    with Live(picture_of(pictures), console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(REFRESH)
            pictures = await asyncio.gather(*(_take(place, store, queues) for place, store in stores))
            live.update(picture_of(pictures), refresh=True)


def picture_of(pictures: list[Snapshot]) -> Any:
    """The snapshots of all environments as one renderable."""
    parts: list[Any] = []
    for picture in pictures:
        parts += _environment(picture)
    return Group(*parts)


def _environment(picture: Snapshot) -> list[Any]:
    if not picture.up:
        return [
            Text(f"{picture.environment}  {picture.address}"),
            Text(f"  unreachable: {picture.problem}", "red"),
            Text(""),
        ]
    paid = any(queue.cost for queue in picture.queues)
    rows = [
        (queue.queue, *_numbers(queue)) + ((f"${queue.cost:,.2f}",) if paid else ()) + (_remark(queue),)
        for queue in picture.queues
    ]
    spent = ("spent, 24 h",) if paid else ()
    parts: list[Any] = [
        output.table(
            f"{picture.environment}  {picture.address}",
            ("queue", "ready", "not due", "running", "done", "failed", *spent, ""),
            rows,
        )
    ]
    if picture.jobs:
        jobs = [
            (job["queue"], job["key"], job["attempt"], output.duration(job["seconds"]), job["worker"], job["note"])
            for job in picture.jobs[:20]
        ]
        parts.append(output.table("running", ("queue", "key", "attempt", "for", "worker", "note"), jobs))
        if len(picture.jobs) > len(jobs):
            parts.append(Text(f"… and {len(picture.jobs) - len(jobs)} more"))
    if picture.workers:
        workers = [
            (
                worker["id"],
                worker["busy"],
                worker["slots"],
                worker["done"],
                worker["retried"],
                worker["failed"],
                output.duration(worker["up_for"]),
            )
            for worker in picture.workers
        ]
        parts.append(output.table("workers", ("worker", "busy", "slots", "done", "retried", "failed", "up"), workers))
    elif picture.register:
        parts.append(Text(picture.register, "yellow"))
    else:
        parts.append(Text("no live worker here: start one with `tabellion worker`", "yellow"))
    return [*parts, Text("")]


def _numbers(queue: Any) -> tuple[int | None, ...]:
    """How many rows are in each state; None for a queue that cannot be counted."""
    if queue.problem:
        return (None,) * 5
    return queue.ready, queue.waiting or None, queue.running, queue.done, queue.failed


def _remark(queue: Any) -> str:
    remarks = []
    if queue.problem:
        remarks.append(queue.problem)
    if queue.paused:
        remarks.append(f"paused{f': {queue.reason}' if queue.reason else ''}")
    if queue.gate:
        remarks.append(queue.gate)
    if queue.limit is not None:
        remarks.append(f"limit {queue.limit}")
    if queue.foreign:
        more = " or more" if queue.foreign >= orphans.MOST_COUNTED else ""
        remarks.append(f"{queue.foreign:,}{more} running outside the register")
    return ", ".join(remarks)
