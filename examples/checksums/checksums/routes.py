"""The routes and the page of the checksums pipeline."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tabellion.accounts.roles import Role
from tabellion.web.answers import answer
from tabellion.web.blueprint import Blueprint, NavItem
from tabellion.web.pages.page import PageRoute
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, parse_body

from .pipeline import add_text, list_newest

api = APIRouter(route_class=Guarded, tags=["checksums"])
pages = APIRouter(route_class=PageRoute)


class Text(Strict):
    """The body of a request."""

    content: str


@api.post("/api/checksums", status_code=202, summary="Send a text")
async def send(request: Request) -> Response:
    text = await parse_body(request, Text, request.app.state.limits)
    if not text.content:
        raise Problem(422, "checksum_empty", field="/content")
    id_ = await add_text(request.state.environment.store, text.content, request.state.holder.actor)
    return answer({"id": id_}, 202)


@api.get("/api/checksums", summary="List checksums")
async def listing(request: Request) -> Response:
    return answer({"checksums": await list_newest(request.state.environment.store)})


@pages.get("/checksums", response_class=Response)
async def page(request: Request) -> Response:
    rows = await list_newest(request.state.environment.store)
    return Response("\n".join(f"{one['sha256']}  {one['id']}" for one in rows), media_type="text/plain")


BLUEPRINT = Blueprint(
    routers=(api, pages),
    policy={("POST", "/api/checksums"): Role.OPERATOR, ("GET", "/api/checksums"): Role.VIEWER},
    pages={("GET", "/checksums"): Role.VIEWER},
    places=(NavItem("/checksums", "checksums.nav", "numbers", order=60),),
    problems=("checksum_empty",),
    main_queue="checksums",
)
