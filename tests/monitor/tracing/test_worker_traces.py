"""The spans of a worker: each attempt with its claim, handler, calls and settlement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tabellion import Job, Queue
from tabellion.engine.events import Event
from tabellion.engine.job import current_job
from tabellion.models.base import Usage
from tabellion.models.observers import ModelCall, report_call
from tabellion.monitor.tracing.subject import Subject
from tabellion.monitor.tracing.traces import Traces, open_traces
from tabellion.monitor.tracing.worker_traces import WorkerTraces
from tests.table_owner import Owner, jobs_queue
from tests.workers import drain, make_worker


class Recorded:
    """Traces whose spans are kept."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        traces = open_traces({}, exporter=self.exporter)
        assert traces is not None
        self.traces: Traces = traces

    def spans(self) -> list[ReadableSpan]:
        """Everything recorded so far, by start."""
        self.traces._provider.force_flush()
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    """Traces that are closed at the end."""
    one = Recorded()
    yield one
    one.traces.close()


def work(owner: Owner, queue: Queue, recorded: Recorded, **options: Any) -> dict[str, list[ReadableSpan]]:
    """Drain the queue; return its spans by name."""
    worker = make_worker(owner.url, queue)
    listener = WorkerTraces(recorded.traces, [queue], **options)
    listener.start(worker)
    try:
        drain(worker)
    finally:
        listener.close()
    found: dict[str, list[ReadableSpan]] = {}
    for span in recorded.spans():
        found.setdefault(span.name, []).append(span)
    return found


def test_an_attempt_is_a_tree(owner: Owner, recorded: Recorded) -> None:
    """Claim, handler and settle are below the attempt, the call of a model below the handler, in order of time."""
    queue = jobs_queue()

    @queue.handler
    async def handle(job: Job) -> None:
        job.cost = 0.25
        report_call(ModelCall("gemini", "g-2", "gate", "ok", 0.001, 0.5, Usage(10, 2), 0.25, current_job.get()))

    owner.insert(1)
    found = work(owner, queue, recorded)
    assert {name: len(spans) for name, spans in found.items()} == {
        f"process {queue.name}": 1, "claim": 1, "handler": 1, "settle": 1, "call gemini": 1,
    }  # fmt: skip
    [attempt], [claim], [handler], [settle], [call] = (
        found[name] for name in (f"process {queue.name}", "claim", "handler", "settle", "call gemini")
    )
    assert {span.context.trace_id for spans in found.values() for span in spans} == {
        Subject("prod", "jobs", "1").trace_id
    }
    assert attempt.parent is None, "nobody saw how the row was made"
    for part in (claim, handler, settle):
        assert part.parent is not None
        assert part.parent.span_id == attempt.context.span_id
    assert call.parent is not None
    assert call.parent.span_id == handler.context.span_id
    times = [claim.start_time, claim.end_time, handler.start_time, handler.end_time, settle.end_time, attempt.end_time]
    assert all((one or 0) <= (other or 0) + 5_000_000 for one, other in itertools.pairwise(times))
    facts = attempt.attributes or {}
    assert (facts["tabellion.outcome"], facts["tabellion.cost_dollars"], facts["tabellion.attempt"]) == (
        "done",
        0.25,
        1,
    )
    assert (call.attributes or {})["gen_ai.usage.input_tokens"] == 10


def test_retries_are_attempts_of_one_trace(owner: Owner, recorded: Recorded) -> None:
    """Below the request that made the row, where there was one; the text of an error is not sent."""
    queue = jobs_queue(max_attempts=2)

    @queue.handler
    async def handle(job: Job) -> None:
        raise ValueError("the secret text of a document")

    owner.insert(7)
    found = work(owner, queue, recorded, begun=["jobs"])
    attempts = found[f"process {queue.name}"]
    assert [(span.attributes or {})["tabellion.outcome"] for span in attempts] == ["retried", "failed"]
    subject = Subject("prod", "jobs", "7")
    assert {span.parent.span_id for span in attempts if span.parent} == {subject.root_id}
    assert {span.status.status_code for span in attempts} == {StatusCode.ERROR}
    assert not [span for spans in found.values() for span in spans if "secret" in span.to_json()]


def test_a_crash_is_recorded_by_whoever_finds_it(recorded: Recorded) -> None:
    """The dead worker has sent nothing: the span begins with its claim."""
    queue = jobs_queue()
    listener = WorkerTraces(recorded.traces, [queue])
    listener(Event("crashed", environment="prod", queue=queue.name, key="1", attempt=1, seconds=30.0, at=1000.0))
    [span] = recorded.spans()
    assert (span.start_time, span.end_time) == (970 * 10**9, 1000 * 10**9)
    assert (span.attributes or {})["tabellion.outcome"] == "crashed"


def test_other_events_make_no_span(recorded: Recorded) -> None:
    """A job's events only, and only of queues of this worker."""
    listener = WorkerTraces(recorded.traces, [jobs_queue()])
    for name in ("worker_started", "gate_closed", "timed_out"):
        assert not listener.wants(name, "jobs")
        listener(Event(name, environment="prod", queue="jobs"))
    listener(Event("done", environment="prod", queue="another", key="1"))
    report_call(ModelCall("gemini", "g-2", "gate", "ok"))
    assert recorded.spans() == []
