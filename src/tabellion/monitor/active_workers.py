"""The workers of all environments: each with the jobs it holds, the oldest, the newest and a note."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.queue import Queue
from tabellion.engine.recovery import orphans
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.timestamps import iso
from tabellion.engine.worker_rows import read_workers
from tabellion.errors import AWAY, DeclarationError, NotMigrated, StoreError
from tabellion.messages import Translatable
from tabellion.monitor.workers import HeldJobs, held_jobs

SHOWN = 200


class WorkingWorker(Answer):
    """One worker and one queue of an environment; a worker that holds no job has no queue."""

    environment: str
    worker: Annotated[str | None, Doc("Null: rows that are running without the name of a worker.")]
    queue: str | None
    jobs: Annotated[int, Doc("How many jobs of this queue it holds.")]
    oldest_at: Annotated[str | None, Doc("When the job that it has held longest was claimed.")]
    newest_at: Annotated[str | None, Doc("When its latest job was claimed.")]
    note: Annotated[str | None, Doc("What the handler said last of its oldest job that has a note: `page 12 of 40`.")]
    translatable: Translatable | None
    registered: Annotated[bool, Doc("False: only the row names it; it does not use the register.")]


class ActiveWorker(WorkingWorker):
    """A worker with data of the job that its note is about."""

    key: str | None


async def active_workers(
    stores: Sequence[tuple[str, Store]], queues: Sequence[Queue]
) -> tuple[list[ActiveWorker], dict[str, str]]:
    """The workers of these environments in their order, and the errors of those that could not be reached, by name."""
    answers = await asyncio.gather(
        *(environment_workers(name, store, queues) for name, store in stores), return_exceptions=True
    )
    workers: list[ActiveWorker] = []
    problems: dict[str, str] = {}
    for (name, _), answer in zip(stores, answers, strict=True):
        if isinstance(answer, NotMigrated):
            continue  # no worker that uses the register has ever run here
        if isinstance(answer, StoreError):
            problems[name] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            workers += answer
    return workers, problems


async def environment_workers(environment: str, store: Store, queues: Sequence[Queue]) -> list[ActiveWorker]:
    """The workers of one environment; raises NotMigrated if it has no register, or one of another version."""
    await store.open()
    names = {queue.name for queue in queues}
    held = {
        worker: [entry for entry in jobs if entry["queue"] in names]
        for worker, jobs in (await held_jobs(store)).items()
    }
    working = [_active(environment, worker, entry) for worker, jobs in held.items() for entry in jobs]
    idle = [
        _idle(environment, worker["id"])
        for worker in await read_workers(store.database)
        if not held.get(worker["id"]) and names & set(worker["queues"].split(","))
    ]
    return [
        *working,
        *await _outsiders(environment, store, queues),
        *sorted(idle, key=lambda worker: worker["worker"] or ""),
    ]


async def _outsiders(environment: str, store: Store, queues: Sequence[Queue]) -> list[ActiveWorker]:
    """Workers that do not use the register, by the names in the rows that they hold."""
    outsiders: list[ActiveWorker] = []
    for queue in queues:
        try:
            outsiders += [
                _active(environment, worker, held, registered=False)
                for worker, held in await _count_unclaimed(store, queue)
            ]
        except AWAY:
            raise
        except (DeclarationError, StoreError):
            continue  # `status` reports what is wrong with the queue
    return outsiders


async def _count_unclaimed(store: Store, queue: Queue) -> list[tuple[str | None, HeldJobs]]:
    bound = await store.bind(queue)
    worker, since = queue.mirrors.get("worker"), _since(bound)
    worker_column = f"t.{sql.column(worker)}" if worker else "NULL"
    rows = await store.database.fetch(
        f"""SELECT worker, count(*) AS jobs, min(since) AS oldest, max(since) AS newest
FROM (SELECT {worker_column} AS worker, {since} AS since FROM {sql.name(queue.table)} AS t
  WHERE {sql.holds(queue.states["running"], store.dialect)} AND {orphans.is_unclaimed(bound)}) AS s
GROUP BY worker ORDER BY worker LIMIT {SHOWN}""",
        queue.name,
    )
    return [
        (row["worker"] or None, {"queue": queue.name, "jobs": int(row["jobs"]), "oldest_at": iso(row["oldest"]),
         "newest_at": iso(row["newest"]), "key": None, "note": None, "translatable": None})
        for row in rows
    ]  # fmt: skip


def _since(bound: Bound) -> str:
    return orphans.running_since(bound) if bound.age_columns() else "NULL"


def _active(environment: str, worker: str | None, held: HeldJobs, *, registered: bool = True) -> ActiveWorker:
    return {"environment": environment, "worker": worker, **held, "registered": registered}


def _idle(environment: str, worker: str) -> ActiveWorker:
    return {
        "environment": environment, "worker": worker, "queue": None, "jobs": 0, "oldest_at": None, "newest_at": None,
        "key": None, "note": None, "translatable": None, "registered": True,
    }  # fmt: skip
