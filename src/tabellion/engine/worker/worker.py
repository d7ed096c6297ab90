"""A worker: claims into free slots, runs handlers, renews leases, settles outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from tabellion.engine.context import JobContext, close_users
from tabellion.engine.environment import Environment
from tabellion.engine.events import Event, Listener, Listeners
from tabellion.engine.gates.open_gates import OpenGates
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.log import LogListener, log_by_default
from tabellion.engine.periodic import PeriodicTask
from tabellion.engine.queue import Queue
from tabellion.engine.retention import RetentionRule
from tabellion.engine.settlement import Settlement
from tabellion.engine.worker.dispatcher import Dispatcher
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.heartbeat import WorkerRecord, make_boot
from tabellion.engine.worker.polling import Poller
from tabellion.engine.worker.runner import Runner
from tabellion.engine.worker.signals import wake_on_signals
from tabellion.engine.worker.slots import Slots, lanes
from tabellion.engine.worker.startup import check_arguments, check_environments, make_id, plan_of
from tabellion.engine.worker.temp_folders import Folders
from tabellion.engine.worker_rows import STOPPED
from tabellion.errors import ConfigurationError, DeclarationError, StoreError

CONCURRENCY = 100
GRACE, POLL = 30.0, 1.0  # seconds
STUCK = 5.0  # seconds that a blocked event loop gets to notice that its worker has ended
FIRST_LOOK = 2.0  # seconds that all databases together get to connect before claiming begins with those that have
IDLE_LOOK = 0.1  # seconds between two checks for remaining work, with until_idle
LAST_WORDS = 10.0  # seconds for the last settlements to be written once every handler has ended


class Worker:
    """Works on queues of one or several environments until it is stopped.

    `run()` blocks and stops on SIGTERM or Ctrl-C; `await serve()` embeds the worker in a running event loop.
    Handlers run on the caller's loop (or in threads); claiming, renewing and settling happen in a thread of
    the engine's own, so that a handler which blocks its loop does not cost other jobs their leases.
    """

    def __init__(
        self,
        environments: Iterable[Environment],
        queues: Iterable[Queue],
        *,
        concurrency: int = CONCURRENCY,
        id: str | None = None,  # noqa: A002 - the public name
        name: str | None = None,
        grace: float = GRACE,
        poll: float = POLL,
        listeners: Iterable[Listener] = (),
        folder: Path | None = None,
        gates: Mapping[str, GateSettings] | None = None,
        gates_at: Environment | None = None,
        retention: Callable[[Environment], Sequence[RetentionRule]] | None = None,
        tasks: Callable[[Environment], Sequence[PeriodicTask]] | None = None,
    ) -> None:
        self.environments = list(environments)
        self.queues = list(queues)
        if concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency!r} must be at least 1")
        self.concurrency = concurrency
        self.grace = grace
        self.poll = poll
        self.gates = dict(gates or {})
        self._retention = retention or (lambda _: ())
        self._tasks = tasks or (lambda _: ())
        self.gates_at = gates_at or (self.environments[0] if self.environments else None)
        boot = make_boot()
        self.id = make_id(id, name) or f"worker-{socket.gethostname()}-{os.getpid()}-{boot[:8]}"
        self.listeners = Listeners((LogListener(), *listeners))
        self.record = WorkerRecord(
            id=self.id, host=socket.gethostname(), pid=os.getpid(), boot=boot, version=_version(),
            queues=",".join(queue.name for queue in self.queues), slots=concurrency,
        )  # fmt: skip
        check_arguments(self.environments, self.queues)
        self._folders = Folders(self.id, folder)
        self._engine: asyncio.AbstractEventLoop | None = None
        self._stop_count = 0  #: calls of stop(); after the second, jobs are released at once
        self._hurry: asyncio.Event | None = None
        self._stop_event: asyncio.Event | None = None
        self._until_idle = False
        self._owns_process = False
        self._returned = threading.Event()
        self._contexts: dict[WorkerEnvironment, JobContext] = {}
        self.broker_up: bool | None = None  #: whether Celery's broker can be reached, where this worker uses it

    # -- for callers -------------------------------------------------------------------------------------------

    def run(self, *, until_idle: bool = False) -> None:
        """Works until SIGTERM or Ctrl-C; with `until_idle`, until nothing is ready, running or due later."""
        # Only the main thread may handle signals; in other threads call `stop()`.
        first = threading.current_thread() is threading.main_thread()
        signals = {signal.SIGTERM, signal.SIGINT} if first else set()
        before = {number: signal.getsignal(number) for number in signals}

        def obey(_number: int, _frame: FrameType | None) -> None:
            self.stop()

        for number in signals:
            signal.signal(number, obey)
        self._owns_process = first
        try:
            with log_by_default() if first else contextlib.nullcontext():
                asyncio.run(self.serve(until_idle=until_idle))
        finally:
            self._returned.set()
            for number, handler in before.items():
                signal.signal(number, handler)

    async def serve(self, *, until_idle: bool = False) -> None:
        """Works until `stop()` is called or this task is cancelled."""
        self._until_idle = until_idle
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def engine() -> None:
            failure: BaseException | None = None
            try:
                asyncio.run(self._run_engine(loop))
            except BaseException as error:
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(complete_future, ended, failure)
            if self._owns_process and failure is None:
                threading.Thread(target=self._end_stuck_process, daemon=True).start()

        thread = threading.Thread(target=engine, name=f"tabellion {self.id}", daemon=True)
        thread.start()
        with wake_on_signals(loop) if self._owns_process else contextlib.nullcontext():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                self.stop()
                self.stop()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(ended)
                raise
            finally:
                thread.join(1)
                await close_users(self._contexts.values())

    def _end_stuck_process(self) -> None:
        """Ends the process if a handler still blocks it: its job has been released, so nothing is left to wait for."""
        if not self._returned.wait(STUCK):
            os._exit(0)

    def stop(self) -> None:
        """Stops the worker: handlers may finish within the grace time; a second call releases their jobs at once."""
        self._stop_count += 1
        if self._engine is not None and not self._engine.is_closed():
            with contextlib.suppress(RuntimeError):
                self._engine.call_soon_threadsafe(self._obey)

    # -- in the engine's thread --------------------------------------------------------------------------------

    async def _run_engine(self, handlers: asyncio.AbstractEventLoop) -> None:
        self._engine = asyncio.get_running_loop()
        self._hurry, self._stop_event = asyncio.Event(), asyncio.Event()
        stop = self._stop_event
        self._obey()
        dispatcher = self._dispatcher = self._make_dispatcher()
        self._runner = dispatcher.runner = Runner(handlers, dispatcher.report)
        environments = self._worker_environments = [
            WorkerEnvironment(
                environment, self.queues, dispatcher, self._retention(environment), self._tasks(environment)
            )
            for environment in self.environments
        ]
        assert self.gates_at is not None  # noqa: S101 - the first environment, and there is one
        self._gates = OpenGates(self.gates_at.url, self.gates, dispatcher.wake, dispatcher.on_gate_changed)
        self._contexts = dispatcher.contexts = {
            environment: JobContext(self._gates, environment.store) for environment in environments
        }
        self._slots = dispatcher.slots = Slots(self.concurrency, lanes(environments, self.queues))
        for lane in self._slots.lanes:
            lane.gate = self._gates.get_gate(lane.queue.uses) if lane.queue.uses else None
        self._poller = dispatcher.poller = self._make_poller(dispatcher)
        tasks: list[asyncio.Task[None]] = []
        started = False
        try:
            dispatcher.root = self._folders.open()
            self.listeners.emit(Event("worker_started", worker=self.id, note=self._describe_plan()))
            started = True
            tasks += [asyncio.create_task(environment.run()) for environment in environments]
            # Declarations are checked before the first claim, but a database that hangs delays the start only briefly.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LOOK):
                    await asyncio.gather(*(environment.ready.wait() for environment in environments))
            check_environments(environments, self.queues)
            for environment in environments:
                environment.admit()
            claiming = asyncio.create_task(self._poller.run())
            claiming.add_done_callback(lambda _: stop.set())
            watching = asyncio.create_task(self._watch_idle()) if self._until_idle else None
            await stop.wait()
            self.listeners.emit(Event("worker_stopping", worker=self.id, count=self._slots.busy))
            self._poller.stop()
            for lane in self._slots.lanes:
                dispatcher.release(lane, self._slots.withdraw(lane))
            [failure] = await asyncio.gather(claiming, return_exceptions=True)
            if watching is not None:
                watching.cancel()
            await self._wind_down()
            if isinstance(failure, BaseException):
                raise failure
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._gates.close()
            await asyncio.gather(*(environment.close(STOPPED) for environment in environments), return_exceptions=True)
            self._folders.close()
            if started:
                self.listeners.emit(Event("worker_stopped", worker=self.id, note=self.record.tally))

    def _make_dispatcher(self) -> Dispatcher:
        """The dispatcher of this kind of worker."""
        return Dispatcher(self.record, self.listeners, self.queues)

    def _make_poller(self, dispatcher: Dispatcher) -> Poller:
        """What decides when this kind of worker claims."""
        return Poller(self.poll, dispatcher)

    def _describe_plan(self) -> str:
        """What this worker is about to do, for the log line at its start."""
        return plan_of(self.environments, self.queues, self.concurrency)

    def _obey(self) -> None:
        if self._stop_event is None or self._hurry is None:
            return
        if self._stop_count:
            self._stop_event.set()
        if self._stop_count > 1:
            self._hurry.set()

    async def _wind_down(self) -> None:
        """Lets handlers finish within the grace time, releases the other jobs, and writes every settlement."""
        assert self._hurry is not None  # noqa: S101 - set when the engine started
        idle, hurry = asyncio.create_task(self._dispatcher.idle.wait()), asyncio.create_task(self._hurry.wait())
        await asyncio.wait({idle, hurry}, timeout=self.grace, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        for environment in self._worker_environments:
            for run in environment.leases.runs():
                self._runner.stop(run, "stopping")
        await asyncio.wait({idle}, timeout=2.0)
        idle.cancel()
        for environment in self._worker_environments:
            for run in environment.leases.runs():
                # It did not stop: its row is released anyway, and the fence refuses whatever it still writes.
                run.job.lost = True
                environment.settler.put(Settlement(run.job, "released", seconds=run.seconds))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await asyncio.gather(*(environment.settler.empty() for environment in self._worker_environments))

    async def _watch_idle(self) -> None:
        """Stops the worker once every queue of every environment is drained."""
        record = self._dispatcher.record
        while True:
            await asyncio.sleep(IDLE_LOOK)
            if not self._is_quiet():
                continue
            ended = record.done, record.failed, record.retried
            left = 0
            for lane in self._slots.lanes:
                if lane.queue in lane.environment.skipped:
                    continue
                if not lane.environment.up:
                    left += 1
                    continue
                try:
                    left += await lane.environment.store.has_work(lane.queue)
                except (StoreError, DeclarationError):
                    left += 1
            # What ended meanwhile may be a new job of a queue that was already checked.
            if not left and self._is_quiet() and ended == (record.done, record.failed, record.retried):
                self.stop()
                return

    def _is_quiet(self) -> bool:
        """Whether no handler runs here and every result has been written."""
        return not self._slots.busy and not any(len(environment.settler) for environment in self._worker_environments)


def complete_future(ended: asyncio.Future[None], failure: BaseException | None) -> None:
    """Ends a wait for another thread, unless it has been cancelled meanwhile."""
    if ended.done():
        return
    if failure is None:
        ended.set_result(None)
    else:
        ended.set_exception(failure)


def _version() -> str:
    from tabellion import __version__  # the package imports this module

    return __version__
