"""The Celery application for the configured queues: `celery -A tabellion.celery worker`.

`tabellion worker --celery` runs it with the options of `tabellion worker`. Run as a program, it sends hints.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.cli import exit_code, supervisor
from tabellion.cli.load import broker_of, config_of, find_queue, module_of, pipelines_of, queues_of
from tabellion.cli.observing import begun_by_requests, observe, process_traces
from tabellion.cli.worker_defaults import with_worker_defaults
from tabellion.cli.worker_environments import gates_environment, prepare_worker
from tabellion.engine.log import log_to_stderr
from tabellion.errors import TabellionError
from tabellion.extras import explain_missing
from tabellion.installed_pipelines import gates_of
from tabellion.retention import rules_of
from tabellion.sla import tasks_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.celery.hinted_worker import HintedWorker
    from tabellion.engine.environment import Environment
    from tabellion.engine.periodic import PeriodicTask
    from tabellion.engine.queue import Queue
    from tabellion.engine.retention import RetentionRule
    from tabellion.engine.worker.worker import Worker
    from tabellion.pipeline import Pipeline

ENVIRONMENTS = "TABELLION_CELERY_ENVIRONMENTS"  # set by the command line: names of those that were found usable
SKIPPED = "TABELLION_CELERY_SKIPPED"  # with it: names of those that were chosen and not usable
ONLY = "TABELLION_CELERY_ONLY"  # set by the command line: names of queues


@dataclass(frozen=True)
class Fleet:
    """What the workers of this configuration work on."""

    config: Config
    pipelines: list[Pipeline]
    declared: list[Queue]  #: all queues: rules and targets may be about those that others work on
    queues: list[Queue]  #: those to work on
    environments: list[Environment]
    skipped: list[Environment]  #: chosen, but not usable

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
        skipped = [place for place in config.environments if place.name in os.environ.get(SKIPPED, "").split(",")]
        return cls(config, pipelines, queues, [queue for queue in chosen if queue.function], places, skipped)

    def prepare(self) -> list[str]:
        """Updates the tables of pipelines and leaves out unusable environments, unless the command line has done it.

        Returns the names of those that can be used.
        """
        if ENVIRONMENTS not in os.environ:
            usable = prepare_worker(self.config, self.environments, self.pipelines, self.queues)
            self.skipped[:] = [place for place in self.environments if place not in usable]
            self.environments[:] = usable
            os.environ[ENVIRONMENTS] = ",".join(place.name for place in usable)
            os.environ[SKIPPED] = ",".join(place.name for place in self.skipped)
        self.check()
        return [place.name for place in self.environments]

    def check(self) -> None:
        """Raises a ConfigurationError that would otherwise end every worker of the node when it starts."""
        for place in self.environments:
            self.rules_of(place)
            self.tasks_of(place)

    def rules_of(self, place: Environment) -> list[RetentionRule]:
        """What the workers of an environment remove."""
        return rules_of(self.config, self.pipelines, self.declared, place)

    def tasks_of(self, place: Environment) -> list[PeriodicTask]:
        """What the workers of an environment do besides their jobs."""
        return tasks_of(self.config, self.pipelines, self.declared, place)

    def lanes(self) -> dict[str, tuple[str, str]]:
        """The names of Celery's queues, each with its environment and queue."""
        from tabellion.engine.celery.broker import name_queues

        return name_queues(
            self.config.celery_prefix,
            [place.name for place in self.config.environments],
            [place.name for place in self.environments],
            [queue.name for queue in self.queues],
        )

    def choose(self, lanes: Collection[tuple[str, str]]) -> tuple[list[Environment], list[Queue]]:
        """The environments and the queues in these lanes, in polling order."""
        places, queues = {place for place, _ in lanes}, {queue for _, queue in lanes}
        return (
            [place for place in self.environments if place.name in places],
            [queue for queue in self.queues if queue.name in queues],
        )

    def options(self) -> dict[str, Any]:
        """The arguments that all workers of a node share."""
        config = self.config
        return {
            "grace": config.grace,
            "poll": config.poll,
            "gates": gates_of(config, self.pipelines),
            "gates_at": gates_environment(config, self.skipped),
        }

    @contextlib.contextmanager
    def watch(self, worker: Worker, place: int | None = None) -> Iterator[None]:
        """Counts and traces what the worker of one process does, as for the processes of `tabellion worker`.

        Its port follows the first in its `place`, which is that in the pool and kept by a process that replaces it.
        """
        from billiard.process import current_process

        first, begun = self.config.metrics_port, begun_by_requests(self.pipelines)
        port = first and first + (getattr(current_process(), "index", 0) if place is None else place)
        with process_traces(), observe(worker, self.config.metrics_host, port, begun, counts=port is not None):
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
        consumed = consumed_lanes(app.amqp.queues.consume_from)
        places, queues = fleet.choose(consumed)
        first = fleet.config.worker_name or "celery"
        log_to_stderr(fleet.config.log_level, as_json=fleet.config.log_json)
        return HintedWorker(
            places, queues, lanes=consumed, concurrency=fleet.config.concurrency,
            id=f"{first}-{node}-{os.getpid()}", retention=fleet.rules_of, tasks=fleet.tasks_of, **fleet.options(),
        )  # fmt: skip

    settings = {"worker_concurrency": fleet.config.processes} if "processes" in fleet.config.worker else {}
    app = celery_app.make_app(
        broker,
        fleet.lanes(),
        make_worker,
        [sys.executable, "-m", "tabellion.celery"],
        prefix=fleet.config.celery_prefix,
        grace=fleet.config.grace,
        prepare=fleet.prepare,
        watch=fleet.watch,
        settings=settings,
    )
    return app


def consumed_lanes(names: Iterable[str]) -> set[tuple[str, str]]:
    """The environments and queues of those of Celery's queues that are ours; all of them if none is."""
    lanes: Mapping[str, tuple[str, str]] = app.node_plan.lanes
    return {lanes[name] for name in names if name in lanes} or set(lanes.values())


def send_hints() -> None:
    """Sends hints for the queues of this node until SIGTERM."""
    from tabellion.engine.celery.broker import Broker
    from tabellion.engine.celery.node import NODE, PORTS, consumed_names
    from tabellion.engine.celery.reconciler import Reconciler

    supervisor.die_with_parent()
    fleet = Fleet.load()
    config = fleet.config
    consumed = consumed_lanes(consumed_names() or ())
    places, queues = fleet.choose(consumed)
    log_to_stderr(config.log_level, as_json=config.log_json)
    reconciler = Reconciler(
        places, queues, lanes=consumed, broker=Broker(app), node=os.environ[NODE], capacity=config.concurrency,
        **fleet.options() | {"poll": min(config.poll, 1.0)},
    )  # fmt: skip
    with fleet.watch(reconciler, int(os.environ.get(PORTS, "0"))):
        reconciler.run()


try:
    app = make_app()
    if __name__ == "__main__":
        send_hints()
except TabellionError as error:
    # Celery's own command would print a traceback; a program that imports this module handles the error itself.
    if __name__ != "__main__" and "celery" not in Path(sys.argv[0]).parts[-2:]:
        raise
    print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the node ends with this reason
    sys.exit(exit_code(error))
