"""/api/users and /api/me: the users and their roles, and the current user."""

from __future__ import annotations

import logging
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from tabellion.accounts import links, passwords, sessions, users
from tabellion.accounts.keys import Holder, NameTaken
from tabellion.accounts.roles import Role, RoleWord
from tabellion.accounts.sessions import Ticket
from tabellion.answers import Answer, Doc
from tabellion.engine.timestamps import iso
from tabellion.errors import ConfigurationError
from tabellion.messages import Message
from tabellion.web import cookies, csrf, throttle
from tabellion.web.answers import answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.openapi import body_of
from tabellion.web.pages.page import language_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, parse_body

router = APIRouter(route_class=Guarded, tags=["people"])
logger = logging.getLogger("tabellion.web")
Reviewing = Literal["reviewer", "operator", "admin"]


class Me(Answer):
    """The current user or key."""

    name: str
    role: RoleWord
    environment: str
    language: str
    csrf: Annotated[str | None, Doc("To be sent as X-CSRF-Token with every change in a session; null for a key.")]


class UserResponse(Answer):
    """A user."""

    id: str
    name: str
    role: RoleWord
    available: bool
    has_password: bool
    language: str | None
    created_at: str
    last_seen_at: str | None
    disabled_at: str | None


class Users(Answer):
    """All users."""

    users: list[UserResponse]


class Reviewer(Answer):
    """A user who can review."""

    name: str
    role: Reviewing
    available: bool


class People(Answer):
    """The users who can review."""

    people: list[Reviewer]


class SignInLink(Answer):
    """A link that signs a user in once."""

    name: str
    url: str
    seconds: float


class NewUser(Strict):
    """A new user, who signs in with a link and then sets a password."""

    name: str = Field(min_length=1, max_length=64, description="Lower-case letters a-z, digits and . _ @ + -.")
    role: RoleWord


class Changes(Strict):
    """Changes to a user; omitted fields stay as they are."""

    role: RoleWord | None = None
    disabled: bool | None = Field(default=None, description="A disabled user is signed out immediately.")
    available: bool | None = Field(default=None, description="Whether review items are assigned to the user.")


class Preferences(Strict):
    """Your own settings; omitted fields stay as they are."""

    language: Literal["en", "fr"] | None = None
    available: bool | None = Field(default=None, description="Whether review items are assigned to you.")


class NewPassword(Strict):
    """A new password."""

    current: str | None = Field(default=None, max_length=passwords.LONGEST, description="The current password.")
    new: str = Field(min_length=1, max_length=passwords.LONGEST)


def serialize_user(user: users.User) -> UserResponse:
    """A user as JSON."""
    return {
        "id": user.id, "name": user.name, "role": user.role.word, "available": user.available,
        "has_password": user.has_password, "language": user.language, "created_at": iso(user.created_at),
        "last_seen_at": iso(user.last_seen_at), "disabled_at": iso(user.disabled_at),
    }  # fmt: skip


@router.get("/api/me", response_model=Me, summary="Get the current user")
async def me(request: Request) -> Response:
    """The holder of the key or session, and the CSRF token for changes."""
    holder: Holder = request.state.holder
    ticket: Ticket | None = request.app.state.auth.ticket(request)
    return answer(
        Me(
            name=holder.name, role=holder.role.word, environment=holder.environment, language=language_of(request),
            csrf=csrf.token(ticket.secret) if ticket else None,
        )
    )  # fmt: skip


@router.patch("/api/me", status_code=204, openapi_extra=body_of(Preferences), summary="Change your settings")
async def prefer(request: Request) -> Response:
    """Sets your language, or whether review items are assigned to you."""
    preferences = await parse_body(request, Preferences, request.app.state.limits)
    user = _person(request)
    await users.change(
        request.state.environment.store, user, language=preferences.language, available=preferences.available
    )
    return Response(status_code=204)


