"""The processes of `tabellion up`: API, workers and background tasks, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tabellion.cli import adminkey, datafolder, service
from tabellion.cli.queue_module import declared_queues
from tabellion.config import Config
from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.environment import Environment
from tabellion.engine.log import log_to_stderr
from tabellion.engine.store import Store
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.worker import Worker, complete_future
from tabellion.engine.worker_rows import read_workers
from tabellion.errors import Busy, ConfigurationError, TabellionError, Unreachable
from tabellion.monitor.view import QueueView
from tabellion.net.guard import Rules
from tabellion.pipeline import Background, Pipeline, gates_of

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tabellion.accounts.sessions import Ticket
    from tabellion.web.environment import ServedEnvironment

FORCED = 130  #: the exit code after a second Ctrl-C
GOODBYE = 15.0  #: seconds beyond the grace time before worker processes are killed
LOOK = 0.3  #: seconds between two checks whether everything is done


class Installation:
    """The API, its workers and background tasks, which run and stop together."""

    def __init__(
        self, config: Config, place: Environment, pipelines: Sequence[Pipeline], *, host: str, port: int,
        workers: int = 1, demo: bool = False, until_done: bool = False, as_json: bool = False,
        file: Path | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.config, self.place, self.pipelines = config, place, list(pipelines)
        self.host, self.port, self.workers = host, port, workers
        self.demo, self.until_done, self.options = demo, until_done, options
        self._json, self._file = as_json, file
        self._stop_count = 0  #: how often it was asked to stop
        self._stopping = asyncio.Event()
        self._app: FastAPI | None = None
        self._crew: Crew | None = None

    async def run(self) -> int:
        """Runs until it is stopped; returns the exit code."""
        from tabellion.web.app import make_app, serve_environment
        from tabellion.web.server import listening

        for pipeline in self.pipelines:
            pipeline.check(self.config)
        own_views = self.own_queues()
        if self.demo and not self._with_demo():
            raise ConfigurationError("none of the selected pipelines has a demo: omit --demo")
        listening(self.host, self.port).close()  # report a port in use before anything is created
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        with datafolder.lock_folder(self.config.data) as self._note:
            store = self.place.store()
            try:
                await service.prepare(store, self.pipelines)
                await _bury(store)
                key_file, key = await adminkey.ensure(store, self.place.name, self.config.data)
                environment = serve_environment(self.config, self.pipelines, self.place.name, store, own=own_views)
                self._app = make_app(self.config, [environment], self.pipelines)
                if not self._stop_count:
                    await self._together(environment, key_file, key, await adminkey.link(store, self.place.name))
            finally:
                for pipeline in self.pipelines:
                    pipeline.close()
                await store.close()
        self._say("stopped", "stopped" if self._stop_count < 2 else "stopped immediately; running jobs were released")
        return FORCED if self._stop_count > 1 else 0

    def stop(self) -> None:
        """Stops gracefully; a second call stops at once."""
        self._stop_count += 1
        if self._stop_count == 1:
            self._say("stopping", "stopping after running requests and jobs; press Ctrl-C again to stop now")
        self._stopping.set()
        self._pass_on()
        if self._crew is not None:
            self._crew.stop()

    def _pass_on(self) -> None:
        server = getattr(self._app.state, "server", None) if self._app is not None else None
        if server is not None:
            server.stop()
            server.force_exit = self._stop_count > 1

    def _with_demo(self) -> list[Pipeline]:
        """The pipelines that have a demo."""
        return [pipeline for pipeline in self.pipelines if type(pipeline).demo is not Pipeline.demo]

    def own_queues(self) -> list[QueueView]:
        """The queues of the user's own module, which are shown but not worked here."""
        module = self.config.queues
        return [QueueView(queue) for queue in declared_queues(module)] if module is not None else []

    async def _together(
        self, environment: ServedEnvironment, key_file: Path, key: str | None, link: Ticket | None
    ) -> None:
        """Runs everything concurrently; the first error stops the rest, and is raised when all have ended."""
        from tabellion.web.server import serve

        assert self._app is not None  # noqa: S101 - set by run()
        started = asyncio.Event()

        def on_started(address: str) -> None:
            self._note(address)
            self._greet(address, key_file, key, link)
            started.set()

        self._crew = self._workers()
        runs = {
            pipeline.name: Background(
                self.config, self.place, environment.store, environment.served.get(pipeline.name), self._stopping,
                self.options, self._say,
            )
            for pipeline in self.pipelines
        }  # fmt: skip
        coroutines = [
            serve(self._app, self.host, self.port, started=on_started, signals=False),
            self._crew.run(),
            *(pipeline.background(runs[pipeline.name]) for pipeline in self.pipelines),
            self._run_demo_and_drain(runs, started),
        ]
        tasks = [asyncio.create_task(work) for work in coroutines]
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        await self._stopping.wait()
        tasks[-1].cancel()
        while not tasks[0].done():
            self._pass_on()  # the server may not have existed yet when the signal arrived
            await asyncio.wait({tasks[0]}, timeout=LOOK)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._stop_count:
            self.stop()

    def _workers(self) -> Crew:
        if self.workers > 1:
            names = [pipeline.name for pipeline in self.pipelines]
            return Processes(self.workers, self._file, self.place.name, self.config.grace, names)
        self._set_up_log()
        if self.workers == 0:
            return Thread(None)
        queues = [queue for pipeline in self.pipelines for queue in pipeline.queues(self.config, self.place)]
        return Thread(
            Worker(
                [self.place], [*queues, webhooks_queue(Rules.of(self.config.allow))],
                concurrency=self.config.concurrency, grace=self.config.grace, poll=self.config.poll,
                name=self.config.worker_name,
                gates=gates_of(self.config, self.pipelines), gates_at=self.config.gates_at,
            )
        )  # fmt: skip

    def _set_up_log(self) -> None:
        level = self.config.log_level
        log_to_stderr(level, as_json=self._json or self.config.log_json)
        if level == "info" and self.demo:
            logging.getLogger("tabellion.web").setLevel(logging.WARNING)  # it logs every request
            logging.getLogger("tabellion.worker").setLevel(logging.WARNING)
            logging.getLogger("tabellion.queue").setLevel(logging.CRITICAL)  # some samples fail on purpose

    async def _run_demo_and_drain(self, runs: Mapping[str, Background], started: asyncio.Event) -> None:
        """Runs the demo if requested; with `until_done`, stops when nothing is left to do."""
        await started.wait()
        if self.demo:
            live = not self._json and sys.stdout.isatty()
            shown = self._with_demo()
            for pipeline in shown:
                text, facts = await pipeline.demo(runs[pipeline.name], live=live)
                # One after the other: a pipeline shows what it does with the results of those before it.
                self._say("demo", text if len(shown) == 1 else f"\n{pipeline.title}\n{text}", **facts)
        while self.until_done and not self._stopping.is_set():
            # A database that is unreachable for a moment is checked again.
            with contextlib.suppress(Unreachable, Busy):
                if all([await pipeline.is_idle(runs[pipeline.name]) for pipeline in self.pipelines]):
                    self.stop()
                    return
            await asyncio.sleep(LOOK)

    def _greet(self, address: str, key_file: Path, key: str | None, link: Ticket | None) -> None:
        from tabellion.accounts import links

        data, database = str(self.config.data.absolute()), self.place.address
        facts = {"url": address, "data": data, "database": database, "key_file": str(key_file.absolute())}
        lines = [f"tabellion is up: {address}   (the API: {address}/docs)", f"data: {data}   database: {database}"]
        if link is not None:
            facts["sign_in"] = links.address(self.config.public_url or address, link)
            lines.append(f"sign in (once, within 15 minutes): {facts['sign_in']}")
        if key is not None:
            facts["key"] = key
            lines.append(f"admin key (shown once): {key}")
        lines.append(f"admin key file: {key_file}   press Ctrl-C to stop")
        self._say("started", "\n".join(lines), **facts)

    def _say(self, event: str, sentence: str, **facts: Any) -> None:
        try:
            typer.echo(json.dumps({"event": event, **facts}, ensure_ascii=False) if self._json else sentence)
            sys.stdout.flush()
        except OSError:
            # The reader of our output has gone. The service continues, and must not fail when it prints again.
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Crew:
    """The workers of the queues."""

    async def run(self) -> None:
        """Runs until stopped."""

    def stop(self) -> None:
        """Stops gracefully; a second call stops at once."""


