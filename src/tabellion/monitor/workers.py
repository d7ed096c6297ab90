"""The workers of a database for people: alive, stopped, or lost (not seen any more)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from tabellion.answers import Answer, Doc
from tabellion.engine import sql, worker_rows
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.messages import Translatable, load_form

REMEMBERED = 3600.0  #: seconds for which a worker that has ended is still shown
SHOWN = 200
WorkerState = Literal["alive", "stopped", "lost"]


class HeldJobs(Answer):
    """The jobs of one queue that a worker holds."""

    queue: str
    jobs: int
    oldest_at: Annotated[str | None, Doc("When the job that it has held longest was claimed.")]
    newest_at: Annotated[str | None, Doc("When its latest job was claimed.")]
    key: Annotated[str | None, Doc("The row whose note is shown.")]
    note: Annotated[str | None, Doc("What the handler said last of its oldest job that has a note: `page 12 of 40`.")]
    translatable: Translatable | None


class WorkerPicture(worker_rows.WorkerFacts):
    """A worker."""

    state: WorkerState
    queues: list[str]
    holds: Annotated[list[HeldJobs], Doc("The jobs that it holds, by queue.")]
    seen_at: str
    started_at: str
    stopped_at: str | None


class FleetPicture(Answer):
    """The number of workers, however many are shown."""

    alive: int
    stopped: Annotated[int, Doc("Workers that were stopped in the last hour.")]
    crashed: Annotated[int, Doc("Workers of the last hour that others found dead: killed, or ended by an error.")]
    lost: Annotated[int, Doc("Workers of the last hour that ended without saying so.")]
    slots: Annotated[int, Doc("Slots of the live workers.")]
    busy: Annotated[int, Doc("How many of them are in use.")]


class _Row(worker_rows.WorkerRow):
    age: float
    seen_at: float
    started_at: float
    stopped_at: float | None


async def workers(store: Store) -> list[WorkerPicture]:
    """The live workers, the oldest first, then those that ended within the hour, the last first; at most `SHOWN`."""
    d = store.dialect
    age = f"({sql.epoch(NOW, d)} - {sql.epoch('seen_at', d)})"
    is_alive = f"stopped_at IS NULL AND {age} < {worker_rows.ALIVE}"
    rows: list[_Row] = await store.database.fetch(
        f"""SELECT {worker_rows.COLUMNS}, {age} AS age,
  {sql.epoch("seen_at", d)} AS seen_at, {sql.epoch("started_at", d)} AS started_at,
  {sql.epoch("stopped_at", d)} AS stopped_at FROM tabellion_workers
WHERE {age} < {REMEMBERED}
ORDER BY CASE WHEN {is_alive} THEN 0 ELSE 1 END, CASE WHEN {is_alive} THEN started_at END,
  seen_at DESC, id LIMIT {SHOWN}"""
    )
    held = await held_jobs(store)
    return [_worker(row, held.get(row["id"], [])) for row in rows]


async def count_workers(store: Store) -> tuple[FleetPicture, dict[str, int]]:
    """The number of workers by state, with their slots, and of live workers by queue."""
    d = store.dialect
    age = f"({sql.epoch(NOW, d)} - {sql.epoch('seen_at', d)})"
    rows = await store.database.fetch(
        f"""SELECT queues, state, count(*) AS n, sum(slots) AS slots, sum(busy) AS busy FROM (
  SELECT queues, slots, busy, CASE WHEN stopped_at IS NOT NULL THEN
    CASE WHEN ending <> '{worker_rows.STOPPED}' THEN 'crashed' ELSE 'stopped' END WHEN {age} < {worker_rows.ALIVE}
    THEN 'alive' ELSE 'lost' END AS state FROM tabellion_workers WHERE {age} < {REMEMBERED}) AS w
GROUP BY queues, state"""
    )
    fleet: FleetPicture = {"alive": 0, "stopped": 0, "crashed": 0, "lost": 0, "slots": 0, "busy": 0}
    by_queue: Counter[str] = Counter()
    for row in rows:
        state: Literal["alive", "stopped", "crashed", "lost"] = row["state"]
        fleet[state] += int(row["n"])
        if state == "alive":
            fleet["slots"] += int(row["slots"])
            fleet["busy"] += int(row["busy"])
            by_queue.update(dict.fromkeys(row["queues"].split(","), int(row["n"])))
    return fleet, by_queue


async def held_jobs(store: Store) -> dict[str, list[HeldJobs]]:
    """The jobs that each worker holds, by queue."""
    claimed_at = sql.epoch("claimed_at", store.dialect)
    rows = await store.database.fetch(
        f"""SELECT worker, queue, jobs, oldest, newest, key, note, note_form FROM (
  SELECT worker, queue, key, note, note_form, count(*) OVER held AS jobs, min({claimed_at}) OVER held AS oldest,
    max({claimed_at}) OVER held AS newest, row_number() OVER (PARTITION BY worker, queue
      ORDER BY CASE WHEN note IS NULL THEN 1 ELSE 0 END, claimed_at, key) AS place
  FROM tabellion_attempts WHERE settled_at IS NULL WINDOW held AS (PARTITION BY worker, queue)) AS s
WHERE place = 1 ORDER BY worker, queue"""
    )
    held: dict[str, list[HeldJobs]] = {}
    for row in rows:
        form = load_form(row["note_form"])
        held.setdefault(row["worker"], []).append(
            {
                "queue": row["queue"], "jobs": row["jobs"], "oldest_at": iso(row["oldest"]),
                "newest_at": iso(row["newest"]), "key": row["key"] if row["note"] else None, "note": row["note"],
                "translatable": {"note": form} if form else None,
            }
        )  # fmt: skip
    return held


def _state(row: _Row) -> WorkerState:
    return "stopped" if row["stopped_at"] is not None else "alive" if row["age"] < worker_rows.ALIVE else "lost"


def _worker(row: _Row, held: list[HeldJobs]) -> WorkerPicture:
    return {
        "id": row["id"], "state": _state(row), "host": row["host"], "pid": row["pid"], "version": row["version"],
        "queues": [name for name in row["queues"].split(",") if name], "holds": held,
        "slots": row["slots"], "busy": row["busy"],
        "done": row["done"], "failed": row["failed"], "retried": row["retried"], "ending": row["ending"],
        "seen_at": iso(row["seen_at"]), "started_at": iso(row["started_at"]), "stopped_at": iso(row["stopped_at"]),
    }  # fmt: skip
