"""/healthz and /readyz: is the process alive, and will work that is given now be done."""

from __future__ import annotations

import asyncio
import os
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.engine import register
from tabellion.engine.worker import heartbeat
from tabellion.errors import NotMigrated, StoreError, Unreachable
from tabellion.pipeline import Pipeline
from tabellion.web.answers import answer
from tabellion.web.blueprint import HealthFacts
from tabellion.web.environment import ServedEnvironment
from tabellion.web.routing import Guarded

router = APIRouter(route_class=Guarded, tags=["health"])
SECONDS = 5.0  #: for one environment's answer
NOT_READY = {"application/json": {"schema": {"$ref": "#/components/schemas/Readiness"}}}


class Health(Answer):
    """Whether the process is alive."""

    status: Literal["alive"]


class Station(HealthFacts):
    """One environment."""

    name: str
    database: Literal["ok", "unreachable", "not_migrated"]
    workers: int | None
    state: Literal["idle", "working", "paused", "no_worker", "unreachable"]


class Readiness(Answer):
    """Whether submitted work will be processed."""

    status: Literal["ready", "not_ready"]
    reasons: list[str]
    environments: list[Station]


@router.get("/healthz", response_model=Health, summary="Check that the process is alive")
async def healthz() -> Response:
    """200 whenever the process can respond."""
    return answer(Health(status="alive"))


@router.get(
    "/readyz", response_model=Readiness, summary="Check that the service is ready",
    responses={503: {"content": NOT_READY, "description": "Not ready; the body lists the reasons."}},
)  # fmt: skip
async def readyz(request: Request) -> Response:
    """200 when every database answers, has its tables and a worker, and files can be written; 503 with the reasons when
    not."""
    state = request.app.state
    environments: dict[str, ServedEnvironment] = state.auth.environments
    stations = await asyncio.gather(*(_whole(one, state.pipelines) for one in environments.values()))
    reasons = [f"{one['name']}: {reason}" for one, found in stations for reason in found]
    if state.closing.is_set():
        reasons.append("the server is shutting down")
    told = {
        "status": "not_ready" if reasons else "ready", "reasons": reasons, "environments": [one for one, _ in stations],
    }  # fmt: skip
    return answer(told, 503 if reasons else 200)


async def _whole(environment: ServedEnvironment, pipelines: list[Pipeline]) -> tuple[Station, list[str]]:
    (told, reason), parts = await asyncio.gather(
        station(environment, pipelines),
        asyncio.gather(*(served.health() for served in environment.served.values())),
    )
    reasons = [reason] if reason else []
    for part in parts:
        told = {**told, **part.facts}
        reasons += part.reasons
    return told, reasons


async def station(environment: ServedEnvironment, pipelines: list[Pipeline]) -> tuple[Station, str]:
    """One environment, and why it is not ready; nothing of addresses or errors is told to strangers."""
    told: Station = {"name": environment.name, "database": "ok", "workers": None, "state": "unreachable"}
    wanted = {queue: one.name for one in pipelines if (made := one.blueprint()) and (queue := made.main_queue)}
    try:
        async with asyncio.timeout(SECONDS):
            await _check_migrated(environment, pipelines)
            members = await heartbeat.members(environment.store)
            paused = await _fetch_paused(environment)
    except NotMigrated as error:
        return {**told, "database": "not_migrated"}, f"the database is not migrated: run `{error}`"
    except (StoreError, TimeoutError):
        return told | {"database": "unreachable"}, "the database cannot be reached"
    worked = [{name.strip() for name in one["queues"].split(",")} for one in members]
    workers = [
        one
        for one, names in zip(members, worked, strict=True)
        if not wanted or any(_is_for(queue, names) for queue in wanted)
    ]
    busy = any(one["busy"] for one in workers)
    told["workers"], told["state"] = len(workers), "working" if busy else "idle" if workers else "no_worker"
    for queue, pipeline in wanted.items():
        if not any(_is_for(queue, names) for names in worked):
            told["state"] = "no_worker"
            fix = f"run `tabellion up`, or `tabellion worker --with {pipeline}`"
            return told, f"no worker for {pipeline} was seen: {fix}"
        if queue in paused:
            told["state"] = "paused"
            return told, f"the queue {queue} is paused: run `tabellion resume {queue} --with {pipeline}`"
    return told, ""


def _is_for(queue: str, names: set[str]) -> bool:
    """Whether a worker works this queue, or one that was split off it, as that of a model."""
    return any(name == queue or name.startswith(f"{queue}_") for name in names)


async def _fetch_paused(environment: ServedEnvironment) -> set[str]:
    rows = await environment.store.database.fetch("SELECT queue FROM tabellion_queues WHERE paused_at IS NOT NULL")
    return {row["queue"] for row in rows}


async def _check_migrated(environment: ServedEnvironment, pipelines: list[Pipeline]) -> None:
    """Looks without making anything; raises with the command that makes what is missing."""
    database = environment.store.database
    await database.open()
    path = getattr(database, "path", None)  # of SQLite: a file that was deleted answers as long as it is open
    if path is not None and not str(path).startswith(":") and not await asyncio.to_thread(os.path.exists, path):
        raise Unreachable("the database file is missing")
    there = await environment.store.version() >= register.CURRENT
    for pipeline in pipelines:
        there = there and all([await schema.version(database) >= schema.current for schema in pipeline.all_schemas()])
        if not there:
            raise NotMigrated(f"tabellion migrate --with {pipeline.name}")
