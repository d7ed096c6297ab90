"""The workers of a database as people look at them: alive, ended, or not heard of any more."""

from __future__ import annotations

from typing import Literal

from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.engine.worker import heartbeat as roster

REMEMBERED = 3600.0  #: seconds after which a worker that is gone is shown no longer
SHOWN = 200


class WorkerPicture(roster.WorkerFacts):
    """A worker."""

    state: Literal["alive", "stopped", "lost"]
    queues: list[str]
    seen_at: str
    started_at: str
    stopped_at: str | None


class _Row(roster.WorkerRow):
    age: float
    seen_at: float
    started_at: float
    stopped_at: float | None


async def workers(store: Store) -> list[WorkerPicture]:
    """Those that live, the oldest first, then those that ended within the hour, the last first."""
    d = store.dialect
    age = f"({sql.epoch(NOW, d)} - {sql.epoch('seen_at', d)})"
    rows: list[_Row] = await store.database.fetch(
        f"""SELECT {roster.COLUMNS}, {age} AS age,
  {sql.epoch("seen_at", d)} AS seen_at, {sql.epoch("started_at", d)} AS started_at,
  {sql.epoch("stopped_at", d)} AS stopped_at FROM tabellion_workers
WHERE {age} < {REMEMBERED} ORDER BY started_at, id LIMIT {SHOWN}"""
    )
    alive = [row for row in rows if _state(row) == "alive"]
    gone = sorted((row for row in rows if _state(row) != "alive"), key=lambda row: -row["seen_at"])
    return [_worker(row) for row in (*alive, *gone)]


def _state(row: _Row) -> Literal["alive", "stopped", "lost"]:
    return "stopped" if row["stopped_at"] is not None else "alive" if row["age"] < roster.ALIVE else "lost"


def _worker(row: _Row) -> WorkerPicture:
    return {
        "id": row["id"], "state": _state(row), "host": row["host"], "pid": row["pid"], "version": row["version"],
        "queues": [name for name in row["queues"].split(",") if name], "slots": row["slots"], "busy": row["busy"],
        "done": row["done"], "failed": row["failed"], "retried": row["retried"], "ending": row["ending"],
        "seen_at": iso(row["seen_at"]), "started_at": iso(row["started_at"]), "stopped_at": iso(row["stopped_at"]),
    }  # fmt: skip
