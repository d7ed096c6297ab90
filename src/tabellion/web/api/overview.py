"""/api/overview: everything the dashboard shows, once or as a stream; /api/workers and /api/gates are parts of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.engine.values import json_text
from tabellion.errors import Unreachable
from tabellion.messages import Message
from tabellion.monitor.active_workers_feed import ActiveWorkers, ActiveWorkersFeed
from tabellion.monitor.gates import GatePicture
from tabellion.monitor.overview import OverviewPicture
from tabellion.monitor.overview_feed import News
from tabellion.monitor.workers import WorkerPicture
from tabellion.web.answers import HEARTBEAT, LOOK, STREAM, answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.streams import stream

router = APIRouter(route_class=Guarded, tags=["monitor"])


class Workers(Answer):
    """Live workers first, then those that stopped within the last hour."""

    at: str
    workers: list[WorkerPicture]


class Gates(Answer):
    """Every gate that is configured or has been used."""

    at: str
    gates: list[GatePicture]


@router.get("/api/overview", response_model=OverviewPicture, summary="Get an overview")
async def overview(request: Request) -> Response:
    """Queues, workers, gates, spend, review deadlines and throughput in one document."""
    environment: ServedEnvironment = request.state.environment
    return answer(await environment.monitor.picture())


@router.get("/api/workers", response_model=Workers, summary="List workers")
async def workers(request: Request) -> Response:
    """Live workers, and those that stopped within the last hour."""
    environment: ServedEnvironment = request.state.environment
    picture = await environment.monitor.picture()
    return answer(Workers(at=picture["at"], workers=picture["workers"]))


@router.get("/api/active-workers", response_model=ActiveWorkers, summary="List the workers of all environments")
async def active_workers(request: Request) -> Response:
    """Who works on what in every environment of the configuration, and which of them could not be read."""
    feed: ActiveWorkersFeed | None = request.app.state.active_workers
    if feed is None:
        raise Problem(404, "not_found", Message("problem.all_workers_off"), fix=Message("fix.all_workers"))
    return answer(await feed.read())


@router.get("/api/gates", response_model=Gates, summary="List gates")
async def gates(request: Request) -> Response:
    """The gates of the models: rate, breaker, budget, and whether calls are allowed."""
    environment: ServedEnvironment = request.state.environment
    picture = await environment.monitor.picture()
    if environment.monitor.overview.gates_problem is not None:
        raise Unreachable(environment.monitor.overview.gates_problem)
    return answer(Gates(at=picture["at"], gates=picture["gates"]))


@router.get("/api/overview/events", responses=STREAM, response_class=Response, summary="Stream the overview")
async def watch(request: Request) -> Response:
    """Sends an event `overview` whenever the overview changes, `trouble` while it cannot be read."""
    return stream(request, _events(request, request.state.environment))


async def _events(request: Request, environment: ServedEnvironment) -> AsyncIterator[str]:
    sent_at = time.monotonic()
    async with environment.monitor.watch() as subscription:
        while not request.app.state.closing.is_set():
            news = await subscription.next(LOOK)
            if news is not None:
                yield _event(news)
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at > HEARTBEAT:
                yield ": alive\n\n"
                sent_at = time.monotonic()


def _event(news: News) -> str:
    return f"event: {'trouble' if 'problem' in news else 'overview'}\ndata: {json_text(news)}\n\n"
