"""/healthz and /readyz: is the process alive, and will work that is given now be done."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.engine import register, roster
from tabellion.engine.errors import NotMigrated, StoreError
from tabellion.engine.values import json_text
from tabellion.pipelines.documents import tables as documents
from tabellion.web import shapes, tables
from tabellion.web.office import Office
from tabellion.web.routing import Guarded

router = APIRouter(route_class=Guarded, tags=["health"])
SECONDS = 5.0  #: for one environment's answer
QUEUE = "documents"


@router.get("/healthz", response_model=shapes.Health, summary="Is the process alive?")
async def healthz() -> Response:
    """Always, when it can answer at all."""
    return Response(json_text({"status": "alive"}), media_type="application/json")


@router.get(
    "/readyz", response_model=shapes.Readiness, summary="Will work be done?",
    responses={503: {"model": shapes.Readiness, "description": "Not now; the reasons are told."}},
)  # fmt: skip
async def readyz(request: Request) -> Response:
    """200 when every database answers, has its tables and has a worker; 503 with the reasons when not."""
    offices: dict[str, Office] = request.app.state.door.offices
    stations = await asyncio.gather(*(station(office) for office in offices.values()))
    reasons = [f"{one['name']}: {reason}" for one, reason in stations if reason]
    if request.app.state.closing.is_set():
        reasons.append("the server is going down")
    told = {
        "status": "not_ready" if reasons else "ready", "reasons": reasons, "environments": [one for one, _ in stations],
    }  # fmt: skip
    return Response(json_text(told), 503 if reasons else 200, media_type="application/json")


async def station(office: Office) -> tuple[dict[str, Any], str]:
    """One environment, and why it is not ready; nothing of addresses or errors is told to strangers."""
    told: dict[str, Any] = {"name": office.name, "database": "ok", "workers": None, "state": "unreachable"}
    try:
        async with asyncio.timeout(SECONDS):
            await _migrated(office)
            workers = [one for one in await roster.members(office.store) if QUEUE in one["queues"]]
    except NotMigrated:
        return told | {"database": "not_migrated"}, "the database is not migrated: run `tabellion migrate`"
    except (StoreError, TimeoutError):
        return told | {"database": "unreachable"}, "the database does not answer"
    busy = any(one["busy"] for one in workers)
    told |= {"workers": len(workers), "state": "working" if busy else "idle" if workers else "no_worker"}
    return told, "" if workers else "no worker for documents was seen: run `tabellion worker` or `tabellion up`"


async def _migrated(office: Office) -> None:
    """Looks without making anything."""
    database = office.store.database
    await database.open()
    there = await office.store.version() >= register.CURRENT and await documents.version(database) >= documents.CURRENT
    if not there or not await tables.exist(office.store):
        raise NotMigrated()
