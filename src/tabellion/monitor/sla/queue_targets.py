"""The targets that every queue can have: how long its oldest row waits, and how many of its jobs fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from tabellion.engine import counts, sql
from tabellion.engine.counts import HOUR, MINUTE
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.errors import StoreError
from tabellion.messages import Message
from tabellion.monitor.counting import MOST, created_at_sql, join_waiting
from tabellion.monitor.sla.target import QUEUE_KINDS, Target
from tabellion.monitor.view import QueueView


async def measure_oldest(store: Store, view: QueueView) -> float:
    """The seconds since the oldest row that is ready and due was created; 0 if there is none."""
    queue, d = view.queue, store.dialect
    bound = await store.bind(queue)
    created_at = created_at_sql(bound)
    if created_at is None:
        raise StoreError(Message("sla.no_created_at", table=queue.table))
    condition = view.holds("ready", d) + (f" AND (\n{queue.where}\n)" if queue.where else "")
    join, is_due, values = await join_waiting(store, bound)
    [row] = await store.database.fetch(
        f"""SELECT {sql.epoch(NOW, d)} - min(born) AS seconds
FROM (SELECT {created_at} AS born FROM {sql.name(queue.table)} AS t{join}
  WHERE {is_due} AND {condition} LIMIT {MOST}) AS s""",
        *values,
    )
    return max(float(row["seconds"]), 0.0) if row["seconds"] is not None else 0.0


async def measure_failed(store: Store, view: QueueView) -> float | None:
    """The share of jobs that ended in the last hour (to the minute) and failed; None if none ended."""
    now = await store.now()
    done, failed = 0, 0
    for row in await counts.read(store.database, (now // MINUTE + 1) * MINUTE - HOUR):
        if row["queue"] == view.name and row["period"] <= MINUTE:
            done, failed = done + int(row["done"]), failed + int(row["failed"])
    return failed / (done + failed) if done + failed else None


_MEASURES: Mapping[str, Callable[[Store, QueueView], Awaitable[float | None]]] = {
    "oldest": measure_oldest, "failed": measure_failed,
}  # fmt: skip


def queue_target(view: QueueView, kind: str, limit: float) -> Target:
    """The target of one kind for a queue."""
    return Target(
        "queues", view.name, kind, QUEUE_KINDS[kind], limit, view.name, lambda store: _MEASURES[kind](store, view)
    )
