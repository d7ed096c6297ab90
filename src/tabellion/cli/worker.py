"""`tabellion worker`: works your queues until stopped, and restarts processes that die."""

from __future__ import annotations

from typing import Annotated

import typer

from tabellion.cli import celery_worker, supervisor
from tabellion.cli.load import config_of, find_environment, find_queue, module_of, pipelines_of, queues_of
from tabellion.cli.observing import begun_by_requests, observe, process_traces
from tabellion.cli.options import OnlyPlaces
from tabellion.cli.worker_defaults import with_worker_defaults
from tabellion.cli.worker_environments import gates_environment, prepare_worker
from tabellion.engine.log import LogListener, log_to_stderr
from tabellion.engine.worker.startup import make_id
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import gates_of
from tabellion.monitor.metrics.exposition import require_client
from tabellion.retention import rules_of
from tabellion.sla import targets_of, tasks_of, views_of

LAST_PORT = 65535
ID_HELP = "This worker's id; -1, -2, … follow for several processes. [default: worker-HOST-PID-UUID]"


def worker(
    context: typer.Context,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Jobs one process runs at once.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes to keep alive.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this queue; may be repeated.")] = None,
    environment: OnlyPlaces = None,
    id: Annotated[str | None, typer.Option(help=ID_HELP)] = None,  # noqa: A002
    name: Annotated[str | None, typer.Option(help="The first part of each worker's id; a UUID follows.")] = None,
    grace: Annotated[float | None, typer.Option(min=0, help="Seconds for handlers to finish on SIGTERM.")] = None,
    until_idle: Annotated[bool, typer.Option(help="Exit when every queue is empty.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve metrics here; further processes on the ports after it.")
    ] = None,
    celery: Annotated[bool, typer.Option("--celery", help="Work as a node of Celery; see celery.broker.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Log as JSON lines.")] = False,
) -> None:
    """Process the jobs of the declared queues until Ctrl-C or SIGTERM.

    A process that dies is restarted; its jobs go back to ready at once, and the evidence is kept.

    Examples:

        tabellion --queues shop.queues worker

        tabellion worker --queues shop.queues --processes 4 --concurrency 50 --only invoices

        tabellion worker --with documents

        tabellion worker --name unified-worker

        tabellion worker --id worker-1 --processes 3

        REDIS_URL=redis://127.0.0.1:6379/0 tabellion worker --celery --processes 4

        tabellion worker --with documents --processes 2 --metrics-port 9464
    """
    config = config_of(context)
    if celery:
        celery_worker.check(config, id=id, until_idle=until_idle)
    queues, pipelines = queues_of(context, config), pipelines_of(context, config)
    if module_of(context, config) is None:
        config = with_worker_defaults(config, pipelines)
    chosen = [find_queue(queues, name) for name in only] if only else [queue for queue in queues if queue.function]
    if not chosen:
        first = queues[0].name
        raise ConfigurationError(f"no queue of this module has a handler: decorate a function with @{first}.handler")
    targets_of(config, pipelines, views_of(config, pipelines, queues))  # refuses unknown queues before anything starts
    places = [find_environment(config, name, new=True) for name in environment or []] or list(config.environments)
    as_json = json or config.log_json
    name = name or (config.worker_name if id is None else None)
    make_id(id, name)  # refuses what no worker may be called, before any process starts

    grace = config.grace if grace is None else grace
    metrics_port = config.metrics_port if metrics_port is None else metrics_port
    if supervisor.is_child():
        from tabellion.engine.worker.worker import Worker

        supervisor.die_with_parent()
        log_to_stderr(config.log_level, as_json=as_json)
        usable = supervisor.child_environments(places)
        worker = Worker(
            usable,
            chosen,
            concurrency=concurrency or config.concurrency,
            id=supervisor.child_id(),
            grace=grace,
            poll=config.poll,
            gates=gates_of(config, pipelines),
            gates_at=gates_environment(config, set(places) - set(usable)),
            retention=lambda place: rules_of(config, pipelines, queues, place),
            tasks=lambda place: tasks_of(config, pipelines, queues, place),
        )
        port = supervisor.child_port(metrics_port)
        begun = begun_by_requests(pipelines)
        with process_traces(), observe(worker, config.metrics_host, port, begun, counts=port is not None):
            worker.run(until_idle=until_idle)
        return
    if metrics_port is not None:
        require_client()
        last = (
            metrics_port + (processes or config.processes) - (0 if celery else 1)
        )  # Celery's hint sender has one, too
        if last > LAST_PORT:
            raise ConfigurationError(
                f"metrics: the ports from {metrics_port} to {last} are needed, and {LAST_PORT} is the last one: "
                "choose a lower worker.metrics_port"
            )
    log_to_stderr(config.log_level, as_json=as_json)
    usable = prepare_worker(config, places, pipelines, chosen)
    if celery:
        celery_worker.run(
            context, config, environments=usable, skipped=[place for place in places if place not in usable],
            only=only, processes=processes, concurrency=concurrency, name=name, grace=grace,
            metrics_port=metrics_port, as_json=as_json,
        )  # fmt: skip
        return
    code = supervisor.supervise(
        usable,
        processes=processes or config.processes,
        id=id,
        name=name,
        listen=LogListener(),
        grace=grace,
    )
    raise typer.Exit(code)
