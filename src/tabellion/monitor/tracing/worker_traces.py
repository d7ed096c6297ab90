"""Traces of one worker: each attempt with its claim, its handler, its calls of models, and the write of its outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from tabellion.engine.events import Event
from tabellion.engine.queue import Queue
from tabellion.models.observers import ModelCall, add_observer, remove_observer
from tabellion.monitor.metrics.worker_metrics import OUTCOMES
from tabellion.monitor.tracing.subject import Subject
from tabellion.monitor.tracing.traces import Attributes, Traces

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from tabellion.engine.worker.worker import Worker

GOOD = ("done", "released", "limited", "cancelled", "superseded")  #: outcomes that are not errors
MOST = 10_000  #: attempts under way that are remembered


class _Attempt:
    """An attempt under way: its span, and the id that the span of its handler will have."""

    __slots__ = ("handler_id", "span", "subject")

    def __init__(self, subject: Subject, span: Span, handler_id: int) -> None:
        self.subject, self.span, self.handler_id = subject, span, handler_id

    @property
    def id(self) -> int:
        """The id of its span."""
        return self.span.get_span_context().span_id


class WorkerTraces:
    """A listener that makes spans of events. Error texts are left out, because they may quote a document."""

    def __init__(self, traces: Traces, queues: Iterable[Queue], begun: Collection[str] = ()) -> None:
        self._traces, self._begun = traces, frozenset(begun)
        self._tables = {queue.name: queue.table for queue in queues}
        self._attempts: dict[tuple[str, str, str], _Attempt] = {}
        self._changing = threading.Lock()  #: handlers call models in several threads

    def start(self, worker: Worker) -> None:
        """Adds itself to a worker and to the observers of models."""
        worker.listeners.add(self)
        add_observer(self.on_call)

    def close(self) -> None:
        """Stops observing models."""
        remove_observer(self.on_call)

    def wants(self, name: str, queue: str) -> bool:
        """Only what happens to jobs is part of a trace."""
        return name == "claimed" or name in OUTCOMES

    def __call__(self, event: Event) -> None:
        """Starts the span of an attempt, or ends it."""
        if event.queue in self._tables:
            if event.name == "claimed":
                self._begin(event)
            elif event.name in OUTCOMES:
                self._end(event)

    def _begin(self, event: Event) -> None:
        began_at = event.at - (event.seconds or 0.0)
        attempt = self._open(event, began_at)
        with self._changing:
            self._attempts[event.environment, event.queue, event.key] = attempt
            while len(self._attempts) > MOST:
                del self._attempts[next(iter(self._attempts))]
        self._traces.record(attempt.subject, "claim", began_at, event.at, parent=attempt.id)

    def _open(self, event: Event, at: float) -> _Attempt:
        subject = Subject(event.environment, self._tables[event.queue], event.key)
        parent = subject.root_id if subject.table in self._begun else None
        facts: Attributes = {
            "tabellion.queue": event.queue, "tabellion.attempt": event.attempt, "tabellion.worker": event.worker,
        }  # fmt: skip
        span = self._traces.start(
            subject, f"process {event.queue}", at, parent=parent, kind="consumer", attributes=facts
        )
        return _Attempt(subject, span, self._traces.new_id())

    def _end(self, event: Event) -> None:
        with self._changing:
            attempt = self._attempts.pop((event.environment, event.queue, event.key), None)
        ran, is_error = event.seconds or 0.0, event.name not in GOOD
        if attempt is None:  # another worker has claimed it, and died
            attempt = self._open(event, event.at - ran)
        elif ran:
            ended_at = event.at - (event.settle_seconds or 0.0)
            self._traces.record(
                attempt.subject, "handler", ended_at - ran, ended_at, parent=attempt.id, id=attempt.handler_id,
                is_error=is_error,
            )  # fmt: skip
            if event.settle_seconds is not None:
                self._traces.record(attempt.subject, "settle", ended_at, event.at, parent=attempt.id)
        attempt.span.set_attribute("tabellion.outcome", event.name)
        if event.cost is not None:
            attempt.span.set_attribute("tabellion.cost_dollars", event.cost)
        self._traces.end(attempt.span, event.at, is_error=is_error)

    def on_call(self, call: ModelCall) -> None:
        """Records a call of a model by a job; called in the thread of its caller."""
        if call.job is None:
            return
        with self._changing:
            attempt = self._attempts.get((call.job.environment, call.job.queue.name, call.job.text_key))
        if attempt is None:
            return
        ended_at = time.time()
        facts: Attributes = {
            "gen_ai.request.model": call.version, "gen_ai.usage.input_tokens": call.usage.input,
            "gen_ai.usage.output_tokens": call.usage.output, "tabellion.gate": call.gate,
            "tabellion.gate_wait_seconds": call.waited, "tabellion.outcome": call.outcome,
            "tabellion.cost_dollars": call.cost or 0.0,
        }  # fmt: skip
        self._traces.record(
            attempt.subject, f"call {call.model}", ended_at - call.seconds, ended_at, parent=attempt.handler_id,
            kind="client", attributes=facts, is_error=call.outcome not in ("ok", "memo"),
        )  # fmt: skip
