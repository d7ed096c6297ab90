"""The queues of websites: three phases of `website_jobs` that meet, and one for several models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.sql import literal
from tabellion.engine.tables.table import Row
from tabellion.pipelines.websites import states, tables
from tabellion.pipelines.websites.handlers import WebsiteHandlers
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.states import WebsitePhase

#: Seconds between two lines about each queue in the log.
HEALTH = 30.0
#: A job with several models is ready for its last phase when each of them has ended.
NONE_OPEN = f"""NOT EXISTS (SELECT 1 FROM {tables.ANALYSES} AS a
  WHERE a.job_id = t.id AND a.status IN ('{states.AnalysisStatus.READY}', '{states.AnalysisStatus.RUNNING}'))"""


def website_queues(
    settings: WebsiteSettings, environments: Mapping[str, WebsiteSettings] | None = None,
    only: Sequence[str] | None = None,
) -> list[Queue]:  # fmt: skip
    """The queues with their handlers, later phases first: a job that is under way ends before another begins.

    `environments` are the settings of environments with their own files; `only` limits the queues to these jobs.
    """
    default = WebsiteHandlers(settings)
    own = {name: WebsiteHandlers(special) for name, special in (environments or {}).items()}

    async def inspect(job: Job) -> Row:
        return await own.get(job.environment, default).inspect(job)

    async def form_prompts(job: Job) -> Row:
        return await own.get(job.environment, default).form_prompts(job)

    async def analyse(job: Job) -> Row:
        return await own.get(job.environment, default).analyse(job)

    async def ask_one(job: Job) -> Row:
        return await own.get(job.environment, default).ask_one(job)

    queues = [
        phase_queue(settings, states.ANALYSIS, only), models_queue(settings, only),
        phase_queue(settings, states.PROMPTS, only), phase_queue(settings, states.INFO, only),
    ]  # fmt: skip
    for queue, handler in zip(queues, (analyse, ask_one, form_prompts, inspect), strict=True):
        queue.handler(handler)
    return queues


def phase_queue(settings: WebsiteSettings, phase: WebsitePhase, only: Sequence[str] | None = None) -> Queue:
    """The queue of a phase. A job fails in the phase whose error it has: all of them fail into the same state."""
    conditions = [NONE_OPEN] if phase is states.ANALYSIS else []
    return Queue(
        tables.JOBS, name=phase.queue, **phase.states, order=("created_at", "id"),
        where=_among(conditions, "t.id", only), failed_where=f"t.{phase.prefix}_error IS NOT NULL",
        worker=f"{phase.prefix}_worker", started_at=f"{phase.prefix}_started_at",
        finished_at=f"{phase.prefix}_finished_at", attempts=f"{phase.prefix}_attempts", error=f"{phase.prefix}_error",
        updated_at="updated_at", **_common(settings, phase.queue),
    )  # fmt: skip


def models_queue(settings: WebsiteSettings, only: Sequence[str] | None = None) -> Queue:
    """The models of jobs that ask several, each its own row."""
    return Queue(
        tables.ANALYSES, name=states.MODELS, **states.ANALYSES, order=("created_at", "id"),
        where=_among([], "t.job_id", only), worker="worker", started_at="started_at", finished_at="finished_at",
        attempts="attempts", error="error", **_common(settings, states.MODELS),
    )  # fmt: skip


def _common(settings: WebsiteSettings, queue: str) -> dict[str, Any]:
    return {
        "max_attempts": settings.retries + 1, "lease": settings.lease, "timeout": settings.timeout,
        "retry_base": settings.retry_base, "concurrency": settings.slots_of(queue),
        "pace": settings.pace, "health": HEALTH,
    }  # fmt: skip


def _among(conditions: list[str], column: str, only: Sequence[str] | None) -> str | None:
    if only is not None:
        names = ", ".join(literal(id_, "sqlite") for id_ in only) or "NULL"
        conditions = [*conditions, f"{column} IN ({names})"]
    return " AND ".join(conditions) or None
