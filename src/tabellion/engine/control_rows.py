"""The rows of `tabellion_queues`: what operators have set for each queue."""

from __future__ import annotations

from typing import TypedDict

from tabellion.engine import sql
from tabellion.engine.database import Database


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
