"""The application: environments behind one sign-in, every address with a role, every error a problem."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from tabellion.accounts import tables
from tabellion.config import Config
from tabellion.delivery import endpoints
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError, StoreError
from tabellion.monitor.overview import Overview
from tabellion.monitor.overview_feed import OverviewFeed
from tabellion.monitor.view import QueueView, together
from tabellion.net.guard import Rules
from tabellion.pipeline import Pipeline
from tabellion.web import blueprint, cursors, health, openapi, policy, reference
from tabellion.web.api import overview, queues, users, webhooks
from tabellion.web.auth import Authenticator
from tabellion.web.blueprint import Blueprint
from tabellion.web.environment import ServedEnvironment
from tabellion.web.headers import HeadersMiddleware
from tabellion.web.limits import RequestLimits
from tabellion.web.pace import RateLimiter
from tabellion.web.pages import dashboard, people, static
from tabellion.web.pages import sign_in as door
from tabellion.web.pages.page import PLACES, error_page
from tabellion.web.problems import Problem
from tabellion.web.routing import of_http_error
from tabellion.web.streams import Streams
from tabellion.web.validation import build_problem

#: Routes of every installation; those of pipelines come before them, as a fixed address before one with a name in it.
MODULES = (health, reference, webhooks, overview, queues, users, static, door, people, dashboard)
DESCRIPTION = "Queues and pipelines over HTTP. Errors are problems (RFC 9457) with a stable `code`."


def serve_environment(
    config: Config, pipelines: Sequence[Pipeline], name: str, store: Store, *, own: Sequence[QueueView] = ()
) -> ServedEnvironment:
    """An environment with everything its pipelines need there; `own` are queues of the user's, to be looked at."""
    place = next((one for one in config.environments if one.name == name), None)
    views = together(*(pipeline.views(config, place) for pipeline in pipelines), [webhooks_view()], own)
    served = {one.name: made for one in pipelines if (made := one.serve(config, name, store)) is not None}
    return ServedEnvironment(name, store, views, served)


def webhooks_view() -> QueueView:
    """The queue that delivers webhooks, to be looked at."""
    from tabellion.delivery.outbox import webhooks_queue

    return QueueView(webhooks_queue())


def make_app(
    config: Config,
    environments: Sequence[ServedEnvironment],
    pipelines: Sequence[Pipeline],
    *,
    limits: RequestLimits | None = None,
) -> FastAPI:
    """The HTTP application over some environments; each key opens its own only. The stores stay open at its end."""
    if len({one.name for one in environments}) < len(environments):
        raise ConfigurationError("each environment of the application must have a unique name")
    if len({one.store.url for one in environments}) < len(environments):
        raise ConfigurationError("two environments of the application share a database: their keys would open both")
    return _build_app(config, list(environments), list(pipelines), limits or _limits(config))


def _look_out(
    config: Config, environments: Sequence[ServedEnvironment], blueprints: Sequence[Blueprint]
) -> Store | None:
    """Has every environment watched; gives the database of the gates, where it is none of those that are served."""
    served, home = {one.store.url: one.store for one in environments}, config.gates_at
    elsewhere = home.store() if home is not None and home.url not in served else None
    figures = {name: figure for one in blueprints for name, figure in one.figures.items()}
    for environment in environments:
        gates_at = elsewhere or (served[home.url] if home is not None else environment.store)
        environment.monitor = OverviewFeed(
            Overview(
                environment.name, environment.store, environment.views, gate_settings=config.gates, gates_at=gates_at,
                figures=figures,
            )
        )  # fmt: skip
    return elsewhere


def _limits(config: Config) -> RequestLimits:
    return RequestLimits(
        upload_bytes=config.upload_bytes, json_bytes=config.json_bytes, field_bytes=config.json_bytes,
        rate=config.rate,
    )  # fmt: skip


def _build_app(
    config: Config, environments: list[ServedEnvironment], pipelines: list[Pipeline], limits: RequestLimits
) -> FastAPI:
    blueprints = blueprint.with_shared(made for one in pipelines if (made := one.blueprint()) is not None)
    gates_at = _look_out(config, environments, blueprints)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for environment in environments:
            try:
                await tables.SCHEMA.prepare(environment.store)
                await endpoints.SCHEMA.prepare(environment.store)
                for schema in (schema for pipeline in pipelines for schema in pipeline.schemas()):
                    await schema.prepare(environment.store)
            except StoreError:
                continue  # it is asked again at each request; /readyz tells
        yield
        app.state.closing.set()
        for environment in environments:
            for served in environment.served.values():
                await served.close()
            await environment.monitor.close()
        if gates_at is not None:
            await gates_at.close()

    from tabellion import __version__  # the package is above this module

    app = FastAPI(
        title="tabellion", version=__version__, description=DESCRIPTION, lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.config = config
    app.state.limits = limits
    app.state.pipelines = pipelines
    app.state.blueprints = blueprints
    app.state.pages = merge_policies(policy.PAGES, *(one.pages for one in blueprints))
    app.state.policy = merge_policies(policy.API, app.state.pages, *(one.policy for one in blueprints))
    app.state.places = sorted((*PLACES, *(place for one in blueprints for place in one.places)), key=_order)
    app.state.rules = Rules.of(config.allow)
    app.state.auth = Authenticator({one.name: one for one in environments})
    app.state.streams = Streams(limits)
    app.state.pace = RateLimiter(limits)
    app.state.cursor_key = cursors.installation_key(config.data)
    app.state.closing = asyncio.Event()
    for router in (*(router for one in blueprints for router in one.routers), *(one.router for one in MODULES)):
        app.router.routes.extend(router.routes)
    _check_policy(app)
    app.add_middleware(HeadersMiddleware)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _of_router)
    app.add_exception_handler(RequestValidationError, _of_values)
    app.openapi = lambda: openapi.document_of(app)  # type: ignore[method-assign]
    return app


def merge_policies(*policies: policy.Policy) -> policy.Policy:
    """All of them; one route in two would have two roles."""
    made: policy.Policy = {}
    for one in policies:
        twice = made.keys() & one.keys()
        if twice:
            raise ConfigurationError(f"two pipelines have the route {' '.join(sorted(twice)[0])}")
        made |= one
    return made


def _check_policy(app: FastAPI) -> None:
    """Refuses routes without a role, and roles without a route."""
    there = {
        (method, route.path) for route in app.routes if isinstance(route, Route) for method in route.methods or ()
    } - {("HEAD", route.path) for route in app.routes if isinstance(route, Route)}
    for method, path in sorted(there ^ app.state.policy.keys()):
        lacks = "has no policy: name its role" if (method, path) in there else "has a policy but no route"
        raise ConfigurationError(f"the route {method} {path} {lacks}")


def _order(place: blueprint.NavItem) -> int:
    return place.order


async def _problem(request: Request, error: Any) -> Response:
    answer: Response = error.response(request.state.request_id)
    return answer


async def _of_router(request: Request, error: Any) -> Response:
    problem = of_http_error(request, error)
    wants_page = "text/html" in request.headers.get("accept", "") and "authorization" not in request.headers
    if wants_page and not request.url.path.startswith("/api/"):
        found = await request.app.state.auth.visitor(request)
        if found is not None:
            request.state.holder = found[1]
        return error_page(request, problem)
    return problem.response(request.state.request_id)


async def _of_values(request: Request, error: Any) -> Response:
    return build_problem(error.errors()).response(request.state.request_id)
