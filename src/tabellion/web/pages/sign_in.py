"""The sign-in page, one-time links, sign-out, and the start page."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import RedirectResponse, Response

from tabellion.accounts import links, passwords, sessions, users
from tabellion.accounts.sessions import Ticket
from tabellion.accounts.users import User
from tabellion.messages import Message
from tabellion.web import cookies, throttle
from tabellion.web.answers import answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.pages.page import PageRoute, home, local, page
from tabellion.web.problems import Problem
from tabellion.web.validation import Strict, parse_body

router = APIRouter(route_class=PageRoute)
logger = logging.getLogger("tabellion.web")
Next = Annotated[str | None, Query(max_length=2000)]


class Credentials(Strict):
    """A name and a password."""

    environment: str | None = Field(default=None, max_length=100)
    name: str = Field(min_length=1, max_length=users.LONGEST)
    password: str = Field(min_length=1, max_length=passwords.LONGEST)


class SignInToken(Strict):
    """A sign-in link to be used."""

    token: str = Field(min_length=1, max_length=300)


@router.get("/", response_class=Response)
async def start(request: Request) -> Response:
    """Redirects to the start page of the user's role."""
    return RedirectResponse(home(request), 303)


@router.get("/sign-in", response_class=Response)
async def sign_in_page(request: Request, next: Next = None) -> Response:  # noqa: A002
    """The sign-in page; redirects users who are signed in."""
    if await request.app.state.auth.visitor(request) is not None:
        return RedirectResponse(local(next), 303)
    return page(
        request, "sign_in.html", environments=list(request.app.state.auth.environments), data={"next": local(next)}
    )


@router.post("/sign-in", response_class=Response)
async def sign_in(request: Request) -> Response:
    """Signs a user in by password; neither the answer nor its timing reveals whether the user exists."""
    cookies.check_way(request)
    credentials = await parse_body(request, Credentials, request.app.state.limits)
    environment = _environment_of(request, credentials.environment)
    counted = throttle.subjects(request, credentials.name)
    try:
        await throttle.admit(environment.store, counted)
    except Problem:
        _record_refusal(request, "too many attempts")
        raise
    user, hashed = await users.password_of(environment.store, credentials.name)
    if not await passwords.matches(hashed, credentials.password) or user is None or hashed is None:
        _record_refusal(request, "wrong name or password")
        raise Problem(401, "sign_in_failed", fix=Message("fix.try_or_link"))
    await throttle.forgive(environment.store, counted)
    if passwords.is_outdated(hashed):
        await users.hash_anew(environment.store, user, await passwords.hash_password(credentials.password))
    return await open_session(request, environment, user, "password")


@router.get("/enter", response_class=Response)
async def enter_page(request: Request) -> Response:
    """The page of a sign-in link; its script posts the link, so that opening the page changes nothing."""
    return page(request, "enter.html")


@router.post("/enter", response_class=Response)
async def enter(request: Request) -> Response:
    """Uses a link: starts a session of its user; the link is then used up."""
    cookies.check_way(request)
    link = await parse_body(request, SignInToken, request.app.state.limits)
    auth = request.app.state.auth
    ticket = sessions.parse(link.token)
    environment: ServedEnvironment | None = auth.environments.get(ticket.environment) if ticket else None
    user = await links.use(environment.store, ticket) if environment and ticket else None
    if environment is None or user is None:
        _record_refusal(request, "the link is not valid")
        raise Problem(401, "link_invalid", fix=Message("fix.new_link"))
    return await open_session(request, environment, user, "link")


@router.post("/sign-out", status_code=204, response_class=Response)
async def sign_out(request: Request) -> Response:
    """Ends the session in the database, so that copies of its cookie are invalid."""
    response = Response(status_code=204, headers={"Clear-Site-Data": '"cache"'})
    ticket: Ticket | None = request.app.state.auth.ticket(request)
    if ticket is not None:
        await sessions.end(request.state.environment.store, ticket)
        cookies.drop(request, response, cookies.SESSION)
    return response


def _record_refusal(request: Request, why: str) -> None:
    """Logs a refused sign-in without the name, because people type passwords into that field."""
    template = "sign-in refused from %s: %s, request %s"
    logger.warning(template, throttle.address_of(request), why, request.state.request_id)


def _environment_of(request: Request, name: str | None) -> ServedEnvironment:
    environments: dict[str, ServedEnvironment] = request.app.state.auth.environments
    if name is None and len(environments) == 1:
        return next(iter(environments.values()))
    if name not in environments:
        raise Problem(422, "value_invalid", Message("problem.no_such_environment"), field="/environment",
                      expected=Message("expected.one_of", names=list(environments)))  # fmt: skip
    return environments[name]


async def open_session(request: Request, environment: ServedEnvironment, user: User, opened_by: str) -> Response:
    """Starts a session with a new cookie and ends the browser's previous one."""
    auth = request.app.state.auth
    old_ticket: Ticket | None = auth.ticket(request)
    if old_ticket is not None and old_ticket.environment in auth.environments:
        await sessions.end(auth.environments[old_ticket.environment].store, old_ticket)
    ticket = await sessions.begin(environment.store, environment.name, user.id, opened_by)
    logger.info("user %s signed in by %s", user.name, opened_by)
    response = answer({"name": user.name, "role": user.role.word, "environment": environment.name})
    cookies.put(request, response, cookies.SESSION, str(ticket))
    cookies.drop(request, response, cookies.VISIT)
    return response