@router.put("/api/me/password", status_code=204, openapi_extra=body_of(NewPassword), summary="Set your password")
async def set_password(request: Request) -> Response:
    """Requires the current password, unless you have just signed in with a link. Ends your other sessions."""
    body = await parse_body(request, NewPassword, request.app.state.limits)
    store, holder, id_ = request.state.environment.store, request.state.holder, _person(request)
    user, hashed = await users.password_of(store, holder.name)
    if user is None:
        raise Problem(401, "session_ended", fix=Message("fix.sign_in_again"))
    if hashed is not None and not (holder.opened_by == "link" and holder.age < links.SECONDS):
        counted = throttle.subjects(request, holder.name)
        await throttle.admit(store, counted)
        if not await passwords.matches(hashed, body.current or ""):
            raise Problem(422, "password_wrong", field="/current", fix=Message("fix.current_password"))
        await throttle.forgive(store, counted)
    try:
        passwords.check_new(body.new, holder.name)
    except passwords.WeakPassword as error:
        raise Problem(422, "password_weak", str(error), field="/new", fix=Message("fix.longer_password")) from None
    await users.set_password(store, user, await passwords.hash_password(body.new), by=holder.actor)
    await sessions.end_all(store, id_, but=request.app.state.auth.ticket(request))
    logger.info("user %s set a password", holder.name)
    return Response(status_code=204)


@router.get("/api/people", response_model=People, summary="List reviewers")
async def people(request: Request) -> Response:
    """The names of the users who can review, for assigning work to them."""
    environment: ServedEnvironment = request.state.environment
    reviewers = [
        user
        for user in await users.list_users(environment.store)
        if not user.disabled_at and user.role >= Role.REVIEWER
    ]
    answers: list[Reviewer] = [
        {"name": user.name, "role": cast("Reviewing", user.role.word), "available": user.available}
        for user in reviewers
    ]
    return answer(People(people=answers))


@router.get("/api/users", response_model=Users, summary="List users")
async def list_users(request: Request) -> Response:
    """All users, including disabled ones."""
    environment: ServedEnvironment = request.state.environment
    return answer(Users(users=[serialize_user(user) for user in await users.list_users(environment.store)]))


@router.post(
    "/api/users", status_code=201, response_model=UserResponse, openapi_extra=body_of(NewUser), summary="Add a user"
)
async def add(request: Request) -> Response:
    """Adds a user, who has no password yet."""
    environment: ServedEnvironment = request.state.environment
    new_user = await parse_body(request, NewUser, request.app.state.limits)
    try:
        user = await users.add(environment.store, new_user.name, new_user.role, by=request.state.holder.actor)
    except NameTaken as error:
        raise Problem(409, "name_taken", str(error), field="/name", fix=Message("fix.other_name")) from None
    except ConfigurationError as error:
        raise Problem(422, "value_invalid", str(error), field="/name", expected=Message("expected.user_name")) from None
    logger.info("user %s added as %s by %s", user.name, user.role.word, request.state.holder.actor)
    return answer(serialize_user(user), 201)


@router.patch("/api/users/{id}", response_model=UserResponse, openapi_extra=body_of(Changes), summary="Change a user")
async def change(request: Request, id: str) -> Response:  # noqa: A002
    """Changes the role, enables or disables the user; takes effect immediately, also for open sessions."""
    environment: ServedEnvironment = request.state.environment
    if await users.find_by_id(environment.store, id) is None:
        raise _missing()
    changes = await parse_body(request, Changes, request.app.state.limits)
    try:
        user = await users.change(
            environment.store,
            id,
            role=changes.role,
            disabled=changes.disabled,
            available=changes.available,
            by=request.state.holder.actor,
        )
    except users.LastAdmin as error:
        raise Problem(409, "last_admin", str(error), fix=Message("fix.other_admin")) from None
    if user is None:
        raise _missing()
    logger.info("user %s: %s by %s", user.name, changes.model_dump(exclude_none=True), request.state.holder.actor)
    return answer(serialize_user(user))


@router.post("/api/users/{id}/link", status_code=201, response_model=SignInLink, summary="Create a sign-in link")
async def link(request: Request, id: str) -> Response:  # noqa: A002
    """A link that signs this user in once, within 15 minutes. It is shown only once."""
    environment: ServedEnvironment = request.state.environment
    user = await users.find_by_id(environment.store, id)
    if user is None:
        raise _missing()
    ticket = await links.make(environment.store, environment.name, user.name, by=request.state.holder.actor)
    if ticket is None:
        raise Problem(409, "user_disabled", fix=Message("fix.enable_user"))
    logger.info("sign-in link for %s created by %s", user.name, request.state.holder.actor)
    return answer(
        {"name": user.name, "url": links.address(cookies.origin(request), ticket), "seconds": links.SECONDS}, 201
    )


def _person(request: Request) -> str:
    holder: Holder = request.state.holder
    if holder.user is None:
        raise Problem(409, "session_needed", fix=Message("fix.use_browser"))
    return holder.user


def _missing() -> Problem:
    return Problem(404, "not_found", Message("problem.no_such_user"), field="id")
