"""The handlers of the phases: visit the website, form its prompt, ask models, gather their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tabellion.engine.ids import new_id
from tabellion.engine.job import Job
from tabellion.engine.sql import NOW
from tabellion.engine.tables.table import Row
from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.pipelines.websites import files, tables
from tabellion.pipelines.websites.analysis import ask_model
from tabellion.pipelines.websites.analysis_type import AnalysisType
from tabellion.pipelines.websites.prompts import form_prompt
from tabellion.pipelines.websites.result import AnalysisResult
from tabellion.pipelines.websites.rules.apply import LOCAL, apply_rules
from tabellion.pipelines.websites.settings import UnknownName, Visit, WebsiteSettings, find_chromium
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.states import AnalysisStatus

if TYPE_CHECKING:
    from tabellion.models.base import Model
    from tabellion.net.chromium import Chromium

ADD_ANALYSIS = f"""INSERT INTO {tables.ANALYSES} (id, job_id, model, status, created_at)
VALUES (:id, :job, :model, 'ready', {NOW}) ON CONFLICT (job_id, model) DO NOTHING"""
SAVE_ANALYSIS = f"""INSERT INTO {tables.ANALYSES}
  (id, job_id, model, status, started_at, finished_at, attempts, worker, result, cost, created_at)
VALUES (:id, :job, :model, 'completed', {NOW}, {NOW}, :attempts, :worker, :result, :cost, {NOW})
ON CONFLICT (job_id, model) DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at,
  attempts = excluded.attempts, worker = excluded.worker, error = NULL, result = excluded.result,
  cost = excluded.cost"""
FORGET_ANALYSES = f"DELETE FROM {tables.ANALYSES} WHERE job_id = :job"


class WebsiteHandlers:
    """The handlers of one worker in one environment; its browser and models are created when a job needs them."""

    def __init__(self, settings: WebsiteSettings) -> None:
        self._settings = settings
        self._models: dict[str, Model] = {}
        self._chromium: Chromium | None = None
        self._has_looked = False  #: for a browser

    async def inspect(self, job: Job) -> Row:
        """Phase 1: visits the website and stores what it found."""
        run, visit_settings = self._settings.run_visit, self._settings.visit
        if run is None:
            run = await asyncio.to_thread(_load_visit)
            visit_settings = replace(visit_settings, chromium=await self._find_chromium(job))
        info = await run(job["url"], visit_settings, job.folder, job.note)
        job.note(Message("website.note_storing"))
        return {**await files.save_info(self._settings.blobs, info, job.folder), "prompts_file": None, "results": None}

    async def form_prompts(self, job: Job) -> Row:
        """Phase 2: writes the prompt and stores it as it will be sent; several models get a row each."""
        kind = self._type_of(job)
        info = await self._info_of(job)
        prompt = await asyncio.to_thread(form_prompt, kind, info, job["language"])
        job.note(Message("website.note_prompt", n=prompt.tokens, kept=prompt.passages, of=prompt.of))
        models = json.loads(job["models"])
        job.also(FORGET_ANALYSES, job=job.text_key)  # of an earlier run of this job
        if len(models) > 1:
            for model in models:
                job.also(ADD_ANALYSIS, id=new_id(), job=job.text_key, model=model)
        return {"prompts_file": await files.save_prompt(self._settings.blobs, prompt)}

    async def ask_one(self, job: Job) -> Row:
        """One of several models: its answer is a row of its own."""
        rows = await self._fetch(job, f"SELECT * FROM {tables.JOBS} WHERE id = $1", job["job_id"])
        if not rows:
            raise Permanent(Message("website.job_gone"))
        result, cost = await self._analyse(job, rows[0], job["model"])
        return {"result": _dump(result), "cost": cost}

    async def analyse(self, job: Job) -> Row:
        """Phase 3: asks the model; if there are several, gathers what they said, as all of them have ended."""
        models = json.loads(job["models"])
        if len(models) == 1:
            result, cost = await self._analyse(job, job.values, models[0])
            job.also(
                SAVE_ANALYSIS, id=new_id(), job=job.text_key, model=models[0], attempts=job.attempt, worker=job.worker,
                result=_dump(result), cost=cost,
            )  # fmt: skip
            return {"results": json.dumps([digest(models[0], result, cost)], ensure_ascii=False), "cost": cost}
        rows = await self._fetch(
            job, f"SELECT model, status, error, result, cost FROM {tables.ANALYSES} WHERE job_id = $1", job.text_key
        )
        answered = [row for row in rows if row["status"] == AnalysisStatus.COMPLETED]
        if not answered:
            errors = "; ".join(f"{row['model']}: {row['error'] or ''}" for row in rows)
            raise Permanent(Message("website.all_failed", n=len(rows), detail=errors))
        order = {model: place for place, model in enumerate(models)}
        digests = [
            digest(row["model"], AnalysisResult.from_dict(json.loads(row["result"])), row["cost"])
            if row["status"] == AnalysisStatus.COMPLETED
            else {"model": row["model"], "error": row["error"]}
            for row in sorted(rows, key=lambda row: order.get(row["model"], len(order)))
        ]
        costs = [row["cost"] for row in answered if row["cost"] is not None]
        return {"results": json.dumps(digests, ensure_ascii=False), "cost": sum(costs) if costs else None}

    async def _analyse(self, job: Job, row: Any, model_name: str) -> tuple[AnalysisResult, float | None]:
        kind = self._type_of(row)
        info = await self._info_of(row)
        if model_name == LOCAL and kind.rules is not None:
            job.note(Message("website.note_rules"))
            return await asyncio.to_thread(apply_rules, kind, info), 0.0
        prompt = await self._load(files.load_prompt, row["prompts_file"])
        job.note(Message("website.note_asking", model=model_name))
        return await ask_model(self._model(model_name), kind, prompt, info, self._settings.model_deadline)

    def _type_of(self, row: Any) -> AnalysisType:
        try:
            return self._settings.get_type(row["type"])
        except UnknownName as error:
            raise Permanent(str(error)) from None

    async def _info_of(self, row: Any) -> WebsiteInfo:
        info: WebsiteInfo = await self._load(files.load_info, row["info_file"])
        return info

    async def _load(self, load: Callable[..., Awaitable[Any]], sha256: str | None) -> Any:
        try:
            if sha256 is None:
                raise FileNotFoundError
            return await load(self._settings.blobs, sha256)
        except FileNotFoundError:
            raise Permanent(Message("website.file_gone")) from None

    def _model(self, name: str) -> Model:
        if name not in self._models:
            if self._settings.make_model is None or name not in self._settings.models:
                known = [LOCAL, *self._settings.models]
                raise Permanent(Message("website.unknown_model", value=name, known=known))
            self._models[name] = self._settings.make_model(name)
        return self._models[name]

    async def _find_chromium(self, job: Job) -> Chromium | None:
        if not self._has_looked and self._settings.visit.browser != "never":
            self._chromium = await asyncio.to_thread(find_chromium, self._settings.visit.guard)
        self._has_looked = True
        if self._chromium is not None and job.context is not None:
            job.context.users.add(self._chromium)
        return self._chromium

    async def _fetch(self, job: Job, text: str, *values: Any) -> Sequence[Any]:
        assert job.context is not None  # noqa: S101 - every job of a worker has one
        return await job.context.fetch(text, *values)


def _load_visit() -> Visit:
    """The real visit; importing its parsers takes a while, and only workers need them."""
    from tabellion.pipelines.websites.site.visit import visit

    return visit


def digest(model: str, result: AnalysisResult, cost: float | None) -> dict[str, Any]:
    """What the job's own row says about one model's answer, for lists."""
    quotes, grounded = result.count_quotes()
    summary = result.fields.get("summary", ())
    levels = [item.level for items in result.fields.values() for item in items if item.level is not None]
    return {
        "model": model, "answered_by": result.answered_by, "score": result.first("score"),
        "summary": summary[0].as_dict() if summary else None, "cost": cost, "seconds": round(result.seconds, 3),
        "quotes": quotes, "grounded": grounded, "bad": levels.count("bad"), "warnings": levels.count("warning"),
    }  # fmt: skip


def _dump(result: AnalysisResult) -> str:
    return json.dumps(result.as_dict(), ensure_ascii=False)
