"""A worker's own figures: each job is counted once, whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabellion import Job, Permanent, Queue, RateLimited, Worker
from tabellion.engine import controls
from tabellion.engine.events import Event
from tabellion.models.base import Usage
from tabellion.models.observers import ModelCall, report_call
from tabellion.monitor.metrics.metric import Distribution
from tabellion.monitor.metrics.worker_metrics import METRICS, OUTCOMES, WorkerMetrics
from tests.table_owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.workers import ask, drain, make_worker, working


@pytest.fixture
def metrics() -> Iterator[WorkerMetrics]:
    """Metrics that are closed at the end."""
    one = WorkerMetrics()
    yield one
    one.close()


def values(metrics: WorkerMetrics, name: str, **labels: str) -> list[float]:
    """The values of a metric, histograms by their counts."""
    return [
        sum(sample.value.counts) if isinstance(sample.value, Distribution) else sample.value
        for sample in metrics.samples()
        if sample.metric.name == name and labels.items() <= sample.labels.items()
    ]


def test_every_outcome_is_counted_once(owner: Owner, metrics: WorkerMetrics) -> None:
    """Claims are endings: done, failed, retried, limited; times, costs and the state of the worker."""
    queue = jobs_queue(max_attempts=2, retry_base=0.01)
    seen: set[int] = set()

    @queue.handler
    async def work(job: Job) -> None:
        job.cost = 0.25
        again = job.key in seen
        seen.add(job.key)
        if job.key == 2:
            raise Permanent("never")
        if job.key == 3 and not again:
            raise ValueError("odd")
        if job.key == 4 and not again:
            raise RateLimited(after=0.01)

    owner.insert(1, 2, 3, 4)
    worker = make_worker(owner.url, queue, concurrency=7)
    metrics.start(worker)
    place = {"environment": "prod", "queue": queue.name}
    assert values(metrics, "tabellion_jobs_total", **place, outcome="done") == [0], "a series from the start"
    drain(worker)
    counted = {outcome: values(metrics, "tabellion_jobs_total", **place, outcome=outcome)[0] for outcome in OUTCOMES}
    assert {name: n for name, n in counted.items() if n} == {"done": 3, "failed": 1, "retried": 1, "limited": 1}
    assert values(metrics, "tabellion_claims_total", **place) == [6]
    assert values(metrics, "tabellion_handler_seconds", **place) == [6]
    assert values(metrics, "tabellion_settle_seconds", environment="prod") == [6]
    assert values(metrics, "tabellion_job_cost_dollars_total", **place) == [1.5]
    assert 1 <= values(metrics, "tabellion_claim_seconds", environment="prod")[0] <= 6
    assert values(metrics, "tabellion_worker_slots") == [0, 7]
    assert values(metrics, "tabellion_worker_environment_up", environment="prod") == [1]
    assert values(metrics, "tabellion_events_total", event="worker_started") == [1]
    assert values(metrics, "tabellion_worker_info") == [1]


def test_a_cancelled_job_is_counted_once(owner: Owner, metrics: WorkerMetrics) -> None:
    """What ends a claim from outside is counted like what ends it from inside."""
    queue = jobs_queue(lease=5)

    @queue.handler
    async def work(job: Job) -> None:
        await asyncio.sleep(60)

    owner.insert(1)
    worker = make_worker(owner.url, queue)
    metrics.start(worker)
    with working(worker):
        eventually(lambda: values(metrics, "tabellion_claims_total") == [1])
        ask(owner.url, lambda store: controls.cancel(store, queue, "1", "not needed"))
        eventually(lambda: values(metrics, "tabellion_jobs_total", outcome="cancelled") == [1])
    assert sum(values(metrics, "tabellion_jobs_total")) == 1


def test_a_crash_is_counted_by_the_sweep_that_finds_it(owner: Owner, metrics: WorkerMetrics) -> None:
    """Without the time since its claim among the times of handlers."""
    queue = jobs_queue(lease=1)

    @queue.handler
    async def work(job: Job) -> None: ...

    owner.insert(1)

    async def claim_and_die(store: object) -> None:
        await store.claim(queue, 1, "dead")  # type: ignore[attr-defined]

    ask(owner.url, claim_and_die)
    worker = make_worker(owner.url, queue)
    metrics.start(worker)
    with working(worker):
        eventually(lambda: values(metrics, "tabellion_jobs_total", outcome="done") == [1], within=60)
    assert values(metrics, "tabellion_jobs_total", outcome="crashed") == [1]
    assert values(metrics, "tabellion_handler_seconds") == [1]


def test_calls_of_models_are_counted(metrics: WorkerMetrics, owner: Owner) -> None:
    """By outcome, with tokens, cost and times; memos apart."""
    metrics.start(make_worker(owner.url, jobs_queue_with_handler()))
    report_call(ModelCall("gemini", "g-2", "g", "ok", 1.5, 0.1, Usage(100, 20, 3, 40), 0.5))
    report_call(ModelCall("gemini", "g-2", "g", "throttled", 0.1, 0.1))
    report_call(ModelCall("gemini", "g-2", "g", "memo"))
    assert values(metrics, "tabellion_model_calls_total", model="gemini", outcome="ok") == [1]
    assert values(metrics, "tabellion_model_calls_total", model="gemini", outcome="throttled") == [1]
    tokens = [
        values(metrics, "tabellion_model_tokens_total", kind=kind)[0]
        for kind in ("input", "output", "thoughts", "cached")
    ]
    assert tokens == [100, 20, 3, 40]
    assert values(metrics, "tabellion_model_cost_dollars_total") == [0.5]
    assert values(metrics, "tabellion_model_seconds") == [2]
    assert values(metrics, "tabellion_gate_wait_seconds", gate="g") == [2]
    assert values(metrics, "tabellion_model_memo_hits_total") == [1]
    metrics.close()
    report_call(ModelCall("gemini", "g-2", "g", "ok"))
    assert values(metrics, "tabellion_model_calls_total", outcome="ok") == [1], "a closed one counts no more"


def jobs_queue_with_handler() -> Queue:
    queue = jobs_queue()

    @queue.handler
    async def work(job: Job) -> None: ...

    return queue


def test_other_events_are_counted_by_name(metrics: WorkerMetrics) -> None:
    """With the environment, but neither key nor error; an unknown one is `other`."""
    metrics(Event("environment_down", environment="prod", error="secret text", key="7"))
    metrics(Event("environment_up", environment="prod"))
    metrics(Event("of a later version", environment="prod"))
    metrics(Event("done", environment="prod", queue="jobs"))
    [down, up, other] = [sample for sample in metrics.samples() if sample.metric.name == "tabellion_events_total"]
    assert down.labels == {"environment": "prod", "event": "environment_down"}
    assert (up.labels["event"], other.labels["event"]) == ("environment_up", "other")


def test_samples_have_exactly_the_declared_labels(owner: Owner, metrics: WorkerMetrics) -> None:
    """No metric has a label that it does not declare."""
    worker: Worker = make_worker(owner.url, jobs_queue_with_handler())
    metrics.start(worker)
    owner.insert(1)
    drain(worker)
    for sample in metrics.samples():
        assert sample.metric in METRICS
        assert set(sample.labels) == set(sample.metric.labels)
