"""The processes of `tabellion up`: API, workers and background tasks, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tabellion.cli import datafolder
from tabellion.cli.observing import begun_by_requests, observe, process_traces
from tabellion.cli.queue_module import declared_queues
from tabellion.cli.up_environments import StartedEnvironment, start_environments
from tabellion.cli.up_workers import Thread, UpWorkers, WorkerProcesses
from tabellion.config import Config
from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.environment import Environment
from tabellion.engine.log import log_to_stderr
from tabellion.engine.store import Store
from tabellion.engine.worker.worker import Worker
from tabellion.errors import Busy, ConfigurationError, Unreachable
from tabellion.installed_pipelines import gates_of
from tabellion.monitor.view import QueueView
from tabellion.net.guard import Rules
from tabellion.pipeline import Background, Pipeline
from tabellion.retention import rules_of
from tabellion.sla import tasks_of

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tabellion.web.environment import ServedEnvironment

FORCED = 130  #: the exit code after a second Ctrl-C
LOOK = 0.3  #: seconds between two checks whether everything is done


class Installation:
    """The API, its workers and background tasks, which run and stop together."""

    def __init__(
        self, config: Config, places: Sequence[Environment], pipelines: Sequence[Pipeline], *, host: str, port: int,
        workers: int | None = 1, celery: bool = False, demo: bool = False, until_done: bool = False,
        as_json: bool = False, with_admin: bool = True, file: Path | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.config, self.places, self.pipelines = config, list(places), list(pipelines)
        self.host, self.port, self.workers, self.celery = host, port, workers, celery
        self.demo, self.until_done, self.options = demo, until_done, options
        self._json, self._file, self._with_admin = as_json, file, with_admin
        self._stop_count = 0  #: how often it was asked to stop
        self._stopping = asyncio.Event()
        self._app: FastAPI | None = None
        self._workers: UpWorkers | None = None
        self._observing = contextlib.ExitStack()

    async def run(self) -> int:
        """Runs until it is stopped; returns the exit code."""
        with self._observing, process_traces():
            return await self._run()

    async def _run(self) -> int:
        from tabellion.reading.default_sandbox import close_default_sandbox
        from tabellion.web.app import make_app, serve_environment
        from tabellion.web.server import listening

        for pipeline in self.pipelines:
            pipeline.check(self.config)
        own_views = self.own_queues()
        self._declared = [view.queue for view in own_views]
        if self.demo and not self._with_demo():
            raise ConfigurationError("none of the selected pipelines has a demo: omit --demo")
        listening(self.host, self.port).close()  # report a port in use before anything is created
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        with datafolder.lock_folder(self.config.data) as self._note:
            stores: list[Store] = []
            try:
                started = await start_environments(
                    self.config, self.places, self.pipelines, stores, with_admin=self._with_admin
                )
                served = [
                    serve_environment(self.config, self.pipelines, one.place.name, one.store, own=own_views)
                    for one in started
                ]
                self._app = make_app(self.config, served, self.pipelines)
                if not self._stop_count:
                    await self._together(started, served)
            finally:
                for pipeline in self.pipelines:
                    pipeline.close()
                close_default_sandbox()  # nobody waits for readings any more
                for store in stores:
                    await store.close()
        self._print_event(
            "stopped", "stopped" if self._stop_count < 2 else "stopped immediately; running jobs were released"
        )
        return FORCED if self._stop_count > 1 else 0

    def stop(self) -> None:
        """Stops gracefully; a second call stops at once."""
        self._stop_count += 1
        if self._stop_count == 1:
            self._print_event("stopping", "stopping after running requests and jobs; press Ctrl-C again to stop now")
        self._stopping.set()
        self._pass_on()
        if self._workers is not None:
            self._workers.stop()

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

    async def _together(self, started: Sequence[StartedEnvironment], served: Sequence[ServedEnvironment]) -> None:
        """Runs everything concurrently; the first error stops the rest, and is raised when all have ended."""
        from tabellion.web.server import serve

        assert self._app is not None  # noqa: S101 - set by run()
        listens = asyncio.Event()

        def on_started(address: str) -> None:
            self._note(address)
            self._greet(address, started)
            listens.set()

        self._workers = self._create_workers()
        # Options, such as a watched folder, are for the first environment.
        runs = [
            (pipeline, Background(self.config, place, environment.store, environment.served.get(pipeline.name),
                                  self._stopping, {} if number else self.options, self._print_event))
            for number, (place, environment) in enumerate(zip(self.places, served, strict=True))
            for pipeline in self.pipelines
        ]  # fmt: skip
        coroutines = [
            serve(self._app, self.host, self.port, started=on_started, signals=False),
            self._workers.run(),
            *(pipeline.background(run) for pipeline, run in runs),
            self._run_demo_and_drain(runs, listens),
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

    def _create_workers(self) -> UpWorkers:
        if self.celery or (self.workers or 0) > 1:
            names = [pipeline.name for pipeline in self.pipelines]
            places = [place.name for place in self.places]
            return WorkerProcesses(self.workers, self._file, places, self.config.grace, names, celery=self.celery)
        self._set_up_log()
        if self.workers == 0:
            return Thread(None)
        only = self.places[0] if len(self.places) == 1 else None
        queues = [queue for pipeline in self.pipelines for queue in pipeline.queues(self.config, only)]
        webhooks = webhooks_queue(Rules.of(self.config.allow))
        worker = Worker(
            self.places, [*queues, webhooks],
            concurrency=self.config.concurrency, grace=self.config.grace, poll=self.config.poll,
            name=self.config.worker_name,
            gates=gates_of(self.config, self.pipelines), gates_at=self.config.gates_at,
            retention=lambda place: rules_of(self.config, self.pipelines, [webhooks], place),
            tasks=lambda place: tasks_of(self.config, self.pipelines, [webhooks, *self._declared], place),
        )  # fmt: skip
        assert self._app is not None  # noqa: S101 - set by run()
        metrics = self._observing.enter_context(observe(worker, begun=begun_by_requests(self.pipelines)))
        self._app.state.process_samples = metrics.samples
        return Thread(worker)

    def _set_up_log(self) -> None:
        level = self.config.log_level
        log_to_stderr(level, as_json=self._json or self.config.log_json)
        if level == "info" and self.demo:
            logging.getLogger("tabellion.web").setLevel(logging.WARNING)  # it logs every request
            logging.getLogger("tabellion.worker").setLevel(logging.WARNING)
            logging.getLogger("tabellion.queue").setLevel(logging.CRITICAL)  # some samples fail on purpose

    async def _run_demo_and_drain(self, runs: Sequence[tuple[Pipeline, Background]], listens: asyncio.Event) -> None:
        """Runs the demo if requested, in the first environment; with `until_done`, stops when nothing is left to do."""
        await listens.wait()
        if self.demo:
            live = not self._json and sys.stdout.isatty()
            shown = self._with_demo()
            first = dict(reversed(runs))
            for pipeline in shown:
                text, facts = await pipeline.demo(first[pipeline], live=live)
                # One after the other: a pipeline shows what it does with the results of those before it.
                self._print_event("demo", text if len(shown) == 1 else f"\n{pipeline.title}\n{text}", **facts)
        while self.until_done and not self._stopping.is_set():
            # A database that is unreachable for a moment is checked again.
            with contextlib.suppress(Unreachable, Busy):
                if all([await pipeline.is_idle(run) for pipeline, run in runs]):
                    self.stop()
                    return
            await asyncio.sleep(LOOK)

    def _greet(self, address: str, started: Sequence[StartedEnvironment]) -> None:
        data = str(self.config.data.absolute())
        environments = [one.facts(self.config.public_url or address) for one in started]
        lines = [f"tabellion is up: {address}   (the API: {address}/docs)"]
        for facts in environments:
            before = f"environment {facts['name']}: " if len(environments) > 1 else f"data: {data}   "
            lines.append(f"{before}database: {facts['database']}")
            if "sign_in" in facts:
                lines.append(f"sign in (once, within 15 minutes): {facts['sign_in']}")
            if "key" in facts:
                lines.append(f"admin key (shown once): {facts['key']}")
            if "problem" in facts:
                lines.append(f"it is served once its database answers: {facts['problem']}")
            elif "key_file" in facts:
                lines.append(f"admin key file: {facts['key_file']}")
        if len(environments) > 1:
            lines.append(f"data: {data}")
        lines[-1] += "   press Ctrl-C to stop"
        first = {name: value for name, value in environments[0].items() if name != "name"}
        self._print_event("started", "\n".join(lines), url=address, data=data, **first, environments=environments)

    def _print_event(self, event: str, sentence: str, **facts: Any) -> None:
        try:
            typer.echo(json.dumps({"event": event, **facts}, ensure_ascii=False) if self._json else sentence)
            sys.stdout.flush()
        except OSError:
            # The reader of our output has gone. The service continues, and must not fail when it prints again.
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
