"""Makes the Celery application: one task, one Celery queue per queue, and what a node does besides its pool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import celery
from celery import signals
from celery.app.amqp import AMQP
from kombu import Exchange, Queue

from tabellion.engine.celery.broker import ANSWER, CONNECT, TASK, QuickConnection
from tabellion.engine.celery.hinted_worker import HintedWorker
from tabellion.engine.celery.node import Node, NodePlan
from tabellion.engine.celery.process_worker import Processes, Watch

SETTINGS: dict[str, Any] = {
    # Messages are data: nothing that arrives is executed.
    "accept_content": ["json"],
    "task_serializer": "json",
    "result_serializer": "json",
    # The row has the result.
    "task_ignore_result": True,
    # A hint is reserved by a process that is free: with an early acknowledgement, hints would wait behind long jobs.
    "task_acks_late": True,
    "worker_prefetch_multiplier": 1,
    # Leases bring back the jobs of a lost process, and hints follow from their rows: the broker repeats nothing.
    "task_reject_on_worker_lost": False,
    # A second delivery of a hint finds nothing to claim: handlers need not be stopped because of it.
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_connection_timeout": CONNECT,
    "broker_heartbeat": 10,
    # A process that starts on a busy machine is not killed for being slow.
    "worker_proc_alive_timeout": 60,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "task_create_missing_queues": False,
}
#: Earlier environments and queues first, as a worker polls; one list for each. A broker that vanishes without closing
#: its connections is noticed after ten seconds, which with kombu's own settings takes 51 s, or for ever.
REDIS_OPTIONS = {
    "queue_order_strategy": "priority",
    "priority_steps": [0],
    "socket_connect_timeout": CONNECT,
    "socket_timeout": ANSWER,
    "health_check_interval": 5,
    "socket_keepalive": True,
}


class QuickAMQP(AMQP):  # type: ignore[misc]
    """Celery's messaging, on connections that come back soon."""

    Connection = QuickConnection


def make_app(
    broker: str, lanes: Mapping[str, tuple[str, str]], make_worker: Callable[[], HintedWorker],
    reconcile: Sequence[str], *, prefix: str, grace: float, prepare: Callable[[], Collection[str]] = tuple,
    watch: Watch = contextlib.nullcontext, settings: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The application. `lanes` are the names of Celery's queues, each with its environment and queue; `make_worker`
    makes the worker of each process; `reconcile` is the command of the reconciler; `grace` is that of the workers;
    `prepare` is called in a node before it makes its pool, and returns the environments that it can use; `watch`
    observes the worker of a process."""
    app = celery.Celery("tabellion", amqp=QuickAMQP, set_as_current=False)
    app.conf.update(SETTINGS)
    app.conf.update(
        broker_url=broker,
        broker_transport_options=REDIS_OPTIONS if is_redis(broker) else {"confirm_publish": True},
        # A primary that becomes a replica answers with an error (UNBLOCKED, READONLY) instead of hanging up.
        broker_channel_error_retry=is_redis(broker),
        task_default_queue=next(iter(lanes)),
        task_queues=[Queue(name, Exchange(prefix, type="direct"), routing_key=name) for name in lanes],
    )
    app.conf.update(settings or {})
    processes = Processes(make_worker, watch)

    def work(environment: str, queue: str, key: str | None = None) -> dict[str, int]:
        """Serves a hint: claims and runs due rows of a queue; `key` is a row that was due when the hint was sent."""
        return processes.serve_hint(environment, queue)

    app.task(work, name=TASK, shared=False)
    app.finalize()
    app.node_plan = NodePlan(processes, lanes, reconcile, prepare, grace)
    app.steps["worker"].add(Node)
    _connect_signals(processes)
    return app


def is_redis(broker: str) -> bool:
    """Whether this URL is of Redis, or of a server that speaks its protocol."""
    return broker.startswith(("redis", "unix"))


def _connect_signals(processes: Processes) -> None:
    def on_process_start(**_: Any) -> None:
        processes.on_process_start()

    def on_process_end(**_: Any) -> None:
        # Its node has told it to stop before, or is gone: nothing is left to wait for. Otherwise only this process is
        # replaced or not needed any more, and jobs that outlived their hint may finish.
        processes.end(at_once=processes.stopping or processes.has_lost_node)

    def on_node_end(**_: Any) -> None:
        processes.end(at_once=False)  # of a pool of threads; processes have ended before

    signals.worker_process_init.connect(on_process_start, weak=False)
    signals.worker_process_shutdown.connect(on_process_end, weak=False)
    signals.worker_shutdown.connect(on_node_end, weak=False)
