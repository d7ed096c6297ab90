"""/api/review: statistics, and a stream of changes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.pipelines.documents.review import items
from tabellion.pipelines.documents.review import statistics as numbers
from tabellion.pipelines.documents.routes.documents import Moment
from tabellion.pipelines.documents.routes.review_request import ReviewContext, review_context
from tabellion.web.answers import HEARTBEAT, LOOK, STREAM, answer
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.streams import stream

router = APIRouter(route_class=Guarded, tags=["review"])
USUAL = 30 * 86_400.0  #: seconds of the default period
SHEET = "text/csv"
SHEETS: dict[int | str, dict[str, Any]] = {200: {"content": {SHEET: {"schema": {"type": "string"}}}}}
Since = Annotated[Moment | None, Query(description="Finished at or after this time; default: 30 days ago.")]
Until = Annotated[Moment | None, Query(description="Finished before this time; default: now.")]


@router.get("/api/review/numbers", response_model=numbers.Numbers, summary="Review statistics")
async def get_numbers(request: Request, since: Since = None, until: Until = None) -> Response:
    """Seconds and keystrokes per document, corrections per field, agreement and deadlines, per person and in total."""
    return answer(await _numbers(request, since, until))


@router.get("/api/review/numbers.csv", responses=SHEETS, response_class=Response, summary="Review statistics as CSV")
async def sheet(
    request: Request,
    since: Since = None,
    until: Until = None,
    per: Annotated[Literal["person", "field"], Query(description="One row per person or per field.")] = "person",
) -> Response:
    """Review statistics as CSV; no cell is a formula."""
    statistics = await _numbers(request, since, until)
    text = numbers.per_person(statistics) if per == "person" else numbers.per_field(statistics)
    name = {"Content-Disposition": f'attachment; filename="review-{per}.csv"'}
    return Response(text, 200, name, f"{SHEET}; charset=utf-8")


async def _numbers(request: Request, since: Moment | None, until: Moment | None) -> numbers.Numbers:
    context = await review_context(request)
    end = until.timestamp() if until is not None else await context.store.now()
    begin = since.timestamp() if since is not None else end - USUAL
    if begin >= end:
        raise Problem(422, "value_invalid", Message("documents_api.period_reversed"), field="since",
                      expected=Message("documents_api.expected_earlier"),
                      fix=Message("documents_api.fix_swap"))  # fmt: skip
    return await numbers.numbers(context.store, begin, end)


@router.get("/api/review/events", responses=STREAM, response_class=Response, summary="Stream the review queue")
async def watch(request: Request) -> Response:
    """Sends an event `review` with the number of items, immediately and after every change."""
    return stream(request, _events(request, await review_context(request)))


async def _events(request: Request, context: ReviewContext) -> AsyncIterator[str]:
    known, last_sent = -1, time.monotonic()
    changes = context.served.review_changes
    async with changes.poll():
        while not request.app.state.closing.is_set():
            n = await changes.wait_for_change(known, LOOK)
            if n != known:
                known, last_sent = n, time.monotonic()
                counts = await items.counts(context.store, context.person)
                yield f"id: {n}\nevent: review\ndata: {json_text({'counts': counts})}\n\n"
            elif time.monotonic() - last_sent > HEARTBEAT:
                last_sent = time.monotonic()
                yield ": alive\n\n"
