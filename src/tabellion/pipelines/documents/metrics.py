"""Metrics of the review of documents: what waits for people, and whether it is done in time."""

from __future__ import annotations

from datetime import UTC, datetime

from tabellion.engine.store import Store
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.metrics.metric import MetricSource, Sample, environment_metric
from tabellion.pipelines.documents.review.sla import read_figure

ITEMS = environment_metric(
    "tabellion_review_open_items", "gauge", "Review items that are not finished, by state.", "state"
)
OVERDUE = environment_metric("tabellion_review_overdue_items", "gauge", "Open review items past their deadline.")
SOON = environment_metric("tabellion_review_due_soon_items", "gauge", "Open review items due within two hours.")
NEXT = environment_metric(
    "tabellion_review_next_due_seconds", "gauge", "Time until the next deadline; absent without one."
)
FINISHED = environment_metric(
    "tabellion_review_week_items", "gauge", "Review items finished in the last seven days, by whether on time.", "sla"
)
COMPLIANCE = environment_metric(
    "tabellion_review_sla_ratio", "gauge",
    "Share of the items finished in the last seven days, or overdue now, that were finished on time.",
)  # fmt: skip
METRICS = (ITEMS, OVERDUE, SOON, NEXT, FINISHED, COMPLIANCE)


async def read(store: Store, pace: AnswerCache) -> list[Sample]:
    """The samples; none in a database without review."""
    sla = await read_figure(store, pace)
    if sla is None:
        return []
    finished = sum(day["finished"] for day in sla["days"])
    samples = [
        ITEMS.sample(sla["open"] - sla["in_review"], state="pending"),
        ITEMS.sample(sla["in_review"], state="in_review"), OVERDUE.sample(sla["overdue"]), SOON.sample(sla["soon"]),
        FINISHED.sample(sla["kept"], sla="kept"),
        FINISHED.sample(finished - sla["kept"], sla="missed"),
    ]  # fmt: skip
    if sla["next_at"] is not None:
        left = datetime.fromisoformat(sla["next_at"]) - datetime.fromtimestamp(await store.now(), UTC)
        samples.append(NEXT.sample(max(0.0, left.total_seconds())))
    if sla["compliance"] is not None:
        samples.append(COMPLIANCE.sample(sla["compliance"]))
    return samples


SOURCE = MetricSource(METRICS, read)
