"""/api/batches: submit whole batches, see their progress, chunks and errors; retry what failed, close what ended."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import Field, ValidationError
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.messages import Message
from tabellion.pipelines.batches import changes, failures, lookup
from tabellion.pipelines.batches.batch_rows import BatchHeader
from tabellion.pipelines.batches.callbacks import ChunkCallback, find_callback, message_id
from tabellion.pipelines.batches.lookup import Batch, Chunk, UndeliveredCallbacks
from tabellion.pipelines.batches.rate_limiter import RateLimiter
from tabellion.pipelines.batches.request import (
    Contradiction,
    Id,
    NewBatch,
    UrlBlocked,
    UrlChecks,
    content_hash,
)
from tabellion.pipelines.batches.routes.process import as_problem
from tabellion.pipelines.batches.served import ServedBatches, served_batches
from tabellion.pipelines.batches.spooling import SpooledBatch, add_lines, spool
from tabellion.pipelines.batches.states import is_id, work_name
from tabellion.pipelines.batches.submit import BatchConflict, SubmittedBatch, submit_batch
from tabellion.web import cursors, strict_json
from tabellion.web import limits as bounds
from tabellion.web.answers import answer
from tabellion.web.openapi import schema_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, Whole, build_media_problem, build_problem, media_of, parse_body

Value = TypeVar("Value")
router = APIRouter(route_class=Guarded, tags=["batches"])
JSON, JSONL = "application/json", "application/x-ndjson"
STREAMED = (JSONL, "application/jsonl", "application/x-jsonlines")
LARGEST_JSON = 100_000_000  #: bytes; a larger batch is sent as JSONL, which is not held in memory
PhaseName = Literal["PENDING", "FETCHING", "PROCESSING", "PUBLISHING", "DONE", "ERROR"]


class RetryBatch(Strict):
    """What is retried."""

    chunk_id: Id | None = Field(default=None, description="Only this chunk. [default: every chunk with failures]")


class Batches(Answer):
    """One page of a list, newest first."""

    batches: list[Batch]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]


class Chunks(Answer):
    """One page of a batch's chunks."""

    chunks: list[Chunk]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]


class BatchErrors(Answer):
    """The errors of a batch's refs, the most frequent first."""

    errors: list[failures.RefError]


class BatchDetail(Batch):
    """A batch with its callbacks, and the limiter that all chunks share."""

    undelivered_callbacks: UndeliveredCallbacks
    rate_limiter: RateLimiter


class RetriedBatch(Answer):
    """What was started again."""

    chunks: Annotated[int, Doc("Chunks that were started again.")]


SHAPES = (NewBatch, RetryBatch)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": schema_of(NewBatch)},
            JSONL: {"schema": {"type": "string", "description": "One entity on each line, as in `pis`."}},
        },
    }
}


@router.post("/api/batches", status_code=202, response_model=BatchDetail, openapi_extra=_BODY, summary="Submit a batch")
async def add_batch(
    request: Request,
    batch_id: Annotated[Id | None, Query(description="For JSONL: its id. [default: derived from its content]")] = None,
    callback_url: Annotated[str | None, Query(max_length=2048, description="For JSONL: where results go.")] = None,
    chunk_size: Annotated[Whole | None, Query(ge=1, le=1000, description="For JSONL: entities of a chunk.")] = None,
) -> Response:
    """Adds a batch of any size: as JSON, or as a stream of JSONL with its options in the query. Nothing runs before all
    of its rows are there. The same batch again is answered with its progress."""
    served = served_batches(request)
    media = media_of(request)
    checks = UrlChecks(request.app.state.rules)
    try:
        async with spool(checks) as batch:
            if media in STREAMED:
                if callback_url is not None:
                    await checks.check(callback_url, "/callback_url")
                limit = served.settings.most_bytes
                await add_lines(batch, bounds.chunks(request, request.app.state.limits, limit))
            elif media == JSON:
                body = await _parse(request)
                batch_id = _either("batch_id", body.batch_id, batch_id)
                callback_url = _either("callback_url", body.callback_url, callback_url)
                chunk_size = _either("chunk_size", body.chunk_size, chunk_size)
                if callback_url is not None:
                    await checks.check(callback_url, "/callback_url")
                await batch.add_all(body.pis)
            else:
                raise build_media_problem(media, f"{JSON}, {JSONL}")
            if not batch.pis:
                raise Problem(422, "value_missing", Message("batch.empty"), field="/pis")
            header = _header(served, batch, batch_id, callback_url, chunk_size, request.state.holder.name)
            submitted: SubmittedBatch = await submit_batch(served.submissions, served.settings, header, batch)
    except (Contradiction, UrlBlocked, BatchConflict) as error:
        raise as_problem(error) from None
    found = await find_batch(served, submitted.id)
    return answer(found, 202 if submitted.is_new else 200, {"Location": found["status_url"]})


def _either(name: str, in_body: Value | None, in_query: Value | None) -> Value | None:
    """An option that a JSON body or the query has; raises Problem if they differ."""
    if None not in (in_body, in_query) and in_body != in_query:
        raise Problem(422, "value_repeated", Message("batch.option_twice", name=name), field=f"/{name}")
    return in_query if in_body is None else in_body


@router.get("/api/batches", response_model=Batches, summary="List batches")
async def list_batches(
    request: Request,
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200, description="Batches per page.")] = 20,
) -> Response:
    """Batches with their progress, newest first."""
    served, key = served_batches(request), await cursors.signing_key(request)
    after = None
    if cursor is not None:
        at, _, id_ = cursors.place(key, served.name, {}, cursor).partition(" ")
        after = (float(at), id_)
    found, following = await lookup.list_batches(served.store, after, limit)
    onward = cursors.make_cursor(key, served.name, {}, f"{following[0]!r} {following[1]}") if following else None
    return answer(Batches(batches=found, next=onward))


