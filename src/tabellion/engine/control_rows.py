"""The table `tabellion_queues`, what operators have set for each queue, and every statement that changes it."""

from __future__ import annotations

from typing import TypedDict

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW

#: Claims under a limit of any queue wait until the transaction ends, also the first one of a queue (PostgreSQL).
LOCK_ALL = "LOCK TABLE tabellion_queues IN SHARE ROW EXCLUSIVE MODE"


class QueueControl(TypedDict):
    """What operators have set for one queue."""

    queue: str
    paused_at: float | None  #: in seconds since 1970
    reason: str | None
    running_limit: int | None


async def read_controls(database: Database) -> dict[str, QueueControl]:
    """What operators have set, by queue."""
    paused_at = sql.epoch("paused_at", database.dialect)
    rows: list[QueueControl] = await database.fetch(
        f"SELECT queue, {paused_at} AS paused_at, reason, running_limit FROM tabellion_queues"
    )
    return {row["queue"]: row for row in rows}


def pause(queue: str, reason: str) -> Numbered:
    """Notes that a queue is paused."""
    return _write("paused_at, reason", f"{NOW}, $2", queue, reason)


def resume(queue: str) -> Numbered:
    """Notes that a queue is not paused any more."""
    return _write("paused_at, reason", "NULL, NULL", queue)


def limit(queue: str, running: int | None) -> Numbered:
    """Sets how many jobs may run at once; None: as declared."""
    return _write("running_limit", "$2", queue, running)


def touch(queue: str) -> Numbered:
    """Notes a change and sets nothing: workers watch these rows."""
    text = f"""INSERT INTO tabellion_queues (queue, updated_at) VALUES ($1, {NOW})
ON CONFLICT (queue) DO UPDATE SET updated_at = excluded.updated_at"""
    return text, [queue]


def ensure(queue: str) -> Numbered:
    """Adds a queue's row, which can be locked, if it is missing."""
    return f"INSERT INTO tabellion_queues (queue, updated_at) VALUES ($1, {NOW}) ON CONFLICT DO NOTHING", [queue]


def _write(columns: str, values: str, queue: str, *given: object) -> Numbered:
    changes = ", ".join(f"{column} = excluded.{column}" for column in (*columns.split(", "), "updated_at"))
    text = f"""INSERT INTO tabellion_queues (queue, {columns}, updated_at) VALUES ($1, {values}, {NOW})
ON CONFLICT (queue) DO UPDATE SET {changes}"""
    return text, [queue, *given]
