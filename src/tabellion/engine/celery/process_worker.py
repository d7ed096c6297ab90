"""The worker of one process of Celery's pool: in threads of its own, while Celery's thread waits for its hints."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tabellion.engine.celery.hinted_worker import HintedWorker

CHECK = 1.0  # seconds between two checks whether the worker still runs while its hint is being served
ENDING = 20.0  # seconds beyond the grace time for a worker to release its jobs and end
STOP = signal.SIGUSR2  #: what a node sends to its processes when they shall claim no more

logger = logging.getLogger("tabellion.worker")

Watch = Callable[[HintedWorker], AbstractContextManager[Any]]  #: what observes a worker while it runs


class ProcessWorker:
    """A worker with an event loop for its handlers; leases are renewed in the engine's thread, outside that loop."""

    def __init__(self, worker: HintedWorker, watch: Watch = contextlib.nullcontext) -> None:
        self.worker = worker
        self._watch = watch
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"handlers of {worker.id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._watch(self.worker):
                asyncio.run(self.worker.serve())
        except BaseException as error:
            self._failure = error
            logger.error("worker %s ended: %s: %s", self.worker.id, type(error).__name__, error)
        finally:
            self._ended.set()
            self.worker.is_open.set()

    @property
    def has_failed(self) -> bool:
        """Whether the worker could not start, or ended by an error."""
        return self._ended.is_set() and self._failure is not None

    def serve_hint(self, environment: str, queue: str) -> dict[str, int]:
        """Waits until the hint has been served; raises what ended the worker. After `stop()` nothing is claimed."""
        self.worker.is_open.wait()
        loop = self.worker.engine_loop
        if self._failure is not None:
            raise self._failure
        if loop is None or self._ended.is_set():
            return {}
        serving = self.worker.serve_hint(environment, queue)
        try:
            future = asyncio.run_coroutine_threadsafe(serving, loop)
        except RuntimeError:  # the loop has just ended
            serving.close()
            return {}
        while True:
            concurrent.futures.wait([future], CHECK)
            if future.cancelled():
                return {}
            if future.done():
                return future.result()
            if self._ended.is_set():
                return {}

    def stop(self) -> None:
        """Claims no more; handlers may finish within the grace time. A second call releases their jobs at once."""
        self.worker.stop()

    def join(self, within: float) -> None:
        """Waits until the worker has ended."""
        self._thread.join(within)


class Processes:
    """The worker of the current process: each process of the pool makes its own, and so does a fork of one."""

    def __init__(self, make: Callable[[], HintedWorker], watch: Watch = contextlib.nullcontext) -> None:
        self._make, self._watch = make, watch
        self._lock = threading.Lock()
        self._current: ProcessWorker | None = None
        self.stopping = False  #: whether the node has been told to claim no more
        self._node: int | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock, self._current, self.stopping = threading.Lock(), None, False

    def serve_hint(self, environment: str, queue: str) -> dict[str, int]:
        """Serves a hint with the worker of this process; after `stop()` nothing is claimed."""
        worker = self.start()
        return {} if worker is None else worker.serve_hint(environment, queue)

    def start(self) -> ProcessWorker | None:
        """The worker of this process, started if there is none or it has failed; None after `stop()`."""
        with self._lock:
            if self.stopping:
                return self._current
            if self._current is None or self._current.has_failed:
                self._current = ProcessWorker(self._make(), self._watch)
            return self._current

    def stop(self) -> None:
        """Claims no more in this process; called again it changes nothing."""
        if not self.stopping:
            self.stopping = True
            if self._current is not None:
                self._current.stop()

    def end(self, *, at_once: bool) -> None:
        """Stops the worker of this process and waits until its jobs have ended or, `at_once`, been released."""
        self.stop()
        if self._current is not None:
            if at_once:
                self._current.stop()
            self._current.join(self._current.worker.grace + ENDING)

    @property
    def has_lost_node(self) -> bool:
        """Whether the node that started this process is gone."""
        return self._node is not None and os.getppid() != self._node

    def on_process_start(self) -> None:
        """Starts the worker in a new process of the pool, which shall release its jobs if its node is killed."""
        self._node = os.getppid()
        signal.signal(STOP, lambda *_: self.stop())
        if sys.platform == "linux":
            # Celery chose SIGKILL, after which the jobs would wait for their leases to expire.
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        try:
            self.start()
        except Exception as error:  # it is tried again by the first hint, whose task then reports the error
            logger.error("the worker of process %s cannot start: %s", os.getpid(), error)
