"""Reads website jobs: lists, one with the answers of its models, and what their workers last said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.columns import TIMES
from tabellion.engine.ids import is_id
from tabellion.engine.last_attempts import AttemptRow, last_attempts
from tabellion.engine.timestamps import iso
from tabellion.messages import Translatable
from tabellion.monitor.fingerprint import attempt_forms
from tabellion.pipelines.websites import tables
from tabellion.pipelines.websites.states import PHASES, JobStatus

if TYPE_CHECKING:
    from tabellion.engine.store import Store

FILTERS = ("status", "type", "normalized_url")


class PhaseFacts(Answer):
    """One phase of a job."""

    name: Annotated[str, Doc("The phase's queue: website-analysis, prompt-forming or model-analysis.")]
    state: Annotated[str, Doc("waiting, ready, running, done or failed.")]
    attempts: int
    retries: Annotated[int, Doc("Attempts after the first one.")]
    worker: Annotated[str | None, Doc("The worker that has it, or had it last.")]
    started_at: str | None
    finished_at: str | None
    seconds: Annotated[float | None, Doc("How long its last attempt took.")]
    note: Annotated[str | None, Doc("The progress of its worker.")]
    error: Annotated[str | None, Doc("Why its last attempt failed.")]
    translatable: NotRequired[Translatable]


class ModelDigest(Answer, total=False):
    """One model's answer in short."""

    model: str
    answered_by: str
    score: float | None
    summary: dict[str, Any] | None
    cost: float | None
    seconds: float
    quotes: Annotated[int, Doc("Quotes and other sources that it gave.")]
    grounded: Annotated[int, Doc("How many of them were found on the website.")]
    bad: int
    warnings: int
    error: str | None


class Website(Answer):
    """A website job."""

    id: str
    url: str
    normalized_url: str
    type: str
    models: list[str]
    language: str
    status: Annotated[str, Doc("not-started, prompt-forming, model-analysis, completed or failed.")]
    in_progress: Annotated[bool, Doc("Whether a worker has it.")]
    title: str | None
    phases: list[PhaseFacts]
    results: list[ModelDigest]
    cost: float | None
    has_screenshot: bool
    has_favicon: bool
    created_at: str | None
    updated_at: str | None
    status_url: str


class ModelAnalysis(Answer):
    """What one model said about a website."""

    model: str
    status: str
    attempts: int
    error: str | None
    cost: float | None
    result: Annotated[dict[str, Any] | None, Doc("Values by field, each with its sources.")]


class WebsiteDetail(Website):
    """A job with what its visit found and what models said."""

    info: Annotated[dict[str, Any] | None, Doc("What the visit found, without the texts of its pages.")]
    analyses: list[ModelAnalysis]


class PhaseRow(TypedDict):
    """The columns of one phase, without its prefix."""

    attempts: int | None
    worker: str | None
    error: str | None
    started_at: float | None
    finished_at: float | None


class WebsiteRow(TypedDict):
    """A row of `website_jobs`, times in seconds since 1970."""

    id: str
    url: str
    normalized_url: str
    type: str
    models: str  #: JSON
    language: str
    status: str
    inProgress: bool
    title: str | None
    info: str | None  #: JSON
    info_file: str | None
    screenshot_file: str | None
    favicon_file: str | None
    prompts_file: str | None
    results: str | None  #: JSON
    cost: float | None
    created_at: float
    updated_at: float
    phases: list[PhaseRow]


class _AnalysisRow(TypedDict):
    model: str
    status: str
    attempts: int
    error: str | None
    cost: float | None
    result: str | None  #: JSON


async def get(store: Store, id_: str) -> WebsiteDetail | None:
    """A job by its id, or None."""
    row = await get_row(store, id_)
    if row is None:
        return None
    analyses: list[_AnalysisRow] = await store.database.fetch(
        f"SELECT {', '.join(_AnalysisRow.__annotations__)} FROM {tables.ANALYSES} WHERE job_id = $1", id_
    )
    [job] = await describe(store, [row])
    order = {model: place for place, model in enumerate(job["models"])}
    found = [
        ModelAnalysis(
            model=one["model"], status=one["status"], attempts=one["attempts"], error=one["error"], cost=one["cost"],
            result=json.loads(one["result"]) if one["result"] else None,
        )
        for one in sorted(analyses, key=lambda one: order.get(one["model"], len(order)))
    ]  # fmt: skip
    return WebsiteDetail(**job, info=json.loads(row["info"]) if row["info"] else None, analyses=found)


