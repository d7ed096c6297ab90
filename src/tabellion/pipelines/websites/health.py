"""The health of the phases: queue sizes, processors, processing times, success rates, retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.timestamps import iso
from tabellion.engine.worker_rows import read_workers
from tabellion.pipelines.websites.queues import models_queue, phase_queue
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.states import PHASES

if TYPE_CHECKING:
    from tabellion.engine.queue import Queue
    from tabellion.engine.store import Store

WINDOW = 3600.0  #: seconds of attempts that are judged
COUNTED = 100_000  #: rows of a state at most


class SlotStates(Answer):
    """The slots of a phase in all live workers, as the states of processors."""

    idle: int
    busy: int
    error: Annotated[int, Doc("Claims whose worker no longer renews them; they are released when their lease ends.")]


class PhaseHealth(Answer):
    """One phase."""

    name: str
    ready: Annotated[int, Doc("Jobs that wait for it.")]
    running: int
    failed: int
    workers: Annotated[int, Doc("Live workers that serve it.")]
    slots: SlotStates
    done: Annotated[int, Doc("Attempts that succeeded in the last hour.")]
    errors: Annotated[int, Doc("Attempts that ended in an error in the last hour.")]
    retries: Annotated[int, Doc("Attempts in the last hour that were not the first.")]
    success_rate: Annotated[float | None, Doc("Of the attempts of the last hour; null without any.")]
    seconds: Annotated[float | None, Doc("The mean time of a successful attempt.")]
    slowest: Annotated[float | None, Doc("The longest one, in seconds.")]
    oldest_at: Annotated[str | None, Doc("Since when the oldest running job has been held.")]


class WebsitesHealth(Answer):
    """All phases."""

    phases: list[PhaseHealth]
    backlog: Annotated[int, Doc("Jobs that wait for their visit.")]
    backlog_limit: int


async def measure(store: Store, settings: WebsiteSettings) -> WebsitesHealth:
    """The health of each phase now."""
    await store.open()
    queues = [*(phase_queue(settings, phase) for phase in PHASES), models_queue(settings)]
    workers = await read_workers(store.database)
    names = ", ".join(f"'{queue.name}'" for queue in queues)
    d = store.dialect
    took = f"({sql.epoch('settled_at', d)} - {sql.epoch('claimed_at', d)})"
    settled = await store.database.fetch(
        f"""SELECT queue, sum(CASE WHEN outcome = 'done' THEN 1 ELSE 0 END) AS done,
  sum(CASE WHEN outcome IN ('failed', 'retried', 'crashed', 'parked') THEN 1 ELSE 0 END) AS errors,
  sum(CASE WHEN attempt > 1 THEN 1 ELSE 0 END) AS retries,
  avg(CASE WHEN outcome = 'done' THEN {took} END) AS seconds, max(CASE WHEN outcome = 'done' THEN {took} END) AS slowest
FROM tabellion_attempts WHERE queue IN ({names}) AND settled_at > {sql.later(str(-WINDOW), d)} GROUP BY queue"""
    )
    held = await store.database.fetch(
        f"""SELECT queue, count(*) AS held, sum(CASE WHEN lease_until < {NOW} THEN 1 ELSE 0 END) AS expired,
  min({sql.epoch("claimed_at", d)}) AS oldest
FROM tabellion_attempts WHERE queue IN ({names}) AND settled_at IS NULL GROUP BY queue"""
    )
    by_queue = {row["queue"]: row for row in settled}, {row["queue"]: row for row in held}
    phases = [await _phase(store, settings, queue, workers, *by_queue) for queue in queues]
    return {"phases": phases, "backlog": phases[0]["ready"], "backlog_limit": settings.backlog}


async def _phase(
    store: Store, settings: WebsiteSettings, queue: Queue, workers: Any, settled: dict[str, Any], held: dict[str, Any]
) -> PhaseHealth:
    counts = await store.counts(queue, COUNTED)
    claims, past = held.get(queue.name), settled.get(queue.name)
    serving = [worker for worker in workers if queue.name in worker["queues"].split(",")]
    slots = sum(min(settings.slots_of(queue.name), worker["slots"]) for worker in serving)
    expired = int(claims["expired"] or 0) if claims else 0
    busy = (int(claims["held"]) if claims else 0) - expired
    done, errors = (int(past["done"] or 0), int(past["errors"] or 0)) if past else (0, 0)
    return {
        "name": queue.name, "ready": counts["ready"], "running": counts["running"], "failed": counts["failed"],
        "workers": len(serving), "slots": {"idle": max(0, slots - busy), "busy": busy, "error": expired},
        "done": done, "errors": errors, "retries": int(past["retries"] or 0) if past else 0,
        "success_rate": round(done / (done + errors), 4) if done + errors else None,
        "seconds": _round(past["seconds"]) if past else None, "slowest": _round(past["slowest"]) if past else None,
        "oldest_at": iso(claims["oldest"]) if claims else None,
    }  # fmt: skip


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(float(seconds), 3)