@router.get("/api/batches/{batch_id}", response_model=BatchDetail, summary="Get a batch")
async def get_batch(request: Request, batch_id: str) -> Response:
    """A batch with its progress, counted from its rows."""
    return answer(await find_batch(served_batches(request), batch_id))


@router.get("/api/batches/{batch_id}/chunks", response_model=Chunks, summary="List the chunks of a batch")
async def list_chunks(
    request: Request,
    batch_id: str,
    phase: Annotated[PhaseName | None, Query(description="Only those in this phase.")] = None,
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200, description="Chunks per page.")] = 50,
) -> Response:
    """Chunks with the progress of their refs and the delivery of their callbacks."""
    served, key = served_batches(request), await cursors.signing_key(request)
    await _require(served, batch_id)
    question = {"batch": batch_id, "phase": phase}
    after = None
    if cursor is not None:
        position, _, id_ = cursors.place(key, served.name, question, cursor).partition(" ")
        after = (int(position), id_)
    found, following = await lookup.list_chunks(served.store, batch_id, phase=phase, after=after, limit=limit)
    onward = cursors.make_cursor(key, served.name, question, f"{following[0]} {following[1]}") if following else None
    return answer(Chunks(chunks=found, next=onward))


@router.get(
    "/api/batches/{batch_id}/chunks/{chunk_id}/callback", response_model=ChunkCallback,
    summary="Get the callback of a chunk",
)  # fmt: skip
async def get_callback(request: Request, batch_id: str, chunk_id: str) -> Response:
    """The body of the callback of a chunk that has ended, and its `webhook-id` as a header: as it was sent, or would be
    sent if the chunk has no `callback_url`."""
    served = served_batches(request)
    known = is_id(batch_id) and is_id(chunk_id)
    found = await find_callback(served.store, work_name(batch_id, chunk_id)) if known else None
    if found is None:
        raise Problem(404, "not_found", Message("batch.no_callback"), field="chunk_id")
    chunk, body = found
    return Response(body, headers={"webhook-id": message_id(chunk)}, media_type=JSON)


@router.get("/api/batches/{batch_id}/errors", response_model=BatchErrors, summary="List the errors of a batch")
async def list_errors(request: Request, batch_id: str) -> Response:
    """Failed refs by their error."""
    served = served_batches(request)
    await _require(served, batch_id)
    return answer(BatchErrors(errors=await failures.failed_refs(served.store, batch_id)))


@router.post(
    "/api/batches/{batch_id}/retry", status_code=202, response_model=RetriedBatch, summary="Retry a batch",
    openapi_extra={"requestBody": {"required": False, "content": {JSON: {"schema": schema_of(RetryBatch)}}}},
)  # fmt: skip
async def retry_batch(request: Request, batch_id: str) -> Response:
    """Starts chunks again that ended with failed refs or an error; what was read before is kept."""
    served = served_batches(request)
    await _require(served, batch_id)
    body = await parse_body(request, RetryBatch, request.app.state.limits, empty=True)
    if body.chunk_id is not None and await lookup.get_chunk(served.store, batch_id, body.chunk_id) is None:
        raise Problem(404, "not_found", Message("batch.no_chunk"), field="/chunk_id")
    return answer(RetriedBatch(chunks=await changes.retry_failed(served.store, batch_id, body.chunk_id)), 202)


@router.post("/api/batches/{batch_id}/close", response_model=BatchDetail, summary="Close a batch")
async def close_batch(request: Request, batch_id: str) -> Response:
    """Allows the rows of a batch to be pruned; a batch with open chunks is refused."""
    served = served_batches(request)
    await _require(served, batch_id)
    try:
        await changes.close(served.store, batch_id)
    except changes.StillOpen as error:
        raise Problem(409, "batch_open", str(error), field="batch_id", fix=Message("batch.fix_open")) from None
    return answer(await find_batch(served, batch_id))


async def find_batch(served: ServedBatches, batch_id: str) -> BatchDetail:
    """A batch of this environment; raises a 404 problem if there is none."""
    if not is_id(batch_id):
        raise _not_found()
    found, undelivered, limiter = await asyncio.gather(
        lookup.get_batch(served.store, batch_id), lookup.count_undelivered(served.store, batch_id), served.limiter()
    )
    if found is None:
        raise _not_found()
    return BatchDetail(**found, undelivered_callbacks=undelivered, rate_limiter=limiter)


async def _require(served: ServedBatches, batch_id: str) -> None:
    if not await lookup.has_batch(served.store, batch_id):
        raise _not_found()


def _not_found() -> Problem:
    return Problem(404, "not_found", Message("batch.not_found"), field="batch_id")


async def _parse(request: Request) -> NewBatch:
    chunks = bounds.chunks(request, request.app.state.limits, LARGEST_JSON)
    data = b"".join([chunk async for chunk in chunks])
    return await asyncio.to_thread(_validate, data)  # a large one would delay every other request


def _validate(data: bytes) -> NewBatch:
    try:
        return NewBatch.model_validate(strict_json.loads(data))
    except ValidationError as error:
        raise build_problem(error.errors(include_url=False), NewBatch.model_fields) from None


def _header(
    served: ServedBatches, batch: SpooledBatch, id_: str | None, callback_url: str | None, chunk_size: int | None,
    by: str,
) -> BatchHeader:  # fmt: skip
    size = chunk_size or served.settings.chunk_size
    hash_ = content_hash([batch.content_hash, size, callback_url])
    return BatchHeader(
        id_ or f"batch-{hash_[:16]}", hash_, size, callback_url, by, batch.pis, batch.refs, batch.duplicates
    )
