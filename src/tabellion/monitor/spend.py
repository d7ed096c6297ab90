"""The cost of models: today, by day and by queue, from the costs that attempts report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from tabellion.answers import Answer, Doc
from tabellion.engine.counts import DAY
from tabellion.engine.queue import Queue
from tabellion.engine.timestamps import iso
from tabellion.monitor.throughput import DAYS, Throughput

CURRENCY = "USD"


class SpendOf(Answer):
    """What one queue has cost."""

    queue: str
    model: str | None
    today: float
    month: float


class Spend(Answer):
    """What models have cost, by day in UTC."""

    currency: str
    today: float
    month: float
    since: str
    days: Annotated[list[float], Doc("The last thirty days, today last.")]
    by: list[SpendOf]


def model_of(queue: Queue | None) -> str | None:
    """The model that a queue's jobs call, if its declaration says."""
    if queue is None:
        return None
    model = queue.states["ready"].get("model")
    return str(model) if model is not None else queue.uses


def spend(throughput: Throughput, queues: Sequence[Queue]) -> Spend:
    """Dollars spent today and in the last thirty days (UTC), including queues that are no longer declared."""
    days = throughput.days()
    declared = {queue.name: queue for queue in queues}
    sums: dict[str, list[float]] = {}
    for day, tallies in enumerate(days):
        for name, tally in tallies.items():
            if tally.cost:
                sums.setdefault(name, [0.0] * len(days))[day] += tally.cost
    by: list[SpendOf] = [
        {
            "queue": name, "model": model_of(declared.get(name)), "today": round(costs[-1], 6),
            "month": round(sum(costs), 6),
        }
        for name, costs in sums.items()
    ]  # fmt: skip
    by.sort(key=lambda entry: (-entry["month"], entry["queue"]))
    totals = [sum(costs[day] for costs in sums.values()) for day in range(len(days))]
    return {
        "currency": CURRENCY,
        "today": round(totals[-1], 6),
        "month": round(sum(totals), 6),
        "since": iso(throughput.first(DAY, DAYS)),
        "days": [round(total, 6) for total in totals],
        "by": by,
    }
