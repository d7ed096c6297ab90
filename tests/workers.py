"""Runs workers beside a test: in threads of this process, or as processes that may be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tabellion import Environment, Event, Queue, Store, Worker
from tabellion.engine.postgres.database import PostgreSQL
from tests.servers import PORTS
from tests.waiting import eventually

Value = TypeVar("Value")
ROOT = Path(__file__).parents[1]


class EventRecorder:
    """A listener that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        """The names of the events, in order."""
        return [event.name for event in list(self.events)]

    def of(self, *names: str) -> list[Event]:
        """Return the events of these names."""
        return [event for event in list(self.events) if event.name in names]


class Gauge:
    """Counts what runs at the same time."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self, *names: str) -> Iterator[None]:
        """Count one more under each name for the duration of a block."""
        with self._lock:
            for name in names:
                self.now[name] += 1
                self.most[name] = max(self.most[name], self.now[name])
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    self.now[name] -= 1


def make_worker(url: str, *queues: Queue, **options: Any) -> Worker:
    """Return a worker that polls often."""
    return Worker([Environment("prod", url)], queues, **({"poll": 0.05} | options))


def ask(url: str, question: Callable[[Store], Awaitable[Value]], **options: Any) -> Value:
    """Query with a store of its own, on a connection that the next question finds open."""

    async def go() -> Value:
        store = Store(url, **options)
        kept = KEPT.lend(store)
        try:
            async with store:
                answer = await question(store)
                KEPT.take(store, kept)
                return answer
        finally:
            await store.close()

    return KEPT.run(go())


class KeptConnections:
    """A loop in a thread, and an open connection for each PostgreSQL database: connecting takes longer than a question.

    Only servers that tests have started for themselves are kept connected to; a pooler's connections are not.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: dict[str, Any] = {}

    def run(self, question: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine on the loop, whatever runs in this thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="questions", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()

    def lend(self, store: Store) -> bool:
        """Give a store the open connection of its database; return whether one may be kept afterwards."""
        database = store.database
        if not isinstance(database, PostgreSQL) or urlsplit(database.url).port not in PORTS:
            return False
        connection = self._connections.pop(database.url, None)
        if connection is not None and not connection.is_closed():
            database._idle[False].append(connection)
        return True

    def take(self, store: Store, kept: bool) -> None:
        """Keep a connection of a store that has answered."""
        database = store.database
        if kept and isinstance(database, PostgreSQL) and database._idle[False]:
            self._connections[database.url] = database._idle[False].pop()

    def close(self, url: str) -> None:
        """Close the connection of a database that is about to change hands."""
        connection = self._connections.pop(url, None)
        if connection is not None:
            self.run(_close(connection))


async def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):
        await connection.close(timeout=1)


KEPT = KeptConnections()


class RunningWorker:
    """One worker in a thread with its own event loop."""

    def __init__(self, worker: Worker, *, until_idle: bool = False) -> None:
        self.worker = worker
        self.failure: BaseException | None = None
        self._until_idle = until_idle
        self.thread = threading.Thread(target=self._run, name=f"shift of {worker.id}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self.worker.serve(until_idle=self._until_idle))
        except BaseException as error:
            self.failure = error

    @property
    def over(self) -> bool:
        """Whether the worker has ended."""
        return not self.thread.is_alive()

    def end(self, within: float = 20) -> None:
        """Wait until the worker has ended and raise what ended it, if anything did."""
        self.thread.join(within)
        assert self.over, f"{self.worker.id} did not stop within {within} s"
        if self.failure is not None:
            raise self.failure


@contextlib.contextmanager
def working(*workers: Worker) -> Iterator[list[RunningWorker]]:
    """Run these workers for the duration of a block; stop them at its end."""
    shifts = [RunningWorker(worker) for worker in workers]
    try:
        yield shifts
    finally:
        for worker in workers:
            worker.stop()
        for shift in shifts:
            shift.thread.join(2)
        for worker in workers:
            worker.stop()
    for shift in shifts:
        shift.end()


def drain(worker: Worker, within: float = 30) -> None:
    """Work until nothing is left to do."""
    shift = RunningWorker(worker, until_idle=True)
    try:
        shift.end(within)
    finally:
        worker.stop()
        worker.stop()


class WorkerProcess:
    """A worker process of `tests.faults.worker_process`; its log has what its handlers did."""

    def __init__(self, url: str, folder: Path, *, failpoints: str = "", environ: dict[str, str] | None = None,
                 **options: Any) -> None:  # fmt: skip
        number = len(list(folder.glob("laborer-*.log")))
        self.log = folder / f"laborer-{number}.log"
        self.log.touch()
        self._errors = (folder / f"laborer-{number}.err").open("w+b")
        orders = {"url": url, "log": str(self.log), "folder": str(folder / "temp")} | options
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker_process", json.dumps(orders)],
            cwd=ROOT, stderr=self._errors, stdout=self._errors, start_new_session=True,
            env=os.environ | {"TABELLION_FAILPOINTS": failpoints} | (environ or {}),
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def lines(self, what: str | None = None) -> list[dict[str, Any]]:
        """What it logged: handler calls as 'start' and 'end', events by their name."""
        entries = [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]
        return entries if what is None else [entry for entry in entries if entry["what"] == what]

    def started(self, key: int) -> bool:
        """Return whether its handler was called with this job."""
        return any(entry["key"] == str(key) for entry in self.lines("start"))

    def await_start(self, key: int) -> None:
        """Return once its handler works on this job."""
        eventually(lambda: self.started(key) or self._died())

    def await_event(self, name: str) -> None:
        """Return once it has logged this event."""
        eventually(lambda: self.lines(name) or self._died())

    def _died(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the worker ended with {self.process.returncode}:\n{self.errors()}")
        return False

    def errors(self) -> str:
        """Return what it printed."""
        self._errors.seek(0)
        return self._errors.read().decode()

    def wait(self, within: float = 30) -> int:
        """Wait until it has ended and return the exit code; below zero is a signal."""
        return self.process.wait(within)

    def close(self) -> None:
        """End it, whatever its state."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._errors.close()


@contextlib.contextmanager
def worker_process(url: str, folder: Path, **options: Any) -> Iterator[WorkerProcess]:
    """Run a worker process for the duration of a block."""
    child = WorkerProcess(url, folder, **options)
    try:
        yield child
    finally:
        child.close()
