"""What watches the processes of `tabellion worker` and `tabellion up`: metrics, and traces if OTEL_* variables ask."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tabellion.errors import ConfigurationError
from tabellion.monitor.metrics.worker_metrics import WorkerMetrics
from tabellion.monitor.tracing.traces import current_traces, is_configured, open_traces, set_current

if TYPE_CHECKING:
    from tabellion.engine.worker.worker import Worker
    from tabellion.pipeline import Pipeline

logger = logging.getLogger("tabellion.worker")


@contextlib.contextmanager
def process_traces() -> Iterator[None]:
    """Sends the traces of this process for the length of a block; without OTEL_* variables there are none."""
    traces = open_traces() if is_configured(os.environ) else None
    set_current(traces)
    try:
        yield
    finally:
        set_current(None)
        if traces is not None:
            traces.close()


@contextlib.contextmanager
def observe(
    worker: Worker, host: str = "", port: int | None = None, begun: Sequence[str] = (), *, counts: bool = True
) -> Iterator[WorkerMetrics]:
    """Counts the events of a worker, serves the counts if there is a port, and makes spans if the process has traces.

    Without `counts`, spans are all that it makes. A port that cannot be used is logged.
    """
    metrics = WorkerMetrics()
    with contextlib.ExitStack() as stack:
        if counts:
            metrics.start(worker)
            stack.callback(metrics.close)
        if port is not None:
            from tabellion.monitor.metrics.listener import metrics_listener

            try:
                stack.enter_context(metrics_listener(host, port, metrics.samples))
            except ConfigurationError as error:
                # There may be any number of processes on any number of nodes: work does not depend on their ports.
                logger.error("%s. This process works without serving metrics.", error)
        traces = current_traces()
        if traces is not None:
            from tabellion.monitor.tracing.worker_traces import WorkerTraces

            spans = WorkerTraces(traces, worker.queues, begun)
            spans.start(worker)
            stack.callback(spans.close)
        yield metrics


def begun_by_requests(pipelines: Sequence[Pipeline]) -> list[str]:
    """The tables whose rows' traces begin with a request."""
    return [table for pipeline in pipelines for table in pipeline.begun_by_requests]
