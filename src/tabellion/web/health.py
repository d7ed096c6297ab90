"""/healthz and /readyz: whether the process is alive, and whether submitted work will be done."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.engine import register_tables
from tabellion.engine.worker_rows import read_workers
from tabellion.errors import NotMigrated, StoreError, Unreachable
from tabellion.pipeline import Pipeline
from tabellion.web.answers import answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.routing import Guarded

router = APIRouter(route_class=Guarded, tags=["health"])
SECONDS = 5.0  #: for checking one environment
NOT_READY = {"application/json": {"schema": {"$ref": "#/components/schemas/Readiness"}}}


class Health(Answer):
    """Whether the process is alive."""

    status: Literal["alive"]


class EnvironmentHealth(Answer):
    """One environment; pipelines add what they check."""

    name: str
    database: Literal["ok", "unreachable", "not_migrated"]
    workers: int | None
    state: Literal["idle", "working", "paused", "no_worker", "unreachable"]


class Readiness(Answer):
    """Whether submitted work will be processed."""

    status: Literal["ready", "not_ready"]
    reasons: list[str]
    environments: list[EnvironmentHealth]


@router.get("/healthz", response_model=Health, summary="Check that the process is alive")
async def healthz() -> Response:
    """200 whenever the process can respond."""
    return answer(Health(status="alive"))


@router.get(
    "/readyz", response_model=Readiness, summary="Check that the service is ready",
    responses={503: {"content": NOT_READY, "description": "Not ready; the body lists the reasons."}},
)  # fmt: skip
async def readyz(
    request: Request,
    purpose: Annotated[
        Literal["work", "requests"],
        Query(alias="for", description="`requests`: only whether requests can be answered, for load balancers."),
    ] = "work",
) -> Response:
    """200 when every database answers, has its tables and a worker, and files can be written; 503 with the reasons when
    not. With `for=requests`, 200 unless the server is shutting down or no database answers: a load balancer must keep
    serving the pages that show what is wrong, and the environments that work. Files are not checked then: that can take
    longer than a load balancer waits."""
    state = request.app.state
    environments: dict[str, ServedEnvironment] = state.auth.environments
    healths = await asyncio.gather(
        *(
            _describe(environment, state.pipelines, with_files=purpose == "work")
            for environment in environments.values()
        )
    )
    reasons = [f"{report['name']}: {reason}" for report, found in healths for reason in found]
    if purpose == "requests" and any(report["database"] == "ok" for report, _ in healths):
        reasons = []
    if state.closing.is_set():
        reasons.append("the server is shutting down")
    readiness = {
        "status": "not_ready" if reasons else "ready",
        "reasons": reasons,
        "environments": [report for report, _ in healths],
    }
    return answer(readiness, 503 if reasons else 200)


async def _describe(
    environment: ServedEnvironment, pipelines: list[Pipeline], *, with_files: bool
) -> tuple[EnvironmentHealth, list[str]]:
    """One environment and why it is not ready, with what its pipelines check: their files."""
    checked = environment.served.values() if with_files else ()
    (report, reason), parts = await asyncio.gather(
        describe_environment(environment, pipelines), asyncio.gather(*(served.health() for served in checked))
    )
    reasons = [reason] if reason else []
    for part in parts:
        report = cast("EnvironmentHealth", {**report, **part.facts})
        reasons += part.reasons
    return report, reasons


async def describe_environment(
    environment: ServedEnvironment, pipelines: list[Pipeline]
) -> tuple[EnvironmentHealth, str]:
    """One environment, and why it is not ready; the route is open, so it reveals no addresses or errors."""
    report: EnvironmentHealth = {"name": environment.name, "database": "ok", "workers": None, "state": "unreachable"}
    main_queues = {
        queue: pipeline.name
        for pipeline in pipelines
        if (blueprint := pipeline.blueprint()) and (queue := blueprint.main_queue)
    }
    try:
        async with asyncio.timeout(SECONDS):
            await _check_migrated(environment, pipelines)
            workers = await read_workers(environment.store.database)
            paused = await _fetch_paused(environment)
    except NotMigrated as error:
        return {**report, "database": "not_migrated"}, f"the database is not migrated: run `{error}`"
    except (StoreError, TimeoutError):
        return report | {"database": "unreachable"}, "the database cannot be reached"
    queues_by_worker = [{name.strip() for name in worker["queues"].split(",")} for worker in workers]
    workers = [
        worker
        for worker, names in zip(workers, queues_by_worker, strict=True)
        if not main_queues or any(_is_for(queue, names) for queue in main_queues)
    ]
    busy = any(worker["busy"] for worker in workers)
    report["workers"], report["state"] = len(workers), "working" if busy else "idle" if workers else "no_worker"
    for queue, pipeline in main_queues.items():
        if not any(_is_for(queue, names) for names in queues_by_worker):
            report["state"] = "no_worker"
            fix = f"run `tabellion up`, or `tabellion worker --with {pipeline}`"
            return report, f"no worker for {pipeline} was seen: {fix}"
        if queue in paused:
            report["state"] = "paused"
            return report, f"the queue {queue} is paused: run `tabellion resume {queue} --with {pipeline}`"
    return report, ""


def _is_for(queue: str, names: set[str]) -> bool:
    """Whether a worker serves this queue, or one split off it, such as that of a model."""
    return any(name == queue or name.startswith(f"{queue}_") for name in names)


async def _fetch_paused(environment: ServedEnvironment) -> set[str]:
    rows = await environment.store.database.fetch("SELECT queue FROM tabellion_queues WHERE paused_at IS NOT NULL")
    return {row["queue"] for row in rows}


async def _check_migrated(environment: ServedEnvironment, pipelines: list[Pipeline]) -> None:
    """Raises NotMigrated with the command that creates missing tables; creates nothing."""
    database = environment.store.database
    await database.open()
    path = getattr(database, "path", None)  # of SQLite: a deleted file still answers as long as it is open
    if path is not None and not str(path).startswith(":") and not await asyncio.to_thread(os.path.exists, path):
        raise Unreachable("the database file is missing")
    is_current = await environment.store.version() >= register_tables.CURRENT
    if not is_current and not pipelines:
        raise NotMigrated("tabellion migrate")
    for pipeline in pipelines:
        is_current = is_current and all(
            [await schema.version(database) >= schema.current for schema in pipeline.all_schemas()]
        )
        if not is_current:
            raise NotMigrated(f"tabellion migrate --with {pipeline.name}")
