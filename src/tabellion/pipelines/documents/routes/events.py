"""Server-sent events: the states of documents as they change."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from tabellion.accounts.roles import Role
from tabellion.engine.values import json_text
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents.routes.documents import find_document
from tabellion.pipelines.documents.routes.updates import DocumentUpdate, UpdateSubscription
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.web.answers import EVENT_STREAM, HEARTBEAT, LOOK, STREAM
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.streams import while_let_in

router = APIRouter(route_class=Guarded, tags=["documents"])
_MOMENT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


@router.get("/api/documents/events", responses=STREAM, response_class=Response, summary="Stream all documents")
async def watch_all(request: Request) -> Response:
    """Sends an event `document` for each document that is added, changes or ends, from now or `Last-Event-ID` on."""
    served = served_documents(request)
    last = request.headers.get("last-event-id")
    if last and not _MOMENT.fullmatch(last):
        raise Problem(422, "value_invalid", "not a valid event id", field="Last-Event-ID",
                      expected="the id of an event of this stream", fix="omit it")  # fmt: skip
    return _stream(request, served, None, float(last) if last else None, "")


@router.get(
    "/api/documents/{id}/events", responses=STREAM | {204: {"description": "No more events will follow."}},
    response_class=Response, summary="Stream a document",
)  # fmt: skip
async def watch_one(request: Request, id: str) -> Response:  # noqa: A002
    """Sends an event `document` with its state, again at each change, until it is finished."""
    served = served_documents(request)
    document = await find_document(served, id)
    last = request.headers.get("last-event-id", "")
    if document["status"] in lookup.ENDED and last.startswith(f"{document['status']}."):
        return Response(status_code=204)  # tells the browser not to reconnect
    return _stream(request, served, id, None, last)


def _stream(request: Request, served: ServedDocuments, id: str | None, since: float | None, last: str) -> Response:  # noqa: A002
    streams = request.app.state.streams
    streams.check(request.state.holder.id)

    async def stream_events() -> AsyncIterator[str]:
        with streams.track(request.state.holder.id):
            async with served.updates.watch(id, since) as watch:
                async for text in while_let_in(request, Role.VIEWER, _events(request, served, watch, last)):
                    yield text

    return StreamingResponse(stream_events(), headers={"X-Accel-Buffering": "no"}, media_type=EVENT_STREAM)


async def _events(
    request: Request, served: ServedDocuments, watch: UpdateSubscription, last: str
) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    last_sent = time.monotonic()
    while not request.app.state.closing.is_set():
        news = await watch.next(LOOK)
        if news is not None and not (watch.id and news.mark == last):
            yield _event(news, watch)
            last_sent = time.monotonic()
        if news is not None and watch.id and news.ended:
            return
        if time.monotonic() - last_sent > HEARTBEAT:
            if watch.id and not await lookup.states(served.store, [watch.id]):
                yield f"event: deleted\ndata: {json_text({'id': watch.id})}\n\n"
                return
            yield ": alive\n\n"
            last_sent = time.monotonic()


def _event(news: DocumentUpdate, watch: UpdateSubscription) -> str:
    mark = news.mark if watch.id else f"{news.at:.6f}"
    return f"id: {mark}\nevent: document\ndata: {json_text(news.as_dict())}\n\n"
