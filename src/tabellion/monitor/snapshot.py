"""The current state of one environment: queues, running jobs, workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from tabellion.engine import counts, register_tables, sql
from tabellion.engine.control_rows import QueueControl, read_controls
from tabellion.engine.environment import Environment
from tabellion.engine.gates.stored_state import describe_closure
from tabellion.engine.queue import Queue
from tabellion.engine.recovery.parking import is_parked
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.worker_rows import AgedWorker, read_workers
from tabellion.errors import DeclarationError, NotMigrated, StoreError, Unreachable

JOBS_SHOWN = 200
ERRORS_SHOWN = 10
DAY = 86_400.0


@dataclass(slots=True)
class QueueSnapshot:
    """One queue in one environment."""

    queue: str
    table: str
    ready: int = 0
    waiting: int = 0  #: ready rows that are not due yet
    running: int = 0
    done: int = 0
    failed: int = 0
    cost: float = 0.0  #: dollars spent by its attempts in the last 24 hours
    foreign: int = 0  #: running without a claim in the register
    paused: bool = False
    reason: str | None = None
    gate: str | None = None  #: why its gate is closed, according to this database
    limit: int | None = None
    problem: str | None = None


class LiveJob(TypedDict):
    """A running job."""

    queue: str
    key: str
    attempt: int
    worker: str
    note: str | None
    seconds: float
    lease_left: float


class ErrorCount(TypedDict):
    """An error and the number of rows whose last error it is."""

    error: str | None
    n: int


@dataclass(slots=True)
class Snapshot:
    """One environment."""

    environment: str
    address: str
    up: bool
    problem: str | None = None
    register: str | None = None  #: why workers and attempts are unknown: the register is missing or too old
    queues: list[QueueSnapshot] = field(default_factory=list)
    jobs: list[LiveJob] = field(default_factory=list)
    workers: list[AgedWorker] = field(default_factory=list)


async def take(environment: Environment, store: Store, queues: Sequence[Queue]) -> Snapshot:
    """Reads the state; an environment that does not answer has `problem` set."""
    snapshot = Snapshot(environment.name, environment.address, up=False)
    try:
        try:
            await store.open()
        except NotMigrated as error:
            snapshot.register = str(error)
            snapshot.queues = [await _table_only(store, queue) for queue in queues]
            snapshot.up = True
            return snapshot
        snapshot.workers = await read_workers(store.database)
        control_rows = await read_controls(store.database)
        not_due, spent = await waiting(store), await _sum_costs(store)
        for queue in queues:
            picture = await _queue(store, queue, control_rows.get(queue.name), not_due.get(queue.name, 0))
            picture.cost = spent.get(queue.name, 0.0)
            snapshot.queues.append(picture)
        snapshot.jobs = await live_jobs(store)
        snapshot.up = True
    except StoreError as error:
        snapshot.problem = str(error)
    return snapshot


async def _queue(store: Store, queue: Queue, control: QueueControl | None, not_due: int) -> QueueSnapshot:
    picture = QueueSnapshot(queue.name, queue.table, limit=queue.limit)
    try:
        rows = await store.counts(queue)
        picture.foreign = await store.foreign(queue)
    except (Unreachable, NotMigrated):
        raise
    except (DeclarationError, StoreError) as error:
        picture.problem = problem_of(error)
        return picture
    if queue.uses is not None:
        closed = await describe_closure(store.database, queue.uses)
        picture.gate = f"gate {queue.uses} is closed: {closed}" if closed else None
    picture.ready, picture.running = rows["ready"], rows["running"]
    picture.done, picture.failed = rows["done"], rows["failed"]
    picture.waiting = min(not_due, picture.ready)
    if control is not None:
        picture.paused = control["paused_at"] is not None
        picture.reason = control["reason"] if picture.paused else None
        picture.limit = control["running_limit"] if control["running_limit"] is not None else queue.limit
    return picture


def problem_of(error: Exception) -> str:
    """Why a queue cannot be shown although its database answers."""
    return "; ".join(problem.what for problem in error.problems) if isinstance(error, DeclarationError) else str(error)


async def _table_only(store: Store, queue: Queue) -> QueueSnapshot:
    """The counts without a register: all running rows are foreign."""
    picture = QueueSnapshot(queue.name, queue.table, limit=queue.limit)
    try:
        rows = await store.counts(queue)
    except DeclarationError as error:
        picture.problem = problem_of(error)
        return picture
    picture.ready, picture.running = rows["ready"], rows["running"]
    picture.done, picture.failed, picture.foreign = rows["done"], rows["failed"], rows["running"]
    return picture


async def waiting(store: Store) -> dict[str, int]:
    """The number of rows of each queue that are not due yet."""
    rows = await store.database.fetch(
        f"""SELECT queue, count(*) AS n FROM {register_tables.attempts_due(store.dialect)}
WHERE retry_at > {sql.moment("$1", store.dialect)} GROUP BY queue""",
        await store.now(),
    )
    return {row["queue"]: int(row["n"]) for row in rows}


async def _sum_costs(store: Store) -> dict[str, float]:
    spent: dict[str, float] = {}
    for row in await counts.read(store.database, await store.now() - DAY):
        spent[row["queue"]] = spent.get(row["queue"], 0.0) + row["cost"]
    return spent


async def live_jobs(store: Store) -> list[LiveJob]:
    """The running jobs with their notes, oldest first."""
    d = store.dialect
    return await store.database.fetch(
        f"""SELECT queue, key, attempt, worker, note, {sql.epoch(NOW, d)} - {sql.epoch("claimed_at", d)} AS seconds,
{sql.epoch("lease_until", d)} - {sql.epoch(NOW, d)} AS lease_left
FROM tabellion_attempts WHERE settled_at IS NULL ORDER BY claimed_at LIMIT {JOBS_SHOWN}"""
    )


async def errors(store: Store, queue: Queue) -> list[ErrorCount]:
    """The most frequent last errors of rows that are failed or parked now: those that `retry --error` would retry."""
    try:
        bound = await store.bind(queue)
    except DeclarationError:
        return []
    return await store.database.fetch(
        f"""SELECT substr(a.error, 1, 160) AS error, count(*) AS n
FROM (SELECT CAST(t.{sql.column(bound.key.name)} AS text) AS key FROM {sql.name(queue.table)} AS t
  WHERE {queue.condition("failed", store.dialect)} OR {is_parked(bound)}) AS f
JOIN tabellion_attempts AS a ON a.queue = $1 AND a.key = f.key
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = $1 AND m.key = f.key)
GROUP BY substr(a.error, 1, 160) ORDER BY count(*) DESC LIMIT {ERRORS_SHOWN}""",
        queue.name,
    )
