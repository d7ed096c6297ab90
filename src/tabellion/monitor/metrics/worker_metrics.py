"""Metrics of one worker process, counted from its events and its calls to models."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, get_args

from tabellion.engine.events import NAMES, Event
from tabellion.engine.settlement import Outcome
from tabellion.models.observers import ModelCall, add_observer, remove_observer
from tabellion.monitor.metrics.metric import Distribution, Labels, Metric, Sample

if TYPE_CHECKING:
    from tabellion.engine.worker.worker import Worker

#: How a claim can end; after the last one the worker no longer held it.
OUTCOMES: tuple[str, ...] = (*get_args(Outcome), "lease_lost")
#: Endings of claims whose handler ran elsewhere, or did not run at all.
ELSEWHERE = ("crashed", "quarantined")
TOKENS = ("input", "output", "thoughts", "cached")

QUEUE = ("environment", "queue")
CLAIMS = Metric("tabellion_claims_total", "counter", "Jobs that this worker has claimed.", QUEUE)
JOBS = Metric("tabellion_jobs_total", "counter", "Claims that have ended, by outcome.", (*QUEUE, "outcome"))
HANDLER_SECONDS = Metric("tabellion_handler_seconds", "histogram", "How long handlers ran.", QUEUE)
SETTLE_SECONDS = Metric(
    "tabellion_settle_seconds", "histogram", "Time from a handler's end until its outcome was written.",
    ("environment",),
)  # fmt: skip
CLAIM_SECONDS = Metric(
    "tabellion_claim_seconds", "histogram", "How long claims took; each takes as many jobs as fit.",
    ("environment",),
)  # fmt: skip
COST = Metric("tabellion_job_cost_dollars_total", "counter", "What attempts have cost.", QUEUE)
EVENTS = Metric(
    "tabellion_events_total", "counter", "Events that are not the claim or the end of a job.", ("environment", "event")
)
SLOTS = Metric("tabellion_worker_slots", "gauge", "Slots of this worker.", ("state",))
ENVIRONMENT_UP = Metric(
    "tabellion_worker_environment_up", "gauge", "Whether this worker reaches the database.", ("environment",)
)
BROKER_UP = Metric(
    "tabellion_broker_up", "gauge", "Whether Celery's broker can be reached; only of the process that sends hints."
)
CALLS = Metric("tabellion_model_calls_total", "counter", "Calls of models, by outcome.", ("model", "outcome"))
CALL_SECONDS = Metric("tabellion_model_seconds", "histogram", "How long calls of models took.", ("model",))
CALL_TOKENS = Metric("tabellion_model_tokens_total", "counter", "Tokens of calls of models.", ("model", "kind"))
CALL_COST = Metric("tabellion_model_cost_dollars_total", "counter", "What calls of models have cost.", ("model",))
MEMOS = Metric("tabellion_model_memo_hits_total", "counter", "Answers from memos, instead of calls.", ("model",))
GATE_WAIT = Metric("tabellion_gate_wait_seconds", "histogram", "How long calls waited for their gate.", ("gate",))
INFO = Metric("tabellion_worker_info", "gauge", "1, with the version of this worker.", ("version",))

METRICS = (
    CLAIMS, JOBS, HANDLER_SECONDS, SETTLE_SECONDS, CLAIM_SECONDS, COST, EVENTS, SLOTS, ENVIRONMENT_UP, BROKER_UP,
    CALLS, CALL_SECONDS, CALL_TOKENS, CALL_COST, MEMOS, GATE_WAIT, INFO,
)  # fmt: skip

_JOB_EVENTS = frozenset((*OUTCOMES, "claimed"))


class WorkerMetrics:
    """A listener that counts. The engine's thread is the only one that adds to what events count."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._claims: dict[Labels, int] = defaultdict(int)
        self._jobs: dict[Labels, int] = defaultdict(int)
        self._costs: dict[Labels, float] = defaultdict(float)
        self._events: dict[Labels, int] = defaultdict(int)
        self._up: dict[str, bool] = {}
        self._handler_seconds: dict[Labels, Distribution] = defaultdict(Distribution)
        self._settle_seconds: dict[Labels, Distribution] = defaultdict(Distribution)
        self._claim_seconds: dict[Labels, Distribution] = defaultdict(Distribution)
        self._calling = threading.Lock()  #: handlers call models from several threads
        self._calls: dict[Labels, int] = defaultdict(int)
        self._call_costs: dict[Labels, float] = defaultdict(float)
        self._tokens: dict[Labels, int] = defaultdict(int)
        self._memos: dict[Labels, int] = defaultdict(int)
        self._call_seconds: dict[Labels, Distribution] = defaultdict(Distribution)
        self._waits: dict[Labels, Distribution] = defaultdict(Distribution)

    def start(self, worker: Worker) -> None:
        """Adds itself to a worker and to the observers of models; its queues have series from now on."""
        self._worker = worker
        for environment in worker.environments:
            for queue in worker.queues:
                self._claims[environment.name, queue.name] += 0
                self._handler_seconds[environment.name, queue.name]
                self._costs[environment.name, queue.name] += 0
                for outcome in OUTCOMES:
                    self._jobs[environment.name, queue.name, outcome] += 0
        worker.listeners.add(self)
        add_observer(self.count_call)

    def close(self) -> None:
        """Stops observing models."""
        remove_observer(self.count_call)

    def wants(self, name: str, queue: str) -> bool:
        """No event has to be created for a job: those are counted."""
        return name not in _JOB_EVENTS

    def __call__(self, event: Event) -> None:
        """Counts an event that is not about a claim or an end of a job."""
        name = event.name
        if name in _JOB_EVENTS:
            return
        self._events[event.environment, name if name in NAMES else "other"] += 1
        if name in ("environment_up", "environment_down"):
            self._up[event.environment] = name == "environment_up"

    def count_claimed(self, environment: str, queue: str, count: int, seconds: float) -> None:
        """Counts jobs that were claimed together."""
        self._claims[environment, queue] += count
        self._claim_seconds[(environment,)].observe(seconds)

    def count_ended(
        self, environment: str, queue: str, outcome: str, seconds: float | None, settle_seconds: float | None,
        cost: float | None,
    ) -> None:  # fmt: skip
        """Counts the end of a claim."""
        self._jobs[environment, queue, outcome] += 1
        if cost:
            self._costs[environment, queue] += cost
        if seconds and outcome not in ELSEWHERE:
            self._handler_seconds[environment, queue].observe(seconds)
        if settle_seconds is not None:
            self._settle_seconds[(environment,)].observe(settle_seconds)

    def count_call(self, call: ModelCall) -> None:
        """Counts a call of a model; called in the thread of its caller."""
        model = (call.model,)
        with self._calling:
            if call.outcome == "memo":
                self._memos[model] += 1
                return
            self._calls[call.model, call.outcome] += 1
            self._call_seconds[model].observe(call.seconds)
            self._waits[(call.gate,)].observe(call.waited)
            self._call_costs[model] += call.cost or 0.0
            for kind in TOKENS:
                self._tokens[call.model, kind] += getattr(call.usage, kind)

    def samples(self) -> Iterator[Sample]:
        """Everything counted so far; called in any thread."""
        yield from self._worker_samples()
        counted: list[tuple[Metric, dict[Labels, Any]]] = [
            (CLAIMS, self._claims), (JOBS, self._jobs), (COST, self._costs), (EVENTS, self._events),
            (HANDLER_SECONDS, self._handler_seconds), (SETTLE_SECONDS, self._settle_seconds),
            (CLAIM_SECONDS, self._claim_seconds),
        ]  # fmt: skip
        for metric, values in counted:
            yield from _samples(metric, values.copy().items())
        with self._calling:
            called: list[tuple[Metric, dict[Labels, Any]]] = [
                (CALLS, self._calls), (CALL_SECONDS, self._call_seconds), (CALL_TOKENS, self._tokens),
                (CALL_COST, self._call_costs), (MEMOS, self._memos), (GATE_WAIT, self._waits),
            ]  # fmt: skip
            copies = [(metric, list(values.items())) for metric, values in called]
        for metric, items in copies:
            yield from _samples(metric, items)

    def _worker_samples(self) -> Iterator[Sample]:
        worker = self._worker
        if worker is None:
            return
        record = worker.record
        yield INFO.sample(1, version=record.version)
        yield SLOTS.sample(record.busy, state="busy")
        yield SLOTS.sample(max(0, record.slots - record.busy), state="free")
        if worker.broker_up is not None:
            yield BROKER_UP.sample(worker.broker_up)
        for environment in worker.environments:
            yield ENVIRONMENT_UP.sample(self._up.get(environment.name, False), environment=environment.name)


def _samples(metric: Metric, items: Iterable[tuple[Labels, Any]]) -> Iterator[Sample]:
    for labels, value in items:
        yield Sample(metric, value, dict(zip(metric.labels, labels, strict=True)))
