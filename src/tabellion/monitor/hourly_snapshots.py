"""Hourly snapshots: what each queue looked like in each hour, one row per hour and queue.

A row has the rows of the queue by state at the beginning of its hour, and what was settled in the hour before. Any
worker takes it whose turn it is, as for the checks of targets: the rows of a large queue are not counted by a whole
fleet at once. The key makes it one per hour, whoever else tries. Hours in which no worker looked have no row, unless
jobs were settled in the hour before: those were counted anyway, and their row has no states.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from tabellion.engine import counts
from tabellion.engine.counts import HOUR
from tabellion.engine.failpoints import failpoint
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.counting import counts as count_queue
from tabellion.monitor.sla.alerts import take_named_turns
from tabellion.monitor.snapshot import waiting
from tabellion.monitor.throughput import Tally
from tabellion.monitor.view import QueueView

TABLE = "tabellion_snapshots"
SETTLING = 15.0  #: seconds of an hour in which the last settlements of the one before may still be committed
TURN = "snapshot "  #: before a queue's name: the row of `tabellion_sla` that says whose turn it is
COUNTED = 47  #: hours back for which settlements are counted by hour; before that, by day

_COLUMNS = (
    "at", "queue", "ready", "waiting", "running", "done", "failed", "oldest_seconds", "hour_done", "hour_failed",
    "hour_retried", "hour_cost", "sla",
)  # fmt: skip
_UNKNOWN = (None,) * 6  #: the states of an hour in which nobody looked


class HourlySnapshot(TypedDict):
    """A row of `tabellion_snapshots` as it is read for trends."""

    at: int  #: the beginning of the hour, in seconds since 1970
    queue: str
    ready: int | None  #: None: nobody looked in this hour, or the queue could not be counted
    oldest_seconds: float | None
    hour_done: int  #: in the hour before `at`
    hour_failed: int
    hour_retried: int
    hour_cost: float
    sla: str | None  #: JSON: the value of each target


async def take_snapshots(store: Store, views: Iterable[QueueView], values: Mapping[str, Mapping[str, float]]) -> int:
    """Takes the snapshots of this hour that are missing; returns how many.

    `values` are the values of SLA targets by queue and target.
    """
    now = await store.now()
    hour = int(now // HOUR) * HOUR
    if now - hour < SETTLING:
        return 0
    already = await _find_taken(store, hour)
    missing = [view for view in views if view.name not in already]
    if not missing:
        return 0
    settled = await _count_settled_by_hour(store, hour)
    not_due = await waiting(store)
    random.shuffle(missing)  # other workers begin with other queues
    taken = 0
    for view in missing:
        if view.name in await _find_taken(store, hour):
            continue
        if not await take_named_turns(store, [f"{TURN}{view.name}"]):
            continue  # another worker counts it now
        states = await _count_states(store, view, not_due.get(view.name, 0), now)
        if states is None and (view.name, hour) not in settled:
            continue  # its table is not in this database
        sla = dict(values.get(view.name, {}))
        row = [
            hour,
            view.name,
            *(states or _UNKNOWN),
            *_tally_columns(settled, view.name, hour),
            json.dumps(sla) if sla else None,
        ]
        past = [
            [at, view.name, *_UNKNOWN, *_tally_columns(settled, view.name, at), None]
            for at in range(hour - COUNTED * HOUR, hour, HOUR)
            if (view.name, at) in settled
        ]
        failpoint("snapshot.pre_commit")
        results = await store.database.transact([_insert(row, NOW), *(_insert(old, "NULL") for old in past)])
        taken += len(results[0])
    return taken


async def read_snapshots(store: Store, since: int) -> list[HourlySnapshot]:
    """The snapshots of hours that began since then, oldest first."""
    return await store.database.fetch(
        f"SELECT {', '.join(HourlySnapshot.__annotations__)} FROM {TABLE} WHERE at >= $1 ORDER BY at, queue", since
    )


async def _find_taken(store: Store, hour: int) -> set[str]:
    rows = await store.database.fetch(f"SELECT queue FROM {TABLE} WHERE at = $1", hour)
    return {row["queue"] for row in rows}


async def _count_states(store: Store, view: QueueView, not_due: int, now: float) -> list[float | None] | None:
    """Rows by state, and the age of the oldest that is ready and due; None if the queue cannot be counted."""
    counted = await count_queue(store, view, AnswerCache())
    if counted.problem is not None:
        return None
    oldest = None if counted.ready > not_due else 0.0
    if counted.oldest_at is not None:
        oldest = max(now - counted.oldest_at, 0.0)
    rows = [counted.ready, min(not_due, counted.ready), counted.running, counted.done, counted.failed]
    return [*rows, oldest]


async def _count_settled_by_hour(store: Store, hour: int) -> dict[tuple[str, int], Tally]:
    """What was settled by queue and by the end of the hour in which it was."""
    tallies: dict[tuple[str, int], Tally] = {}
    for row in await counts.read(store.database, hour - (COUNTED + 1) * HOUR):
        end = int(row["at"] // HOUR) * HOUR + HOUR
        if row["period"] <= HOUR and end <= hour:
            tally = tallies.setdefault((row["queue"], end), Tally())
            tally += Tally(int(row["done"]), int(row["failed"]), int(row["retried"]), float(row["cost"]))
    return tallies


def _tally_columns(tallies: Mapping[tuple[str, int], Tally], queue: str, at: int) -> list[float]:
    tally = tallies.get((queue, at), Tally())
    return [tally.done, tally.failed, tally.retried, tally.cost]


def _insert(row: Sequence[Any], taken_at: str) -> tuple[str, Sequence[Any]]:
    marks = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    return (
        f"INSERT INTO {TABLE} ({', '.join(_COLUMNS)}, taken_at) VALUES ({marks}, {taken_at})"
        " ON CONFLICT (at, queue) DO NOTHING RETURNING at",
        row,
    )
