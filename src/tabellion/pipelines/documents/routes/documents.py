"""/api/documents: upload, get, list, read again, delete."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.messages import Message, quote_value
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents import reprocess as again
from tabellion.pipelines.documents.deleted_files import has_documents
from tabellion.pipelines.documents.row import DocumentDetail, ListedDocument, Review, Status
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.pipelines.documents.settings import Unknown
from tabellion.pipelines.documents.states import TABLE
from tabellion.reading.types.rules import Verdict
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.web import cursors
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.request_traces import trace_row
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, Whole, parse_body

router = APIRouter(route_class=Guarded, tags=["documents"])
REPLAYED = "Idempotency-Replayed"
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}($|[Tt ])")
_LIKE = re.compile("[!%_]")  #: characters with a meaning in LIKE


def _check_moment(text: Any) -> Any:
    # pydantic would take a number for seconds or milliseconds since 1970.
    if isinstance(text, str) and not _MOMENT.match(text):
        raise ValueError(Message("expected.moment"))
    return text


def _default_to_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[
    datetime,
    BeforeValidator(_check_moment),
    AfterValidator(_default_to_utc),
    WithJsonSchema({"anyOf": [{"type": "string", "format": kind} for kind in ("date-time", "date")]}),
]
Word = Annotated[str, Field(min_length=1, max_length=100)]


class ReprocessOptions(Strict):
    """Options for reading a document again; omitted ones stay unchanged."""

    type: Word | None = Field(default=None, description="A different document type.")
    model: Word | None = Field(default=None, description="A different model.")
    reopen: bool = Field(default=False, description="Whether to restart a finished review.")


class Document(DocumentDetail):
    """A document with everything known about it."""

    status_url: str


class Listed(ListedDocument):
    """A document in a list."""

    status_url: str


class Documents(Answer):
    """One page of a list, newest first."""

    documents: list[Listed]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]


class Restarted(Answer):
    """A document that will be read again."""

    id: str
    status: Status
    status_url: str


def status_url(id: str) -> str:  # noqa: A002
    """The URL of a document."""
    return f"/api/documents/{id}"


def _missing() -> Problem:
    return Problem(404, "not_found", Message("documents_api.not_found"), field="id")


def _running() -> Problem:
    return Problem(409, "document_running", fix=Message("documents_api.fix_wait"))


async def find_document(served: ServedDocuments, id: str) -> Document:  # noqa: A002
    """A document of this environment; raises the problem `not_found`, also for documents of other environments."""
    document = await lookup.get(served.store, id, served.settings.types.get)
    if document is None:
        raise _missing()
    return {**document, "status_url": status_url(id)}


def unknown_value(error: Unknown) -> Problem:
    """The problem with a type or model that does not exist."""
    return Problem(422, "value_invalid", Message(f"upload.no_such_{error.field}"), field=f"/{error.field}",
                   expected=Message("expected.one_of", names=list(error.known)),
                   fix=Message("upload.fix_choose", text=", ".join(error.known)))  # fmt: skip


def broken_type(error: TypeFileError) -> Problem:
    """The problem with the name of the type and its mistakes, without the path of its file."""
    file = Path(error.file)
    mistakes = [f"{file.name}:{mistake.line}:{mistake.column}: {mistake.what}" for mistake in error.mistakes]
    return Problem(
        422, "type_broken", Message("upload.type_unusable", value=quote_value(file.stem), text=mistakes[0]),
        field="/type",
        mistakes=mistakes,
        fix=Message("upload.fix_type_file", file=file.name),
    )  # fmt: skip


@router.get("/api/documents", response_model=Documents, summary="List documents")
async def list_documents(
    request: Request,
    status: Annotated[Status | None, Query(description="Only documents with this status.")] = None,
    type: Annotated[Word | None, Query(description="Only documents of this type.")] = None,  # noqa: A002
    verdict: Annotated[Verdict | None, Query(description="Only documents with this verdict.")] = None,
    review: Annotated[
        Review | None, Query(description="Only documents with this review state; pending: not finished.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Only documents uploaded at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Only documents uploaded before this time.")] = None,
    q: Annotated[str | None, Query(min_length=1, max_length=200, description="Only names with this text.")] = None,
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200, description="Documents per page.")] = 50,
) -> Response:
    """Documents without their fields, newest first."""
    served = served_documents(request)
    requested = {
        "status": status, "type": type, "verdict": verdict, "review": review, "created_after": since,
        "created_before": until,
        "name_like": None if q is None else "%" + _LIKE.sub(r"!\g<0>", q.lower()) + "%",
    }  # fmt: skip
    filters = {name: value for name, value in requested.items() if value is not None}
    question = {name: str(value) for name, value in filters.items()}
    key = await cursors.signing_key(request)
    start = cursors.place(key, served.name, question, cursor) if cursor is not None else None
    rows, following = await lookup.list_documents(served.store, filters, start, limit)
    onward = cursors.make_cursor(key, served.name, question, following) if following else None
    documents: list[Listed] = [{**row, "status_url": status_url(row["id"])} for row in rows]
    return answer(Documents(documents=documents, next=onward))


@router.get("/api/documents/{id}", response_model=Document, summary="Get a document")
async def show(
    request: Request,
    id: str,  # noqa: A002
    wait: Annotated[Whole, Query(ge=0, le=60, description="How many seconds to wait until it is finished.")] = 0,
) -> Response:
    """The complete document; with `wait`, the response is sent when it is finished or the time is over."""
    served = served_documents(request)
    document = await find_document(served, id)
    if wait and document["status"] not in lookup.ENDED:
        await _wait_until_ended(request, served, id, wait)
        document = await find_document(served, id)
    return answer(document)


async def _wait_until_ended(request: Request, served: ServedDocuments, id: str, seconds: float) -> None:  # noqa: A002
    until = asyncio.get_running_loop().time() + seconds
    async with served.updates.watch(id) as watch:
        while (left := until - asyncio.get_running_loop().time()) > 0 and not request.app.state.closing.is_set():
            news = await watch.next(min(left, 1.0))
            if news is not None and news.ended:
                return


@router.post(
    "/api/documents/{id}/reprocess", status_code=202, response_model=Restarted,
    openapi_extra=body_of(ReprocessOptions, required=False), summary="Read a document again",
)  # fmt: skip
async def reprocess(request: Request, id: str) -> Response:  # noqa: A002
    """Queues a document again; fields corrected by a person keep their values."""
    served = served_documents(request)
    body = await parse_body(request, ReprocessOptions, request.app.state.limits, empty=True)
    actor = request.state.holder.actor
    trace_row(request, TABLE, id)
    return await reprocess_document(served, id, actor, type=body.type, model=body.model, reopen=body.reopen)


async def reprocess_document(served: ServedDocuments, id: str, actor: str, **how: Any) -> Response:  # noqa: A002
    """Has a document read again, as another type or with another model; the response contains its URL."""
    try:
        restarted = await again.reprocess(served.store, served.settings, id, actor=actor, **how)
    except again.NoSuchDocument:
        raise _missing() from None
    except again.DocumentRunning:
        raise _running() from None
    except Unknown as error:
        raise unknown_value(error) from None
    except TypeFileError as error:
        raise broken_type(error) from None
    return answer(Restarted(id=restarted.id, status=restarted.status, status_url=status_url(restarted.id)), 202)


@router.delete("/api/documents/{id}", status_code=204, summary="Delete a document")
async def delete(request: Request, id: str) -> Response:  # noqa: A002
    """Deletes a document, its results, and its file unless another document has the same; cancels a queued one."""
    served = served_documents(request)
    document = await find_document(served, id)
    trace_row(request, TABLE, id)
    try:
        await again.delete(served.store, served.settings, id, actor=request.state.holder.actor)
    except again.NoSuchDocument:
        raise _missing() from None
    except again.DocumentRunning:
        raise _running() from None
    if not await has_documents(served.store, document["sha256"]):
        await served.pictures.forget(document["sha256"])
    return Response(status_code=204)
