"""The routes under /api/checksums and their roles."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tabellion.accounts.roles import Role
from tabellion.answers import Answer
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.policy import Policy
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, parse_body

from .texts import add_text, list_newest

router = APIRouter(route_class=Guarded, tags=["checksums"])
POLICY: Policy = {("POST", "/api/checksums"): Role.OPERATOR, ("GET", "/api/checksums"): Role.VIEWER}


class Text(Strict):
    """The body of a request."""

    content: str


class ChecksumAdded(Answer):
    """A text that is queued."""

    id: str


class Checksum(Answer):
    """A text with its checksum, once a worker has computed it."""

    id: str
    status: str
    sha256: str | None


class ChecksumList(Answer):
    """The newest texts."""

    checksums: list[Checksum]


@router.post(
    "/api/checksums", status_code=202, summary="Send a text", response_model=ChecksumAdded, openapi_extra=body_of(Text)
)
async def send(request: Request) -> Response:
    """The text is queued; the answer has its id."""
    text = await parse_body(request, Text, request.app.state.limits)
    if not text.content:
        raise Problem(422, "checksum_empty", field="/content")
    id_ = await add_text(request.state.environment.store, text.content, request.state.holder.actor)
    return answer({"id": id_}, 202)


@router.get("/api/checksums", summary="List checksums", response_model=ChecksumList)
async def list_checksums(request: Request) -> Response:
    """The newest first."""
    return answer({"checksums": await list_newest(request.state.environment.store)})
