"""The rows of `tabellion_workers`: which workers are alive, and how the others ended."""

from __future__ import annotations

from tabellion.answers import Answer
from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.sql import NOW

ALIVE = 20.0  # seconds since a worker was last seen; its heartbeat is more frequent
STOPPED = "stopped normally"  # the ending that a worker records itself


class WorkerFacts(Answer):
    """The columns of a worker's row that are shown unchanged."""

    id: str
    host: str
    pid: int
    version: str
    slots: int
    busy: int
    done: int
    failed: int
    retried: int
    ending: str | None


class WorkerRow(WorkerFacts):
    """A row of `tabellion_workers` without its times."""

    queues: str  #: separated by commas


class AgedWorker(WorkerRow):
    """The same with its ages in seconds."""

    seen_ago: float
    up_for: float


COLUMNS = ", ".join(WorkerRow.__annotations__)


async def read_workers(database: Database) -> list[AgedWorker]:
    """The workers that are alive in this database with their ages in seconds, newest first."""
    d = database.dialect
    age = f"{sql.epoch(NOW, d)} - {sql.epoch('seen_at', d)}"
    return await database.fetch(
        f"""SELECT {COLUMNS}, {age} AS seen_ago,
{sql.epoch(NOW, d)} - {sql.epoch("started_at", d)} AS up_for FROM tabellion_workers
WHERE stopped_at IS NULL AND {age} < {ALIVE} ORDER BY started_at DESC"""
    )
