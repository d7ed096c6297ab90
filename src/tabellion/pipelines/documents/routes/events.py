"""Server-sent events: the states of documents as they change."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents.routes.documents import find_document
from tabellion.pipelines.documents.routes.updates import DocumentUpdate, UpdateSubscription
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.web.answers import HEARTBEAT, LOOK, STREAM
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.streams import stream

router = APIRouter(route_class=Guarded, tags=["documents"])
_MOMENT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


@router.get("/api/documents/events", responses=STREAM, response_class=Response, summary="Stream all documents")
async def watch_all(request: Request) -> Response:
    """Sends an event `document` for each document that is added, changes or ends, from now or `Last-Event-ID` on."""
    served = served_documents(request)
    last = request.headers.get("last-event-id")
    if last and not _MOMENT.fullmatch(last):
        raise Problem(422, "value_invalid", Message("documents_api.event_id_invalid"), field="Last-Event-ID",
                      expected=Message("documents_api.expected_event_id"),
                      fix=Message("documents_api.fix_omit"))  # fmt: skip
    return stream(request, _events(request, served, None, float(last) if last else None))


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
    return stream(request, _events(request, served, id, None, last))


async def _events(
    request: Request, served: ServedDocuments, id: str | None, since: float | None, last: str = ""  # noqa: A002
) -> AsyncIterator[str]:  # fmt: skip
    last_sent = time.monotonic()
    async with served.updates.watch(id, since) as watch:
        while not request.app.state.closing.is_set():
            news = await watch.next(LOOK)
            if news is not None and not (id and news.mark == last):
                yield _event(news, watch)
                last_sent = time.monotonic()
            if news is not None and id and news.ended:
                return
            if time.monotonic() - last_sent > HEARTBEAT:
                if id and not await lookup.states(served.store, [id]):
                    yield f"event: deleted\ndata: {json_text({'id': id})}\n\n"
                    return
                yield ": alive\n\n"
                last_sent = time.monotonic()


def _event(news: DocumentUpdate, watch: UpdateSubscription) -> str:
    mark = news.mark if watch.id else f"{news.at:.6f}"
    return f"id: {mark}\nevent: document\ndata: {json_text(news.as_dict())}\n\n"
