"""Coming and going: the sign-in page, one-time links, sign-out, and the start page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import RedirectResponse, Response

from tabellion.web import cookies, links, sessions
from tabellion.web.api.documents import answer
from tabellion.web.office import Office
from tabellion.web.pages.page import Page, home, local, page
from tabellion.web.problems import Problem
from tabellion.web.sessions import Ticket
from tabellion.web.users import User
from tabellion.web.validation import Strict, parsed

router = APIRouter(route_class=Page)
Next = Annotated[str | None, Query(max_length=2000)]


class Link(Strict):
    """A sign-in link to be used."""

    token: str = Field(min_length=1, max_length=300)


@router.get("/", response_class=Response)
async def start(request: Request) -> Response:
    """Where work begins."""
    return RedirectResponse(home(request.state.holder.role), 303)


@router.get("/sign-in", response_class=Response)
async def sign_in_page(request: Request, next: Next = None) -> Response:  # noqa: A002
    """The page that asks who is there; who is known already goes on."""
    if await request.app.state.door.visitor(request) is not None:
        return RedirectResponse(local(next), 303)
    return page(request, "sign_in.html", environments=list(request.app.state.door.offices), data={"next": local(next)})


@router.get("/enter", response_class=Response)
async def enter_page(request: Request) -> Response:
    """The page that a link leads to; its script hands the link in, so that looking at it changes nothing."""
    return page(request, "enter.html")


@router.post("/enter", response_class=Response)
async def enter(request: Request) -> Response:
    """Uses a link: a session of its user, and no other one after it."""
    cookies.check_way(request)
    wanted = await parsed(request, Link, request.app.state.limits)
    door = request.app.state.door
    ticket = sessions.parse(wanted.token)
    office: Office | None = door.offices.get(ticket.environment) if ticket else None
    user = await links.use(office.store, ticket) if office and ticket else None
    if office is None or user is None:
        raise Problem(401, "link_invalid", fix="`tabellion users link NAME` makes a new one")
    return await signed_in(request, office, user, "link")


@router.post("/sign-out", status_code=204, response_class=Response)
async def sign_out(request: Request) -> Response:
    """Ends the session here, so that its cookie is worth nothing wherever it still is."""
    response = Response(status_code=204)
    ticket: Ticket | None = request.app.state.door.ticket(request)
    if ticket is not None:
        await sessions.end(request.state.office.store, ticket)
        cookies.drop(request, response, cookies.SESSION)
    return response


async def signed_in(request: Request, office: Office, user: User, opened_by: str) -> Response:
    """The answer that begins a session, under a name that the browser did not have before."""
    before: Ticket | None = request.app.state.door.ticket(request)
    instead = before if before and before.environment == office.name else None
    ticket = await sessions.begin(office.store, office.name, user.id, opened_by, instead)
    response = answer({"name": user.name, "role": user.role.word, "environment": office.name})
    cookies.put(request, response, cookies.SESSION, str(ticket))
    cookies.drop(request, response, cookies.VISIT)
    return response
