"""Metrics of one environment's database: queues, workers, gates, spend and SLA, from its overview."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime

from tabellion.engine.queue import STATES
from tabellion.engine.store import Store
from tabellion.errors import StoreError
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.gates import GatePicture
from tabellion.monitor.metrics.metric import MetricSource, Sample, environment_metric
from tabellion.monitor.overview import OverviewPicture, QueuePicture
from tabellion.monitor.sla.alerts import GAP
from tabellion.monitor.sla.compliance import TargetPicture
from tabellion.monitor.workers import FleetPicture

BREAKER_STATES = ("closed", "open", "probing")
OTHER = "other"  #: queues that are no longer declared

DATABASE_UP = environment_metric("tabellion_database_up", "gauge", "Whether the database answers.")
AGE = environment_metric(
    "tabellion_figures_age_seconds", "gauge", "How old the figures from the database are; they are read at most as "
    "often as their queries are cheap."
)  # fmt: skip
ROWS = environment_metric(
    "tabellion_queue_rows", "gauge", "Rows of a queue by state; 1000000 means that many or more.", "queue", "state"
)
WAITING = environment_metric("tabellion_queue_waiting_rows", "gauge", "Ready rows that are not due yet.", "queue")
FOREIGN = environment_metric(
    "tabellion_queue_foreign_rows",
    "gauge",
    "Rows that are running without a claim in the register; 1000 means that many or more.",
    "queue",
)
OLDEST = environment_metric(
    "tabellion_queue_oldest_ready_seconds", "gauge", "Age of the oldest row that is ready and due; 0 without one, "
    "absent if no column has its time.", "queue"
)  # fmt: skip
LAST_HOUR = environment_metric(
    "tabellion_queue_last_hour_jobs", "gauge", "Jobs that ended in the last hour, by all workers.", "queue", "outcome"
)
ERROR_RATIO = environment_metric(
    "tabellion_queue_error_ratio", "gauge", "Share of the attempts of the last hour that ended in an error.", "queue"
)
PAUSED = environment_metric("tabellion_queue_paused", "gauge", "Whether a queue is paused.", "queue")
PROBLEM = environment_metric(
    "tabellion_queue_problem", "gauge", "Whether a queue's table does not match its declaration.", "queue"
)
QUEUE_WORKERS = environment_metric("tabellion_queue_workers", "gauge", "Live workers of a queue.", "queue")
WORKERS = environment_metric(
    "tabellion_workers",
    "gauge",
    "Workers by state; stopped, crashed and lost ones are those of the last hour.",
    "state",
)
SLOTS = environment_metric("tabellion_fleet_slots", "gauge", "Slots of all live workers.", "state")
SPEND = environment_metric(
    "tabellion_spend_dollars", "gauge", "What a queue has cost: today (UTC) and in the last thirty days.", "queue",
    "period",
)  # fmt: skip
GATE_OPEN = environment_metric("tabellion_gate_open", "gauge", "Whether calls may pass a gate.", "gate")
GATE_RATE = environment_metric("tabellion_gate_rate", "gauge", "Calls per second that a gate admits.", "gate")
GATE_BREAKER = environment_metric(
    "tabellion_gate_breaker", "gauge", "1 for the state of a gate's circuit breaker.", "gate", "state"
)
GATE_CALLS = environment_metric(
    "tabellion_gate_calls_total", "counter", "Calls of the whole fleet through a gate, by result.", "gate", "result"
)
GATE_SPENT = environment_metric("tabellion_gate_spent_dollars", "gauge", "Spent today (UTC) through a gate.", "gate")
GATE_BUDGET = environment_metric("tabellion_gate_budget_dollars", "gauge", "A gate's daily budget.", "gate")
TARGET_VALUE = environment_metric(
    "tabellion_sla_value", "gauge", "The value of an SLA target at its last check, in seconds or as a share; absent if "
    "there was nothing to measure.", "target"
)  # fmt: skip
TARGET_LIMIT = environment_metric("tabellion_sla_limit", "gauge", "The limit of an SLA target.", "target")
TARGET_KEPT = environment_metric(
    "tabellion_sla_kept", "gauge", "Whether an SLA target was kept at its last check; absent if it is not known, or "
    "not checked for ten minutes.", "target"
)  # fmt: skip
TARGET_CHECKED = environment_metric(
    "tabellion_sla_checked_seconds", "gauge", "Time since an SLA target was last checked; absent if it never was.",
    "target",
)  # fmt: skip
TARGET_BREACHED = environment_metric(
    "tabellion_sla_breached", "gauge", "Whether an SLA target has been missed for so long that it was alerted.",
    "target",
)  # fmt: skip

METRICS = (
    DATABASE_UP, AGE, ROWS, WAITING, FOREIGN, OLDEST, LAST_HOUR, ERROR_RATIO, PAUSED, PROBLEM, QUEUE_WORKERS, WORKERS,
    SLOTS, SPEND, GATE_OPEN, GATE_RATE, GATE_BREAKER, GATE_CALLS, GATE_SPENT, GATE_BUDGET, TARGET_VALUE,
    TARGET_LIMIT, TARGET_KEPT, TARGET_CHECKED, TARGET_BREACHED,
)  # fmt: skip


class DatabaseReader:
    """Reads the metrics of one database: those of the overview, then those of pipelines."""

    def __init__(
        self, store: Store, overview: Callable[[], Awaitable[OverviewPicture]], sources: Sequence[MetricSource] = ()
    ) -> None:
        self.store = store
        self._overview, self._sources, self._cache = overview, list(sources), AnswerCache()

    async def read(self) -> list[Sample]:
        """All samples. A pipeline without its tables here has none."""
        samples = list(overview_samples(await self._overview()))
        for source in self._sources:
            with contextlib.suppress(StoreError):
                samples += await source.read(self.store, self._cache)
        return samples


def overview_samples(picture: OverviewPicture) -> Iterator[Sample]:
    """The samples of an overview."""
    at = _seconds(picture["at"])
    for queue in picture["queues"]:
        yield from _queue(queue, at)
    yield from _fleet(picture["fleet"])
    yield from _spend(picture)
    for gate in picture["gates"]:
        yield from _gate(gate)
    for target in picture["targets"]:
        yield from _target(target, at)


def _queue(queue: QueuePicture, at: float) -> Iterator[Sample]:
    name = queue["name"]
    yield PROBLEM.sample(queue["problem"] is not None, queue=name)
    yield PAUSED.sample(queue["paused"], queue=name)
    if not queue["people"]:
        yield QUEUE_WORKERS.sample(queue["workers"], queue=name)
    for outcome in ("done", "failed"):
        hour = queue["throughput"]["hour"]
        yield LAST_HOUR.sample(hour["done"] if outcome == "done" else hour["failed"], queue=name, outcome=outcome)
    if queue["error_rate"] is not None:
        yield ERROR_RATIO.sample(queue["error_rate"], queue=name)
    if queue["problem"] is not None:
        return
    counts: Mapping[str, int] = {state: int(queue[state]) for state in STATES}
    for state, count in counts.items():
        yield ROWS.sample(count, queue=name, state=state)
    yield WAITING.sample(queue["waiting"], queue=name)
    yield FOREIGN.sample(queue["foreign"], queue=name)
    if queue["oldest_at"] is not None:
        yield OLDEST.sample(max(0.0, at - _seconds(queue["oldest_at"])), queue=name)
    elif queue["ready"] <= queue["waiting"]:
        yield OLDEST.sample(0, queue=name)


def _fleet(fleet: FleetPicture) -> Iterator[Sample]:
    yield WORKERS.sample(fleet["alive"], state="alive")
    yield WORKERS.sample(fleet["stopped"], state="stopped")
    yield WORKERS.sample(fleet["crashed"], state="crashed")
    yield WORKERS.sample(fleet["lost"], state="lost")
    yield SLOTS.sample(fleet["busy"], state="busy")
    yield SLOTS.sample(max(0, fleet["slots"] - fleet["busy"]), state="free")


def _spend(picture: OverviewPicture) -> Iterator[Sample]:
    declared = [queue["name"] for queue in picture["queues"]]
    sums: dict[tuple[str, str], float] = {}
    for entry in picture["spend"]["by"]:
        name = entry["queue"] if entry["queue"] in declared else OTHER
        for period, dollars in (("today", entry["today"]), ("month", entry["month"])):
            sums[name, period] = sums.get((name, period), 0.0) + dollars
    for (name, period), dollars in sums.items():
        yield SPEND.sample(dollars, queue=name, period=period)


def _gate(gate: GatePicture) -> Iterator[Sample]:
    name = gate["name"]
    yield GATE_OPEN.sample(gate["state"] == "open", gate=name)
    yield GATE_RATE.sample(gate["rate"], gate=name)
    for state in BREAKER_STATES:
        yield GATE_BREAKER.sample(gate["breaker"] == state, gate=name, state=state)
    ok = gate["calls"] - gate["throttled"] - gate["failed"]
    for result, count in (("ok", ok), ("throttled", gate["throttled"]), ("failed", gate["failed"])):
        yield GATE_CALLS.sample(count, gate=name, result=result)
    yield GATE_SPENT.sample(gate["spent"], gate=name)
    if gate["budget"] is not None:
        yield GATE_BUDGET.sample(gate["budget"], gate=name)


def _target(target: TargetPicture, at: float) -> Iterator[Sample]:
    name = target["target"]
    age = None if target["checked_at"] is None else max(0.0, at - _seconds(target["checked_at"]))
    yield TARGET_LIMIT.sample(target["limit"], target=name)
    yield TARGET_BREACHED.sample(target["state"] == "breached", target=name)
    if age is not None:
        yield TARGET_CHECKED.sample(age, target=name)
    if target["kept"] is not None and age is not None and age < GAP:
        yield TARGET_KEPT.sample(target["kept"], target=name)
    if target["value"] is not None:
        yield TARGET_VALUE.sample(target["value"], target=name)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
