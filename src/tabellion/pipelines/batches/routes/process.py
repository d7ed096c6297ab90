"""The contract of the chunked OCR service: `/process`, `/status/…`, and the callback of an orchestrator."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.delivery.signature import BadSignature
from tabellion.messages import Message
from tabellion.net.guard import is_loopback
from tabellion.pipelines.batches import lookup
from tabellion.pipelines.batches.callbacks import find_callback_secret
from tabellion.pipelines.batches.lookup import ChunkProgress
from tabellion.pipelines.batches.rate_limiter import RateLimiter
from tabellion.pipelines.batches.receiving import CallbackInvalid, receive_callback, store_callback
from tabellion.pipelines.batches.request import (
    Contradiction,
    NewChunk,
    StagedImages,
    UrlBlocked,
    UrlChecks,
    check_names,
    without_duplicates,
)
from tabellion.pipelines.batches.served import served_batches
from tabellion.pipelines.batches.spooling import at_line
from tabellion.pipelines.batches.submit import BatchConflict, ChunkConflict, submit_chunk
from tabellion.web import limits as bounds
from tabellion.web import strict_json
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import build_media_problem, build_problem, media_of

router = APIRouter(route_class=Guarded, tags=["chunks"])
LARGEST = 64_000_000  #: bytes of a chunk or a callback
JSON = "application/json"


class ChunkAccepted(Answer):
    """A chunk that was accepted, now or before."""

    status: Literal["accepted"]
    chunk_id: str
    total_pis: int
    total_refs: int


class ChunkStatus(ChunkProgress):
    """The status of a chunk, with the limiter that all chunks share."""

    rate_limiter: RateLimiter


class Received(Answer):
    """A callback that was received, now or before."""

    status: Literal["received", "repeated"]


@router.post(
    "/process", status_code=202, response_model=ChunkAccepted, openapi_extra=body_of(NewChunk), summary="Start a chunk"
)
async def process(request: Request) -> Response:
    """Accepts a chunk. The same chunk again is answered alike, other content under its id is 409."""
    served = served_batches(request)
    if media_of(request) != JSON:
        raise build_media_problem(media_of(request), JSON)
    data = await _read(request, LARGEST)
    checks = UrlChecks(request.app.state.rules)
    try:
        chunk = await asyncio.to_thread(_parse_chunk, data)  # a large one would delay every other request
        await checks.check(chunk.callback_url, "/callback_url")
        await checks.check_refs(chunk.pis)
        await submit_chunk(served.submissions, served.settings, chunk, request.state.holder.name)
    except (Contradiction, UrlBlocked, BatchConflict) as error:
        raise as_problem(error) from None
    refs = sum(len(pi.refs) for pi in chunk.pis)
    return answer(
        ChunkAccepted(status="accepted", chunk_id=chunk.chunk_id, total_pis=len(chunk.pis), total_refs=refs), 202
    )


@router.get("/status/{batch_id}/{chunk_id}", response_model=ChunkStatus, summary="Get the status of a chunk")
async def get_status(request: Request, batch_id: str, chunk_id: str) -> Response:
    """Its phase, the progress of its refs, and the limiter that all chunks share."""
    served = served_batches(request)
    found, limiter = await asyncio.gather(lookup.chunk_status(served.store, batch_id, chunk_id), served.limiter())
    if found is None:
        raise Problem(404, "not_found", Message("batch.no_chunk"), field="chunk_id")
    return answer(ChunkStatus(**found, rate_limiter=limiter))


@router.post("/ocr", status_code=410, summary="Former address of the service")
async def former_ocr(request: Request) -> Response:
    """Reading a single image at once was replaced by chunks."""
    raise Problem(410, "batch_gone", fix=Message("batch.fix_process"), successor="/process")


@router.post(
    "/callback/{batch_id}/ocr", response_model=Received, summary="Receive the callback of a chunk",
    openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}},
)  # fmt: skip
async def receive(request: Request, batch_id: str) -> Response:
    """The orchestrator's side: accepts a signed callback, once."""
    served = served_batches(request)
    settings = served.settings
    data = await _read(request, settings.most_bytes)
    try:
        fetch = served.store.database.fetch
        found = [await find_callback_secret(fetch, settings, origin) for origin in _own_origins(request)]
        id_, callback = receive_callback(request.headers, data, *filter(None, found))
        is_new = await store_callback(served.store, batch_id, id_, callback)
    except BadSignature:
        raise Problem(401, "auth_invalid", Message("batch.callback_signature"), fix=Message("batch.fix_sign")) from None
    except CallbackInvalid as error:
        raise Problem(422, "value_invalid", str(error), field="/") from None
    return answer(Received(status="received" if is_new else "repeated"))


def _own_origins(request: Request) -> list[str]:
    """The addresses of this server that may be callback URLs: the public one, and the loopback one that was called.

    Another name in the Host header proves nothing: its orchestrator has the secret of it.
    """
    public = request.app.state.config.public_url
    return [*([public] if public else []), *([str(request.url)] if is_loopback(request.url.hostname or "") else [])]


def _parse_chunk(data: bytes) -> NewChunk:
    """A chunk with each ref once; raises Problem or Contradiction."""
    try:
        chunk = NewChunk.model_validate(strict_json.loads(data))
    except ValidationError as error:
        raise build_problem(error.errors(include_url=False), NewChunk.model_fields) from None
    check_names(chunk.pis)
    pis = []
    with StagedImages() as images:
        for number, pi in enumerate(chunk.pis):
            pis.append(without_duplicates(pi, f"/pis/{number}")[0])
            images.add(pis[-1], f"/pis/{number}")
    return chunk.model_copy(update={"pis": pis})


async def _read(request: Request, limit: int) -> bytes:
    chunks = bounds.chunks(request, request.app.state.limits, min(limit, LARGEST))
    return b"".join([chunk async for chunk in chunks])


def as_problem(error: Contradiction | UrlBlocked | BatchConflict) -> Problem:
    """The problem of a request that cannot be accepted."""
    if isinstance(error, BatchConflict):
        field = "/chunk_id" if isinstance(error, ChunkConflict) else "/batch_id"
        return Problem(409, "batch_conflict", str(error), field=field, fix=Message("batch.fix_conflict"))
    if isinstance(error, UrlBlocked):
        problem = Problem(
            422, "url_blocked", str(error), field=error.field, reason=error.reason, fix=Message("batch.fix_url")
        )
    else:
        problem = Problem(422, "value_repeated", str(error), field=error.field)
    return problem if error.line is None else at_line(problem, error.line)
