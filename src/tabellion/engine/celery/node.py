"""What a node does besides its pool: it keeps a reconciler alive, and has its processes claim no more when it stops."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery import bootsteps, signals
from celery.exceptions import ImproperlyConfigured
from celery.utils.log import get_logger
from celery.worker import state

from tabellion.engine.celery.process_worker import ENDING, STOP, Processes
from tabellion.errors import TabellionError

NODE = "TABELLION_CELERY_NODE"  # the name of this node, for its processes
QUEUES = "TABELLION_CELERY_QUEUES"  # names of the Celery queues that this node consumes, for its reconciler
PORTS = "TABELLION_CELERY_PORTS"  # how many ports for metrics its processes use, for its reconciler
PARENT = "TABELLION_PARENT"  # its process number, with which its reconciler ends
LOOK = 1.0  # seconds between two checks whether the reconciler runs
FOR_GOOD = (2, 3)  # exit codes of a reconciler after which another start would not help: usage, configuration
GOODBYE = 5.0  # seconds for the reconciler to end
LATEST = ENDING + GOODBYE  # seconds beyond the grace time after which a node that was told to stop ends in any case

logger = get_logger(__name__)


@dataclass(frozen=True)
class NodePlan:
    """What the nodes of an application have to know; its attribute `node_plan`."""

    processes: Processes
    lanes: Mapping[str, tuple[str, str]]  #: the names of Celery's queues, each with its environment and queue
    reconcile: Sequence[str]  #: the command that starts a reconciler
    #: Called before the pool is made; returns the environments that can be used, or raises TabellionError.
    prepare: Callable[[], Collection[str]]
    grace: float  #: seconds that jobs may take to finish when the node is told to stop


class Node(bootsteps.StartStopStep):  # type: ignore[misc]
    """The part of a Celery worker that is ours.

    The reconciler is a process of its own: its database connections must not be forked with the pool.
    """

    requires = ("celery.worker.components:Pool", "celery.worker.components:Timer")

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        pool = worker.pool_cls if isinstance(worker.pool_cls, str) else worker.pool_cls.__module__
        if "gevent" in pool or "eventlet" in pool:
            raise ImproperlyConfigured("handlers run in an event loop of asyncio: use --pool prefork, threads or solo")
        self._worker = worker
        self._plan: NodePlan = worker.app.node_plan
        try:
            usable = self._plan.prepare()
        except TabellionError as error:
            raise SystemExit(f"tabellion: {error}") from error
        # Other nodes may be able to use what this one cannot: it leaves their hints to them.
        queues = worker.app.amqp.queues
        chosen = list(queues.consume_from)
        queues.deselect([name for name, (place, _) in self._plan.lanes.items() if place not in usable])
        if not queues.consume_from:
            names = ", ".join(chosen)
            raise SystemExit(f"tabellion: this node can use none of the environments of its Celery queues: {names}")
        # Inherited by its processes, which it would kill before they handle it.
        signal.signal(STOP, signal.SIG_IGN)
        self._reconciler: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._deadline: threading.Timer | None = None
        signals.worker_shutting_down.connect(self._on_shutting_down, weak=False)

    def start(self, worker: Any) -> None:
        """Starts the reconciler, and looks after it."""
        self._start_reconciler()
        worker.timer.call_repeatedly(LOOK, self._look_after_reconciler)

    def close(self, worker: Any) -> None:
        """Has the pool's processes claim no more."""
        self._stop_claiming()

    def stop(self, worker: Any) -> None:
        """Ends the reconciler; the pool is stopped next."""
        self._stop_claiming()
        if self._reconciler is not None and self._reconciler.poll() is None:
            self._reconciler.send_signal(signal.SIGTERM)
            try:
                self._reconciler.wait(GOODBYE)
            except subprocess.TimeoutExpired:
                self._reconciler.kill()

    def terminate(self, worker: Any) -> None:
        """The same; the pool is terminated next."""
        self.stop(worker)

    def _start_reconciler(self) -> None:
        consumed = self._worker.app.amqp.queues.consume_from
        given = {
            QUEUES: ",".join(name for name in self._plan.lanes if name in consumed),
            PORTS: str(self._count_processes()),
            PARENT: str(os.getpid()),
        }
        # Its own session: Ctrl-C in the terminal reaches only this process.
        self._reconciler = subprocess.Popen(  # noqa: S603 - our own command line
            list(self._plan.reconcile), env=os.environ | given, start_new_session=True, stdin=subprocess.DEVNULL
        )

    def _look_after_reconciler(self) -> None:
        code = self._reconciler.poll() if self._reconciler is not None else None
        if code is None or self._stopping:
            return
        if code in FOR_GOOD:
            state.should_stop = code  # the reconciler has said why
            return
        logger.error("the process that sends hints ended with %s: starting it again", code)
        self._start_reconciler()

    def _on_shutting_down(self, **_: Any) -> None:
        self._stop_claiming()
        if self._deadline is None:
            self._deadline = threading.Timer(self._plan.grace + LATEST, self._end_anyway)
            self._deadline.daemon = True
            self._deadline.start()

    def _end_anyway(self) -> None:
        """Ends a node whose main thread waits for a broker that does not answer. Its processes have released their jobs
        by now, and wait until it takes their last messages; the reconciler ends with it."""
        logger.error("this node has not stopped in time, because of its broker perhaps: it ends now")
        self._signal_processes(signal.SIGKILL)
        os._exit(0)

    def _stop_claiming(self) -> None:
        self._stopping = True
        self._plan.processes.stop()
        self._signal_processes(STOP)

    def _signal_processes(self, number: signal.Signals) -> None:
        for pid in self._pool_processes():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _count_processes(self) -> int:
        """How many processes with a worker this node may have: those of a prefork pool, otherwise itself."""
        if not getattr(self._worker.pool, "_pool", None) or not self._pool_processes():
            return 1
        return int(self._worker.max_concurrency or self._worker.concurrency)

    def _pool_processes(self) -> list[int]:
        """The processes of a prefork pool; other pools have none."""
        pool = getattr(getattr(self._worker, "pool", None), "_pool", None)
        return [process.pid for process in getattr(pool, "_pool", None) or () if getattr(process, "pid", None)]


def consumed_names() -> list[str] | None:
    """The names of the Celery queues that the node of this process consumes; None if it has not been said: all."""
    names = os.environ.get(QUEUES)
    return None if names is None else names.split(",")
