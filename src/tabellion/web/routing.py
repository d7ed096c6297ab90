"""The checks before every endpoint: policy, authentication, rate, `Accept` and query parameters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from tabellion.accounts.roles import Role
from tabellion.messages import Message
from tabellion.web import csrf
from tabellion.web.problems import Problem
from tabellion.web.validation import build_problem

JSON = "application/json"


class Guarded(APIRoute):
    """A route with a policy; creating an application with a route without one fails.

    `response_model` is the type of its answer. Endpoints serialize their answers themselves: only the OpenAPI document
    needs the type, so FastAPI does not build a validator for it at each start.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], *, response_model: Any = None, **options: Any) -> None:
        super().__init__(path, endpoint, response_model=None, **options)
        self.answer_type = None if isinstance(response_model, DefaultPlaceholder) else response_model

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind its checks, ordered so that none reveals too much: existence, key, role, query."""
        answer = super().get_route_handler()
        known = {str(param.alias or param.name) for param in self.dependant.query_params}
        produced = _response_media(self)

        async def handle(request: Request) -> Response:
            role = request.app.state.policy[(request.method, self.path)]
            if role is not None:
                enter = request.app.state.auth.enter(request, role) if isinstance(role, Role) else role.enter(request)
                environment, holder = await enter
                request.state.environment, request.state.holder = environment, holder
                request.app.state.pace.check(holder.id)
            else:
                csrf.check_visit(request)
            check_accept(request.headers.get("accept", ""), produced)
            check_query(request.query_params.multi_items(), known)
            try:
                return await answer(request)
            except RequestValidationError as error:
                raise build_problem(error.errors()) from None

        return handle


def _response_media(route: APIRoute) -> tuple[str, ...]:
    declared = [
        media
        for status, response in route.responses.items()
        if str(status).startswith("2")
        for media in response.get("content", {})
    ]
    return tuple(declared) or (JSON,)


def check_query(pairs: list[tuple[str, str]], known: set[str]) -> None:
    """Rejects unknown and repeated parameters, and NUL, which databases do not accept."""
    names = [name for name, _ in pairs]
    for name, value in pairs:
        if name not in known:
            allowed = sorted(known)
            expected = Message("expected.one_of", names=allowed) if allowed else Message("expected.no_parameters")
            fix = Message("fix.known_parameters", names=allowed) if allowed else Message("fix.no_parameters")
            raise Problem(
                422, "value_unknown", Message("problem.parameter_unknown"), field=name[:100],
                fix=fix, expected=expected,
            )  # fmt: skip
        if names.count(name) > 1:
            raise Problem(
                422, "value_repeated", Message("problem.parameter_repeated"), field=name, fix=Message("fix.send_once")
            )
        if "\x00" in value:
            raise Problem(
                422, "value_invalid", Message("problem.parameter_nul"), field=name, expected=Message("expected.no_nul")
            )


def check_accept(header: str, produced: tuple[str, ...]) -> None:
    """Rejects a request whose `Accept` header excludes every content type of the response."""
    if not header.strip():
        return
    for part in header.split(","):
        accepted, *parameters = [piece.strip().lower() for piece in part.split(";")]
        is_excluded = any(piece.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for piece in parameters)
        major, _, minor = accepted.partition("/")
        if is_excluded:
            continue
        for media in produced:
            media_major, _, media_minor = media.partition("/")
            same_major = media_major in ("*", major) or major == "*"
            if same_major and (minor in ("*", media_minor) or media_minor == "*"):
                return
    raise Problem(
        406, "not_acceptable", Message("problem.response_is", types=list(produced)),
        fix=Message("fix.accept", type=produced[0]),
    )  # fmt: skip


def of_http_error(request: Request, error: HTTPException) -> Problem:
    """The router's error as a problem."""
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        return Problem(405, "method_not_allowed", fix=Message("fix.allowed", names=allowed), headers={"Allow": allowed})
    if error.status_code == 404:
        return Problem(404, "not_found", Message("problem.no_such_address"), fix=Message("fix.list_urls"))
    return Problem(400, "form_invalid", Message("problem.request_not_valid"))


def _methods(request: Request) -> set[str]:
    """The methods of all routes with this path; the router only reports those of the first."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in routes for method in route.methods}
    return methods | {"HEAD"} if "GET" in methods else methods
