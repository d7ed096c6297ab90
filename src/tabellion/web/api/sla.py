"""/api/sla and /api/trends: whether targets are kept now, and how queues did in each hour."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.engine.timestamps import iso
from tabellion.monitor import trends as trends_of_queues
from tabellion.monitor.sla.compliance import TargetPicture, measure_all
from tabellion.monitor.trends import DAYS, MOST_DAYS, Trends
from tabellion.web.answers import answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.routing import Guarded

router = APIRouter(route_class=Guarded, tags=["monitor"])


class Compliance(Answer):
    """Every configured target."""

    at: str
    kept: Annotated[bool, Doc("Whether no target is missed now or breached.")]
    targets: list[TargetPicture]


@router.get("/api/sla", response_model=Compliance, summary="Check the SLA targets")
async def sla(request: Request) -> Response:
    """Measures every target of `[sla]` now, and tells which are kept; `state` is what alerts are based on."""
    environment: ServedEnvironment = request.state.environment
    await environment.store.open()
    targets = await environment.compliance.answer(("sla",), lambda: measure_all(environment.store, environment.targets))
    kept = all(one["kept"] is not False and one["state"] == "ok" for one in targets)
    return answer(Compliance(at=iso(await environment.store.now()), kept=kept, targets=targets))


@router.get("/api/trends", response_model=Trends, summary="Get trends")
async def trends(request: Request, days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = DAYS) -> Response:
    """Every queue by hour for the last days, from hourly snapshots."""
    environment: ServedEnvironment = request.state.environment
    await environment.store.open()
    return answer(await trends_of_queues.read_trends(environment.store, days))
