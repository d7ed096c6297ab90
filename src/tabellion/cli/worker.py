"""`tabellion worker`: works your queues until stopped, and restarts processes that die."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tabellion.cli import service, supervisor
from tabellion.cli.load import config_of, find_environment, find_queue, module_of, pipelines_of, queues_of
from tabellion.cli.worker_defaults import with_worker_defaults
from tabellion.engine.events import Event
from tabellion.engine.log import LogListener, log_to_stderr
from tabellion.engine.worker.startup import make_id
from tabellion.errors import Busy, ConfigurationError, Forbidden, Unreachable
from tabellion.monitor.rights import MissingRight, missing_rights
from tabellion.pipeline import gates_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue

ID_HELP = "This worker's id; -1, -2, … follow for several processes. [default: worker-HOST-PID-UUID]"


def worker(
    context: typer.Context,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Jobs one process runs at once.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes to keep alive.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this queue; may be repeated.")] = None,
    environment: Annotated[
        list[str] | None, typer.Option("--environment", "-e", help="Only this environment; may be repeated.")
    ] = None,
    id: Annotated[str | None, typer.Option(help=ID_HELP)] = None,  # noqa: A002
    name: Annotated[str | None, typer.Option(help="The first part of each worker's id; a UUID follows.")] = None,
    grace: Annotated[float | None, typer.Option(min=0, help="Seconds for handlers to finish on SIGTERM.")] = None,
    until_idle: Annotated[bool, typer.Option(help="Exit when every queue is empty.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Log as JSON lines.")] = False,
) -> None:
    """Work the declared queues until Ctrl-C or SIGTERM.

    A process that dies is restarted; its jobs go back to ready at once, and the evidence is kept.

    Examples:

        tabellion --queues shop.queues worker

        tabellion worker --queues shop.queues --processes 4 --concurrency 50 --only invoices

        tabellion worker --with documents

        tabellion worker --name unified-worker

        tabellion worker --id worker-1 --processes 3
    """

    config = config_of(context)
    queues, pipelines = queues_of(context, config), pipelines_of(context, config)
    if module_of(context, config) is None:
        config = with_worker_defaults(config, pipelines)
    chosen = [find_queue(queues, name) for name in only] if only else [queue for queue in queues if queue.function]
    if not chosen:
        first = queues[0].name
        raise ConfigurationError(f"no queue of this module has a handler: decorate a function with @{first}.handler")
    places = [find_environment(config, name, new=True) for name in environment or []] or list(config.environments)
    as_json = json or config.log_json
    name = name or (config.worker_name if id is None else None)
    make_id(id, name)  # refuses what no worker may be called, before any process starts

    grace = config.grace if grace is None else grace
    if supervisor.is_child():
        from tabellion.engine.worker.worker import Worker

        supervisor.die_with_parent()
        log_to_stderr(config.log_level, as_json=as_json)
        usable = supervisor.child_environments(places)
        Worker(
            usable,
            chosen,
            concurrency=concurrency or config.concurrency,
            id=supervisor.child_id(),
            grace=grace,
            poll=config.poll,
            gates=gates_of(config, pipelines),
            gates_at=_gates_at(config, set(places) - set(usable)),
        ).run(until_idle=until_idle)
        return
    for pipeline in pipelines:
        pipeline.check(config)
    prepared = service.prepare_environments(places, pipelines, chosen)
    _check_rights(prepared, chosen)
    log_to_stderr(config.log_level, as_json=as_json)
    listen = LogListener()
    for place, error in prepared.skipped.items():
        listen(Event("environment_skipped", environment=place, error=error))
    for (pipeline_name, place), error in prepared.missing.items():
        listen(Event("queue_skipped", queue=pipeline_name, environment=place, error=error))
    code = supervisor.supervise(
        prepared.usable,
        processes=processes or config.processes,
        id=id,
        name=name,
        listen=listen,
        grace=grace,
    )
    raise typer.Exit(code)


def _gates_at(config: Config, skipped: set[Environment]) -> Environment | None:
    """The environment that keeps the gates; None, which means the first usable one, if that cannot be used."""
    place = config.gates_at
    return None if place is None or place in skipped or place.missing_file() else place


def _check_rights(prepared: service.PreparedEnvironments, queues: Sequence[Queue]) -> None:
    """Raises before anything is created if, for lack of rights, a queue cannot work in any environment.

    A queue that can work in one environment is skipped in the others by the worker; an unreachable database counts as
    one where it may work.
    """
    places = prepared.usable

    async def find_missing(place: Environment) -> list[MissingRight]:
        if place.name in prepared.silent:
            return []
        store = place.store(read_only=True)
        try:
            with contextlib.suppress(Unreachable, Busy):
                await service.open_soon(store)
                return await missing_rights(store, queues)
            return []
        finally:
            await store.close()

    async def find_all_missing() -> list[list[MissingRight]]:
        return await asyncio.gather(*(find_missing(place) for place in places))

    missing_by_place = asyncio.run(find_all_missing())
    for queue in queues:
        if all(any(right.queue in (None, queue.name) for right in missing) for missing in missing_by_place):
            lines = [
                f"{place.name}: {right.problem}"
                for place, rights in zip(places, missing_by_place, strict=True)
                for right in rights
            ]
            raise Forbidden("\n".join(lines))