class Thread(Crew):
    """A worker in a thread with its own event loop, so that its handlers do not delay the API."""

    def __init__(self, worker: Worker | None) -> None:
        self._worker = worker
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Runs until stopped; without a worker it only waits."""
        worker = self._worker
        if worker is None:
            await self._stopped.wait()
            return
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            failure: BaseException | None = None
            try:
                asyncio.run(worker.serve())
            except BaseException as error:
                failure = error
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(complete_future, ended, failure)

        threading.Thread(target=work, name="tabellion worker", daemon=True).start()
        await ended

    def stop(self) -> None:
        """Stops the worker."""
        self._stopped.set()
        if self._worker is not None:
            self._worker.stop()


class Processes(Crew):
    """Worker processes, kept alive by `tabellion worker`."""

    def __init__(self, count: int, file: Path | None, environment: str, grace: float, pipelines: Sequence[str]) -> None:
        self._grace = grace
        self._stop_count = 0
        self._process: subprocess.Popen[bytes] | None = None
        options = ["--config", str(file)] if file is not None else []
        self._command = [
            sys.executable, "-m", "tabellion", *options, *(f"--with={name}" for name in pipelines), "worker",
            "--processes", str(count), "--environment", environment,
        ]  # fmt: skip

    async def run(self) -> None:
        """Runs until stopped; raises if the workers end by themselves."""
        # Its own session: Ctrl-C in the terminal reaches only this process, which passes it on once.
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            self._command, start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent
        )
        if self._stop_count:
            self._process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self._process.wait)
        if not self._stop_count:
            raise TabellionError(f"the workers ended with exit code {code}: their messages above say why")

    def stop(self) -> None:
        """Sends SIGTERM to the workers; kills them if they do not end in time."""
        self._stop_count += 1
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            if self._stop_count == 1:
                asyncio.get_running_loop().call_later(self._grace + GOODBYE, process.kill)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


async def _bury(store: Store) -> None:
    """Ends the leases of killed workers of this machine, so that their jobs do not wait for the expiry."""
    for worker in await read_workers(store.database, alive=False):
        if worker["ending"] is None and worker["host"] == socket.gethostname() and heartbeat.is_gone(worker["pid"]):
            await heartbeat.leave(store, worker["id"], "was killed", crashed=True)
