"""`tabellion worker --celery`: a node of Celery with the options of `tabellion worker`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from tabellion.cli.load import broker_of
from tabellion.engine.log import log_to_stderr
from tabellion.extras import require

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment


def check(config: Config, *, id: str | None = None, until_idle: bool = False) -> None:  # noqa: A002 - the option
    """Refuses what a node cannot do, before anything starts."""
    require("celery")
    broker_of(config)
    if id is not None:
        raise typer.BadParameter("the processes of Celery come and go: use --name", param_hint="--id")
    if until_idle:
        raise typer.BadParameter("a node of Celery does not see the whole fleet: omit it", param_hint="--until-idle")


def run(
    context: typer.Context, config: Config, *, environments: Sequence[Environment], skipped: Sequence[Environment],
    only: Sequence[str] | None, processes: int | None, concurrency: int | None, name: str | None, grace: float,
    metrics_port: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Runs the node until it is stopped. Its processes and its reconciler read the options from variables."""
    options = context.obj
    variables = {
        "TABELLION_CONFIG": options["config"] and str(options["config"].absolute()),
        "TABELLION_QUEUES": options["queues"],
        "TABELLION_PIPELINES": ",".join(options["with"]),
        "TABELLION_DATA": options["data"] and str(options["data"].expanduser().absolute()),
        "TABELLION_CONCURRENCY": concurrency and str(concurrency),
        "TABELLION_PROCESSES": processes and str(processes),
        "TABELLION_WORKER_NAME": name,
        "TABELLION_GRACE": str(grace),
        "TABELLION_METRICS_PORT": None if metrics_port is None else str(metrics_port),
        "TABELLION_LOG_JSON": str(as_json).lower(),
        "TABELLION_CELERY_ONLY": ",".join(only or ()),
        "TABELLION_CELERY_ENVIRONMENTS": ",".join(place.name for place in environments),
        "TABELLION_CELERY_SKIPPED": ",".join(place.name for place in skipped),
    }
    from celery import signals

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until Celery handles it: nothing has been claimed
    os.environ.update({variable: value for variable, value in variables.items() if value})
    from tabellion.celery import app

    # Celery's own lines in the form of ours; every hint would add two of them.
    log_to_stderr(config.log_level, as_json=as_json, name="celery")
    if config.log_level == "info":
        for chatty in ("celery.worker.strategy", "celery.app.trace"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
    signals.setup_logging.connect(lambda **_: None, weak=False)
    stopped_by_signal = False
    code: int | str | None = None

    def on_signal(**_: object) -> None:
        nonlocal stopped_by_signal
        stopped_by_signal = True

    def on_end(sender: Any, **_: object) -> None:
        nonlocal code
        code = sender.exitcode

    signals.worker_shutting_down.connect(on_signal, weak=False)
    signals.worker_shutdown.connect(on_end, weak=False)
    banner = [] if sys.stdout.isatty() and not as_json else ["--quiet"]
    # Nodes need not know each other: each of them sees the same rows.
    own = ["--hostname", f"tabellion-{os.getpid()}@%h", "--without-mingle", "--without-gossip"]
    app.worker_main([*banner, "worker", *own])
    # Celery's code after Ctrl-C would be 1, and after a remote shutdown it is a text.
    if stopped_by_signal or isinstance(code, str):
        sys.exit(0)
    sys.exit(1 if code is None else code)