async def get_row(store: Store, id_: str) -> WebsiteRow | None:
    """The row of a job, or None."""
    rows = await _rows(store, "t.id = $1", [id_], 1) if is_id(id_) else []
    return rows[0] if rows else None


async def list_jobs(
    store: Store, filters: Mapping[str, str], after: str | None, limit: int
) -> tuple[list[Website], str | None]:
    """Jobs, newest first, and the id after which the next page starts (None on the last one)."""
    conditions, values = ["1 = 1"], []
    for name, value in filters.items():
        values.append(value)
        conditions.append(f"t.{name} = ${len(values)}")
    if after is not None:
        values.append(after)
        conditions.append(f"t.id < ${len(values)}")
    rows = await _rows(store, " AND ".join(conditions), values, limit + 1)
    return await describe(store, rows[:limit]), rows[limit - 1]["id"] if len(rows) > limit else None


async def _rows(store: Store, where: str, values: Sequence[Any], limit: int) -> list[WebsiteRow]:
    d = store.dialect
    columns = [
        sql.epoch(f"t.{phase.prefix}_{name}", d) + f" AS {phase.prefix}_{name}"
        if name.endswith(TIMES)
        else f"t.{phase.prefix}_{name}"
        for phase in PHASES
        for name in PhaseRow.__annotations__
    ]
    columns += [f"{sql.epoch(f't.{name}', d)} AS {name}" for name in ("created_at", "updated_at")]
    rows = await store.database.fetch(
        f"""SELECT t.id, t.url, t.normalized_url, t.type, t.models, t.language, t.status, t."inProgress", t.title,
  t.info, t.info_file, t.screenshot_file, t.favicon_file, t.prompts_file, t.results, t.cost, {", ".join(columns)}
FROM {tables.JOBS} AS t WHERE {where} ORDER BY t.id DESC LIMIT {int(limit)}""",
        *values,
    )
    for row in rows:
        row["phases"] = [{name: row[f"{phase.prefix}_{name}"] for name in PhaseRow.__annotations__} for phase in PHASES]
    return rows


async def describe(store: Store, rows: Sequence[WebsiteRow]) -> list[Website]:
    """Rows in the format of the API, with the notes of workers and the codes of errors."""
    attempts = await last_attempts(store.database, [phase.queue for phase in PHASES], [row["id"] for row in rows])
    return [
        Website(
            id=row["id"], url=row["url"], normalized_url=row["normalized_url"], type=row["type"],
            models=json.loads(row["models"]), language=row["language"], status=row["status"],
            in_progress=bool(row["inProgress"]), title=row["title"],
            phases=[_phase(row, number, attempts) for number in range(len(PHASES))],
            results=json.loads(row["results"]) if row["results"] else [], cost=row["cost"],
            has_screenshot=bool(row["screenshot_file"]), has_favicon=bool(row["favicon_file"]),
            created_at=iso(row["created_at"]), updated_at=iso(row["updated_at"]),
            status_url=f"/api/websites/{row['id']}",
        )
        for row in rows
    ]  # fmt: skip


def _phase(row: WebsiteRow, number: int, attempts: Mapping[tuple[str, str], AttemptRow]) -> PhaseFacts:
    queue, phase = PHASES[number].queue, row["phases"][number]
    last = attempts.get((queue, row["id"]))
    started, finished = phase["started_at"], phase["finished_at"]
    count = phase["attempts"] or 0
    state = state_of(row, number)
    took = finished - started if started is not None and finished is not None and finished >= started else None
    facts = PhaseFacts(
        name=queue, state=state, attempts=count, retries=max(0, count - 1), worker=phase["worker"],
        started_at=iso(started), finished_at=iso(finished) if state in ("done", "failed") else None,
        seconds=round(took, 3) if took is not None and state in ("done", "failed") else None,
        note=last["note"] if last is not None and last["settled_at"] is None else None,
        error=phase["error"],
    )  # fmt: skip
    forms = attempt_forms(last) if last is not None else {}
    if last is None or last["error"] != facts["error"]:
        forms.pop("error", None)
    if forms:
        facts["translatable"] = forms
    return facts


def state_of(row: WebsiteRow, number: int) -> str:
    """The state of a job's phase."""
    statuses = [phase.status.value for phase in PHASES]
    if row["status"] == JobStatus.COMPLETED:
        return "done"
    if row["status"] == JobStatus.FAILED:
        failed = next((place for place, phase in enumerate(row["phases"]) if phase["error"]), 0)
        return "failed" if number == failed else "done" if number < failed else "waiting"
    here = statuses.index(row["status"]) if row["status"] in statuses else 0
    if number == here:
        return "running" if row["inProgress"] else "ready"
    return "done" if number < here else "waiting"
