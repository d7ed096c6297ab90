"""The workers of a database as people look at them: alive, ended, or not heard of any more."""

from __future__ import annotations

from typing import Any

from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.worker import heartbeat as roster

REMEMBERED = 3600.0  #: seconds after which a worker that is gone is shown no longer
SHOWN = 200


async def workers(store: Store) -> list[dict[str, Any]]:
    """Those that live, the oldest first, then those that ended within the hour, the last first."""
    d = store.dialect
    age = f"({sql.epoch(NOW, d)} - {sql.epoch('seen_at', d)})"
    rows = await store.database.fetch(
        f"""SELECT id, host, pid, version, queues, slots, busy, done, failed, retried, ending, {age} AS age,
  {sql.epoch("seen_at", d)} AS seen_at, {sql.epoch("started_at", d)} AS started_at,
  {sql.epoch("stopped_at", d)} AS stopped_at FROM tabellion_workers
WHERE {age} < {REMEMBERED} ORDER BY started_at, id LIMIT {SHOWN}"""
    )
    found = [_worker(row) for row in rows]
    gone = sorted((one for one in found if one["state"] != "alive"), key=lambda one: -one["seen_at"])
    return [one for one in found if one["state"] == "alive"] + gone


def _worker(row: dict[str, Any]) -> dict[str, Any]:
    state = "stopped" if row["stopped_at"] is not None else "alive" if row.pop("age") < roster.ALIVE else "lost"
    row.pop("age", None)
    return row | {"state": state, "queues": [name for name in row["queues"].split(",") if name]}
