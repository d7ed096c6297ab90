"""/api/documents: upload, get, list, read again, delete."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.messages import Message, Translatable, quote_value, translatable
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents import reprocess as again
from tabellion.pipelines.documents.routes.uploads import UPLOAD, Upload, fetch_link, receive_upload
from tabellion.pipelines.documents.row import ListedDocument, Review, Status, WholeDocument
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.pipelines.documents.settings import Unknown
from tabellion.pipelines.documents.submit import AlreadyThere, FileGone, submit
from tabellion.reading.types.rules import Verdict
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.web import cursors, idempotency
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, Whole, parse_body

router = APIRouter(route_class=Guarded, tags=["documents"])
REPLAYED = "Idempotency-Replayed"
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}($|[Tt ])")
_LIKE = re.compile("[!%_]")  #: characters with a meaning in LIKE


def _check_moment(text: Any) -> Any:
    # pydantic would take a number for seconds or milliseconds since 1970.
    if isinstance(text, str) and not _MOMENT.match(text):
        raise ValueError("must be a date, or a date and time (RFC 3339)")
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


class Again(Strict):
    """Options for reading a document again; omitted ones stay unchanged."""

    type: Word | None = Field(default=None, description="A different document type.")
    model: Word | None = Field(default=None, description="A different model.")
    reopen: bool = Field(default=False, description="Whether to restart a finished review.")


class Taken(Answer):
    """The outcome of one uploaded file."""

    id: Annotated[str | None, Doc("The id of the document; null if the file was rejected.")]
    status: Status | Literal["rejected"]
    status_url: Annotated[str | None, Doc("The URL of the document; for a rejected duplicate, of the original.")]
    name: str
    duplicate_of: Annotated[str | None, Doc("The document that has the same file.")]
    reason: NotRequired[Annotated[Literal["duplicate_rejected", "file_gone"], Doc("Why it was rejected.")]]
    detail: NotRequired[Annotated[str, Doc("Why it was rejected, as a sentence.")]]
    translatable: NotRequired[Translatable]


class Uploaded(Answer):
    """The documents of one upload, in the order of the files."""

    documents: list[Taken]


class Document(WholeDocument):
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


async def find_document(served: ServedDocuments, id: str) -> Document:  # noqa: A002
    """A document of this environment; raises the problem `not_found`, also for documents of other environments."""
    document = await lookup.get(served.store, id, served.settings.types.get)
    if document is None:
        raise _missing()
    return {**document, "status_url": status_url(id)}


@router.post(
    "/api/documents", status_code=202, openapi_extra=UPLOAD, response_model=Uploaded,
    summary="Upload documents",
)  # fmt: skip
async def upload(
    request: Request,
    name: Annotated[str | None, Query(max_length=1000, description="The file's name, for a plain body.")] = None,
    type: Annotated[Word | None, Query(description="The document type, for a plain body.")] = None,  # noqa: A002
    model: Annotated[Word | None, Query(description="The model, for a plain body.")] = None,
    webhook: Annotated[Word | None, Query(description="The webhook endpoint, for a plain body.")] = None,
) -> Response:
    """Uploads documents; each is read as soon as a worker is free. The response contains their URLs.

    Of several files, some may be `rejected`: a type with the policy `reject` rejects duplicates. Each rejected file
    is reported separately, and the others are accepted. The status is 409 only if all files are rejected.
    """
    served = served_documents(request)
    key = idempotency.key_of(request.headers.get(idempotency.HEADER))
    query = {"name": name, "type": type, "model": model, "webhook": webhook}
    options = {option: value for option, value in query.items() if value is not None}
    state = request.app.state
    async with receive_upload(request, served.blobs, state.limits, options) as received:
        _check(served, received)
        await _check_webhook(served, received.options.get("webhook"))
        blobs = await received.settle()
        parts: list[Any] = [
            "POST /api/documents",
            sorted(received.options.items()),
            [[blob.sha256, blob.name] for blob in blobs],
        ]
        if received.link is not None:
            parts.append([received.link.url, received.link.name])
        async with idempotency.reserve_key(
            served.store, request.state.holder.id, key, idempotency.fingerprint(parts), state.limits.fetch_seconds
        ) as reservation:
            if reservation.answer is not None:
                return answer(reservation.answer, 202, {REPLAYED: "true"})
            await fetch_link(received, served.blobs, state.limits, state.rules)
            blobs = await received.settle()
            taken: list[Taken] = []
            for blob in blobs:
                taken.append(await _submit_file(served, received, blob))
            if all(result["status"] == "rejected" for result in taken):
                raise _build_rejection(taken)
            reservation.given = {"documents": taken}
    address = taken[0]["status_url"] if len(taken) == 1 else None
    return answer(Uploaded(documents=taken), 202, {"Location": address} if address else None)


def _check(served: ServedDocuments, received: Upload) -> None:
    """Rejects an unknown type or model before anything is stored."""
    for name, value in received.options.items():
        if not value or len(value) > 100:
            raise Problem(422, "value_invalid", Message("problem.value"), field=f"/{name}",
                          expected="1 to 100 characters", fix="omit it, or send a valid name")  # fmt: skip
    try:
        kind = received.options.get("type")
        served.settings.choose_model(received.options.get("model"), served.settings.types.get(kind) if kind else None)
    except Unknown as error:
        raise _unknown(error) from None
    except TypeFileError as error:
        raise _build_type_problem(error) from None


def _unknown(error: Unknown) -> Problem:
    known = ", ".join(error.known)
    return Problem(422, "value_invalid", Message(f"upload.no_such_{error.field}"), field=f"/{error.field}",
                   expected=f"one of: {known}", fix=Message("upload.fix_choose", text=known))  # fmt: skip


def _build_type_problem(error: TypeFileError) -> Problem:
    """The problem with the name of the type and its mistakes, without the path of its file."""
    file = Path(error.file)
    mistakes = [f"{file.name}:{mistake.line}:{mistake.column}: {mistake.what}" for mistake in error.mistakes]
    return Problem(
        422, "type_broken", Message("upload.type_unusable", value=quote_value(file.stem), text=mistakes[0]),
        field="/type",
        mistakes=mistakes,
        fix=Message("upload.fix_type_file", file=file.name),
    )  # fmt: skip


async def _check_webhook(served: ServedDocuments, id: str | None) -> None:  # noqa: A002
    if id is None:
        return
    from tabellion.delivery import endpoints

    await endpoints.SCHEMA.prepare(served.store)
    if id not in {endpoint["id"] for endpoint in await endpoints.listing(served.store)}:
        raise Problem(422, "value_invalid", "webhook endpoint not found", field="/webhook",
                      expected="the id of an endpoint", fix="GET /api/webhooks lists them")  # fmt: skip


async def _submit_file(served: ServedDocuments, received: Upload, blob: Any) -> Taken:
    """The outcome of one file; a rejected one has the reason, and does not affect the others."""
    options = received.options
    try:
        submitted = await submit(
            served.store, served.settings, blob, type=options.get("type"), model=options.get("model"),
            webhook=options.get("webhook"),
        )  # fmt: skip
    except AlreadyThere as error:
        return {
            "id": None, "status": "rejected", "status_url": status_url(error.original), "name": blob.name,
            "duplicate_of": error.original, "reason": "duplicate_rejected", "detail": str(error),
            **translatable(detail=str(error)),
        }  # fmt: skip
    except FileGone:
        gone = Message("upload.deleted_meanwhile")
        return {
            "id": None, "status": "rejected", "status_url": None, "name": blob.name, "duplicate_of": None,
            "reason": "file_gone", "detail": gone, **translatable(detail=gone),
        }  # fmt: skip
    return {
        "id": submitted.id, "status": submitted.status, "status_url": status_url(submitted.id), "name": blob.name,
        "duplicate_of": submitted.duplicate_of,
    }  # fmt: skip


def _build_rejection(documents: list[Taken]) -> Problem:
    """The problem if every file was rejected: the first file's reason, and all files with their own."""
    first, reason = documents[0], documents[0].get("reason", "file_gone")
    fix = Message("upload.fix_again") if reason == "file_gone" else Message("upload.fix_original")
    return Problem(
        409, reason, first.get("detail", ""), original=first["duplicate_of"], original_url=first["status_url"],
        documents=documents if len(documents) > 1 else None, fix=fix,
    )  # fmt: skip


