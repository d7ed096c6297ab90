"""Trends: the hourly snapshots of the last days as series, one value per hour."""

from __future__ import annotations

from typing import Annotated

from tabellion.answers import Answer, Doc
from tabellion.engine.counts import HOUR
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.monitor.hourly_snapshots import read_snapshots

DAY = 24  #: hours
DAYS, MOST_DAYS = 7, 31


class QueueTrend(Answer):
    """A queue in each hour; null where there is no snapshot."""

    queue: str
    ready: Annotated[list[int | None], Doc("Ready rows at the beginning of the hour.")]
    oldest_seconds: Annotated[list[float | None], Doc("The age of the oldest row that was ready and due.")]
    done: Annotated[list[int | None], Doc("Jobs done in the hour.")]
    failed: Annotated[list[int | None], Doc("Jobs that failed in the hour.")]
    retried: Annotated[list[int | None], Doc("Attempts of the hour that will be retried.")]
    cost: Annotated[list[float | None], Doc("Dollars spent in the hour.")]


class Trends(Answer):
    """Every queue with a snapshot, by hour; the current hour is the last."""

    since: Annotated[str, Doc("The beginning of the first hour.")]
    step: Annotated[int, Doc("Seconds between two values.")]
    queues: list[QueueTrend]


async def read_trends(store: Store, days: int = DAYS) -> Trends:
    """The trends of so many days."""
    hours = days * DAY
    first = (int(await store.now() // HOUR) - hours + 1) * HOUR
    trends: dict[str, QueueTrend] = {}
    for row in await read_snapshots(store, first):
        place = (int(row["at"]) - first) // HOUR
        if place >= hours:
            continue  # of a clock that was ahead
        trend = trends.get(row["queue"]) or trends.setdefault(row["queue"], _empty(row["queue"], hours))
        trend["ready"][place] = row["ready"]
        trend["oldest_seconds"][place] = None if row["oldest_seconds"] is None else round(row["oldest_seconds"], 1)
        if place:  # what was settled in the hour before
            trend["done"][place - 1] = row["hour_done"]
            trend["failed"][place - 1] = row["hour_failed"]
            trend["retried"][place - 1] = row["hour_retried"]
            trend["cost"][place - 1] = round(row["hour_cost"], 6)
    return {"since": iso(first), "step": HOUR, "queues": [trends[name] for name in sorted(trends)]}


def _empty(queue: str, hours: int) -> QueueTrend:
    return {
        "queue": queue, "ready": [None] * hours, "oldest_seconds": [None] * hours, "done": [None] * hours,
        "failed": [None] * hours, "retried": [None] * hours, "cost": [None] * hours,
    }  # fmt: skip
