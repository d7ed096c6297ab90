"""The figures of a database as samples."""

from __future__ import annotations

from typing import Any

from tabellion import Queue, Store
from tabellion.engine import controls
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings, ThrottledCall
from tabellion.engine.worker import heartbeat
from tabellion.errors import Forbidden
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.metrics.database_metrics import METRICS, DatabaseReader
from tabellion.monitor.metrics.metric import MetricSource, Sample, environment_metric
from tabellion.monitor.overview import Overview
from tabellion.monitor.sla.alerts import GAP, record, take_turns
from tabellion.monitor.sla.queue_targets import queue_target
from tabellion.monitor.view import QueueView
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, tasks
from tests.monitor.settled import fail, settle
from tests.monitor.test_workers import member

Values = dict[tuple[str, ...], float]


def of(samples: list[Sample], name: str) -> Values:
    """The values of a metric by their labels, without the environment."""
    found: Values = {}
    for sample in samples:
        if sample.metric.name == f"tabellion_{name}":
            assert isinstance(sample.value, float)
            assert set(sample.labels) == set(sample.metric.labels) - {"environment"}
            found[tuple(sample.labels[label] for label in sample.metric.labels if label != "environment")] = (
                sample.value
            )
    return found


@asynchronous
async def test_queues_workers_gates_and_spend(store: Store, clock: Clock) -> None:
    """Every figure of the overview that can be a number."""
    queue = await tasks(store, 10, uses="gemini")
    await settle(store, queue, cost=0.5)
    await fail(store, queue, "bad")
    await settle(store, queue, "retried", error="later", after=100.0)
    await claim_one(store, queue)
    await controls.pause(store, queue, "lunch")
    gate = GateRow(store, "gemini", GateSettings(budget=10))
    await gate.turn(CallOutcomes(ok=7, failed=1, throttled=[ThrottledCall(None, 0)] * 2, refused="bad key"), 0)
    worker = member("w1")
    worker.queues, worker.slots, worker.busy = "tasks", 5, 2
    await heartbeat.enlist(store, worker)
    await heartbeat.beat(store, worker)
    broken = Queue("nowhere", ready=1, running=2, done=3, failed=4)
    views = [QueueView(queue), QueueView(broken)]
    overview = Overview("prod", store, views, gate_settings={"gemini": GateSettings(budget=10)})
    samples = await DatabaseReader(store, overview.look).read()
    assert {sample.metric for sample in samples} <= set(METRICS)
    assert of(samples, "queue_rows") == {
        ("tasks", "ready"): 7, ("tasks", "running"): 1, ("tasks", "done"): 1, ("tasks", "failed"): 1,
    }  # fmt: skip
    assert of(samples, "queue_waiting_rows") == {("tasks",): 1}
    assert of(samples, "queue_foreign_rows") == {("tasks",): 0}
    assert of(samples, "queue_problem") == {("tasks",): 0, ("nowhere",): 1}
    assert of(samples, "queue_paused") == {("tasks",): 1, ("nowhere",): 0}
    assert of(samples, "queue_workers") == {("tasks",): 1, ("nowhere",): 0}
    assert of(samples, "queue_last_hour_jobs")[("tasks", "done")] == 1
    assert of(samples, "queue_error_ratio")[("tasks",)] > 0.6
    assert of(samples, "workers") == {("alive",): 1, ("stopped",): 0, ("crashed",): 0, ("lost",): 0}
    assert of(samples, "fleet_slots") == {("busy",): 2, ("free",): 3}
    assert of(samples, "spend_dollars") == {("tasks", "today"): 0.5, ("tasks", "month"): 0.5}
    assert of(samples, "gate_open") == {("gemini",): 0}
    assert of(samples, "gate_calls_total") == {("gemini", "ok"): 7, ("gemini", "throttled"): 2, ("gemini", "failed"): 1}
    assert sum(of(samples, "gate_breaker").values()) == 1
    assert of(samples, "gate_budget_dollars") == {("gemini",): 10}


@asynchronous
async def test_the_age_of_the_oldest_ready_row(store: Store, clock: Clock) -> None:
    """By the database's clock; 0 without a row that is ready and due; absent if no column has the time."""
    await store.open()
    time = "double precision" if store.dialect == "sqlite" else "timestamptz"
    await store.database.fetch(f"CREATE TABLE parcels (id integer PRIMARY KEY, status text, created_at {time})")
    await tasks(store, 1)
    now = "$1" if store.dialect == "sqlite" else "to_timestamp($1)"
    await store.database.fetch(f"INSERT INTO parcels VALUES (1, 'new', {now})", clock() - 90)
    states: dict[str, Any] = {"ready": "new", "running": "sent", "done": "there", "failed": "lost"}
    parcels, other = Queue("parcels", **states), Queue("tasks", **{**states, "ready": "new"})
    overview = Overview("prod", store, [QueueView(parcels), QueueView(other)])
    reader = DatabaseReader(store, overview.look)
    assert of(await reader.read(), "queue_oldest_ready_seconds") == {("parcels",): 90}
    await settle(store, parcels, "retried", error="later", after=60.0)
    overview.forget("parcels")
    assert of(await reader.read(), "queue_oldest_ready_seconds") == {("parcels",): 0}
    clock.advance(61)
    await settle(store, parcels)
    overview.forget("parcels")
    assert of(await reader.read(), "queue_oldest_ready_seconds") == {("parcels",): 0}


@asynchronous
async def test_what_is_known_of_targets_ages(store: Store, clock: Clock) -> None:
    """One that was never checked has a limit only; one that is not checked any more is neither kept nor missed."""
    target = queue_target(QueueView(await tasks(store, 1)), "failed", 0.5)
    reader = DatabaseReader(store, Overview("prod", store, [], targets=[target]).look)
    samples = await reader.read()
    assert of(samples, "sla_limit") == {(target.name,): 0.5}
    assert of(samples, "sla_checked_seconds") == of(samples, "sla_kept") == {}
    turns = await take_turns(store, [target])
    await record(store, "prod", target, turns[target.name], {"value": 0.9, "problem": None}, 0.0)
    clock.advance(GAP - 1)
    samples = await reader.read()
    assert of(samples, "sla_checked_seconds") == {(target.name,): GAP - 1}
    assert of(samples, "sla_kept") == {(target.name,): 0}
    clock.advance(1)
    samples = await reader.read()
    assert of(samples, "sla_checked_seconds") == {(target.name,): GAP}
    assert of(samples, "sla_kept") == {}


@asynchronous
async def test_spend_of_queues_that_are_gone_is_other(store: Store, clock: Clock) -> None:
    """Names of former queues in the database are not values of a label."""
    queue = await tasks(store, 2)
    await settle(store, queue, cost=0.5)
    samples = await DatabaseReader(store, Overview("prod", store, []).look).read()
    assert of(samples, "spend_dollars") == {("other", "today"): 0.5, ("other", "month"): 0.5}


@asynchronous
async def test_a_pipeline_adds_samples(store: Store, clock: Clock) -> None:
    """One that cannot be read here does not hide the others."""
    await tasks(store, 1)
    parcels = environment_metric("shop_parcels", "gauge", "Parcels.", "carrier")

    async def read(_store: Store, _cache: AnswerCache) -> list[Sample]:
        return [parcels.sample(3, carrier="post")]

    async def refuse(_store: Store, _cache: AnswerCache) -> list[Sample]:
        raise Forbidden("no right")

    sources = [MetricSource((), refuse), MetricSource((parcels,), read)]
    samples = await DatabaseReader(store, Overview("prod", store, []).look, sources).read()
    assert samples[-1] == parcels.sample(3, carrier="post")