@router.get("/api/documents", response_model=Documents, summary="List documents")
async def listing(
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
    key = request.app.state.cursor_key
    start = cursors.place(key, served.name, question, cursor) if cursor is not None else None
    rows, following = await lookup.listing(served.store, filters, start, limit)
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
    openapi_extra=body_of(Again, required=False), summary="Read a document again",
)  # fmt: skip
async def reprocess(request: Request, id: str) -> Response:  # noqa: A002
    """Queues a document again; fields corrected by a person keep their values."""
    served = served_documents(request)
    body = await parse_body(request, Again, request.app.state.limits, empty=True)
    actor = request.state.holder.actor
    return await reprocess_document(served, id, actor, type=body.type, model=body.model, reopen=body.reopen)


async def reprocess_document(served: ServedDocuments, id: str, actor: str, **how: Any) -> Response:  # noqa: A002
    """Has a document read again, as another type or with another model; the response contains its URL."""
    try:
        restarted = await again.reprocess(served.store, served.settings, id, actor=actor, **how)
    except again.NoSuchDocument:
        raise _missing() from None
    except again.DocumentRunning as error:
        raise Problem(409, "document_running", str(error), fix="wait until it is finished") from None
    except Unknown as error:
        raise _unknown(error) from None
    except TypeFileError as error:
        raise _build_type_problem(error) from None
    return answer(Restarted(id=restarted.id, status=restarted.status, status_url=status_url(restarted.id)), 202)


@router.delete("/api/documents/{id}", status_code=204, summary="Delete a document")
async def delete(request: Request, id: str) -> Response:  # noqa: A002
    """Deletes a document, its results, and its file unless another document has the same; cancels a queued one."""
    served = served_documents(request)
    document = await find_document(served, id)
    try:
        await again.delete(served.store, served.settings, id, actor=request.state.holder.actor)
    except again.NoSuchDocument:
        raise _missing() from None
    except again.DocumentRunning as error:
        raise Problem(409, "document_running", str(error), fix="wait until it is finished") from None
    if not served.blobs.has(document["sha256"]):
        await served.pictures.forget(document["sha256"])
    return Response(status_code=204)
