"""The Celery application for the configured queues: `celery -A tabellion.celery worker`.

`tabellion worker --celery` runs it with the options of `tabellion worker`. Run as a program, it sends hints.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabellion.cli import exit_code, supervisor
from tabellion.cli.load import broker_of, config_of, find_queue, module_of, pipelines_of, queues_of
from tabellion.cli.observing import begun_by_requests, observe, process_traces
from tabellion.cli.worker_defaults import with_worker_defaults
from tabellion.cli.worker_environments import prepare_worker
from tabellion.engine.log import log_to_stderr
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.extras import explain_missing
from tabellion.pipeline import gates_of
from tabellion.retention import rules_of
from tabellion.sla import tasks_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.celery.hinted_worker import HintedWorker
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.pipeline import Pipeline

ENVIRONMENTS = "TABELLION_CELERY_ENVIRONMENTS"  # set by the command line: names of those that were found usable
ONLY = "TABELLION_CELERY_ONLY"  # set by the command line: names of queues

logger = logging.getLogger("tabellion.worker")


@dataclass(frozen=True)
class Fleet:
    """What the workers of this configuration work on."""

    config: Config
    pipelines: list[Pipeline]
    queues: list[Queue]
    environments: list[Environment]

    @classmethod
    def load(cls) -> Fleet:
        """Reads the configuration; options of the command line are in variables."""
        config = config_of(None)
        pipelines, queues = pipelines_of(None, config), queues_of(None, config)
        if module_of(None, config) is None:
            config = with_worker_defaults(config, pipelines)
        only = os.environ.get(ONLY)
        chosen = [find_queue(queues, name) for name in only.split(",")] if only else queues
        names = os.environ.get(ENVIRONMENTS)
        places = [place for place in config.environments if names is None or place.name in names.split(",")]
        return cls(config, pipelines, [queue for queue in chosen if queue.function], places)

    def prepare(self) -> None:
        """Updates the tables of pipelines and leaves out unusable environments, unless the command line has done it."""
        if ENVIRONMENTS not in os.environ:
            self.environments[:] = prepare_worker(self.config, self.environments, self.pipelines, self.queues)
            os.environ[ENVIRONMENTS] = ",".join(place.name for place in self.environments)

    def options(self) -> dict[str, Any]:
        """The arguments that all workers of a node share."""
        config = self.config
        return {
            "grace": config.grace,
            "poll": config.poll,
            "gates": gates_of(config, self.pipelines),
            "gates_at": config.gates_at if config.gates_at in self.environments else None,
        }

    @contextlib.contextmanager
    def watch(self, worker: HintedWorker) -> Iterator[None]:
        """Counts and traces what the worker of one process does, as for the processes of `tabellion worker`."""
        from billiard.process import current_process

        first, begun = self.config.metrics_port, begun_by_requests(self.pipelines)
        port = first and first + getattr(current_process(), "index", 0)  # kept by the process that replaces this one
        with contextlib.ExitStack() as stack:
            stack.enter_context(process_traces())
            try:
                stack.enter_context(observe(worker, self.config.metrics_host, port, begun, counts=port is not None))
            except ConfigurationError as error:
                # Celery may start any number of processes on any number of nodes: work does not depend on their ports.
                logger.error("%s. This process works without serving metrics.", error)
                stack.enter_context(observe(worker, begun=begun, counts=False))
            yield


def make_app() -> Any:
    """The Celery application of this configuration; connects to nothing."""
    with explain_missing("celery"):
        from tabellion.engine.celery import app as celery_app
        from tabellion.engine.celery.hinted_worker import HintedWorker
        from tabellion.engine.celery.node import NODE
        from tabellion.engine.celery.reconciler import name_node

    fleet = Fleet.load()
    broker = broker_of(fleet.config)
    for variable in ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"):
        if os.environ.get(variable):
            os.environ[variable] = broker  # Celery would prefer it to the configuration
    node = os.environ.setdefault(NODE, name_node())

    def make_worker() -> HintedWorker:
        consumed = set(app.amqp.queues.consume_from)
        prefix = fleet.config.celery_prefix
        queues = [queue for queue in fleet.queues if f"{prefix}.{queue.name}" in consumed] or fleet.queues
        first = fleet.config.worker_name or "celery"
        log_to_stderr(fleet.config.log_level, as_json=fleet.config.log_json)
        return HintedWorker(
            fleet.environments, queues, concurrency=fleet.config.concurrency, id=f"{first}-{node}-{os.getpid()}",
            retention=lambda place: rules_of(fleet.config, fleet.pipelines, fleet.queues, place),
            tasks=lambda place: tasks_of(fleet.config, fleet.pipelines, fleet.queues, place), **fleet.options(),
        )  # fmt: skip

    settings = {"worker_concurrency": fleet.config.processes} if "processes" in fleet.config.worker else {}
    app = celery_app.make_app(
        broker,
        [queue.name for queue in fleet.queues],
        make_worker,
        [sys.executable, "-m", "tabellion.celery"],
        prefix=fleet.config.celery_prefix,
        prepare=fleet.prepare,
        watch=fleet.watch,
        settings=settings,
    )
    return app


def send_hints() -> None:
    """Sends hints for the queues of this node until SIGTERM."""
    from tabellion.engine.celery.broker import Broker
    from tabellion.engine.celery.node import NODE, consumed_queues
    from tabellion.engine.celery.reconciler import Reconciler

    supervisor.die_with_parent()
    fleet = Fleet.load()
    consumed = consumed_queues()
    config = fleet.config
    log_to_stderr(config.log_level, as_json=config.log_json)
    reconciler = Reconciler(
        fleet.environments,
        [queue for queue in fleet.queues if consumed is None or queue.name in consumed],
        broker=Broker(app, config.celery_prefix), node=os.environ[NODE], capacity=config.concurrency,
        **fleet.options() | {"poll": min(config.poll, 1.0)},
    )  # fmt: skip
    reconciler.run()


app = make_app()

if __name__ == "__main__":
    try:
        send_hints()
    except TabellionError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the node ends with this reason
        sys.exit(exit_code(error))
