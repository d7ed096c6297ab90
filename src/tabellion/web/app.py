"""The HTTP application: serves environments, checks that every route has a role, turns errors into problems."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from tabellion import messages
from tabellion.accounts import tables
from tabellion.config import Config
from tabellion.delivery import endpoints
from tabellion.engine.sqlite.database import SQLite
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError, StoreError
from tabellion.installed_pipelines import gates_of, is_included
from tabellion.monitor.active_workers_feed import ActiveWorkersFeed
from tabellion.monitor.metrics.database_metrics import DatabaseReader
from tabellion.monitor.metrics.exposition import Exposition
from tabellion.monitor.metrics.scraping import EnvironmentScrape
from tabellion.monitor.overview import Overview
from tabellion.monitor.overview_feed import OverviewFeed
from tabellion.monitor.view import QueueView, merge_views
from tabellion.net.guard import Rules
from tabellion.pipeline import Pipeline
from tabellion.sla import targets_of
from tabellion.web import blueprint, health, openapi, policy, reference
from tabellion.web.api import metrics, overview, queues, sla, users, webhooks
from tabellion.web.auth import Authenticator
from tabellion.web.blueprint import Blueprint
from tabellion.web.environment import ServedEnvironment
from tabellion.web.headers import HeadersMiddleware
from tabellion.web.limits import RequestLimits
from tabellion.web.pages import dashboard, people, sign_in, static
from tabellion.web.pages.page import PLACES, error_page, icons
from tabellion.web.problems import Problem
from tabellion.web.request_rate import RequestLimiter
from tabellion.web.routing import of_http_error
from tabellion.web.streams import Streams
from tabellion.web.validation import build_problem

#: Routes of every installation; those of pipelines come first, so that fixed paths precede paths with parameters.
MODULES = (health, reference, webhooks, overview, sla, metrics, queues, users, static, sign_in, people, dashboard)
DESCRIPTION = "Queues and pipelines over HTTP. Errors are problems (RFC 9457) with a stable `code`."


def serve_environment(
    config: Config, pipelines: Sequence[Pipeline], name: str, store: Store, *, own: Sequence[QueueView] = ()
) -> ServedEnvironment:
    """An environment with everything its pipelines need there; `own` are queues of the user, to be shown."""
    configured = next((environment for environment in config.environments if environment.name == name), None)
    views = merge_views(*(pipeline.views(config, configured) for pipeline in pipelines), [webhooks_view()], own)
    served = {
        pipeline.name: result for pipeline in pipelines if (result := pipeline.serve(config, name, store)) is not None
    }
    return ServedEnvironment(name, store, views, served, targets_of(config, pipelines, views, configured))


def webhooks_view() -> QueueView:
    """The view of the queue that delivers webhooks."""
    from tabellion.delivery.outbox import webhooks_queue

    return QueueView(webhooks_queue())


def make_app(
    config: Config,
    environments: Sequence[ServedEnvironment],
    pipelines: Sequence[Pipeline],
    *,
    limits: RequestLimits | None = None,
) -> FastAPI:
    """The HTTP application of some environments; a key is valid for its own only. It does not close the stores."""
    if len({environment.name for environment in environments}) < len(environments):
        raise ConfigurationError("each environment of the application must have a unique name")
    if len({_place(environment.store) for environment in environments}) < len(environments):
        raise ConfigurationError(
            "two environments of the application share a database: their keys would open both; serve "
            "each of them by itself, with `tabellion up --environment`"
        )
    return _build_app(config, list(environments), list(pipelines), limits or _limits(config))


def _place(store: Store) -> str:
    """What two names of one database have in common: a SQLite file has a relative, an absolute and other paths."""
    return os.path.realpath(store.database.path) if isinstance(store.database, SQLite) else store.url


def _attach_monitors(
    config: Config, environments: Sequence[ServedEnvironment], pipelines: Sequence[Pipeline],
    blueprints: Sequence[Blueprint],
) -> Store | None:  # fmt: skip
    """Gives every environment its monitor; returns the database of the gates if it is not a served one."""
    served, home = {environment.store.url: environment.store for environment in environments}, config.gates_at
    gates_store = home.store() if home is not None and home.url not in served else None
    gate_settings = gates_of(config, pipelines)
    figures = {name: figure.read for part in blueprints for name, figure in part.figures.items()}
    for environment in environments:
        gates_at = gates_store or (served[home.url] if home is not None else environment.store)
        environment.monitor = OverviewFeed(
            Overview(
                environment.name, environment.store, environment.views, gate_settings=gate_settings,
                gates_at=gates_at, figures=figures, targets=environment.targets,
            )
        )  # fmt: skip
        place = next((place for place in config.environments if place.name == environment.name), None)
        sources = [source for pipeline in pipelines if (source := pipeline.metrics(config, place)) is not None]
        reader = DatabaseReader(environment.store, environment.monitor.picture, sources)
        environment.scrape = EnvironmentScrape(environment.name, reader)
    return gates_store


def _active_workers(config: Config, environments: Sequence[ServedEnvironment]) -> ActiveWorkersFeed | None:
    """The workers of every configured environment; None if it is switched off."""
    if not config.all_workers:
        return None
    views = {view.name: view for environment in environments for view in environment.views if not view.people}
    stores = {environment.store.url: environment.store for environment in environments}
    return ActiveWorkersFeed(config.environments, [view.queue for view in views.values()], stores)


def _limits(config: Config) -> RequestLimits:
    return RequestLimits(
        upload_bytes=config.upload_bytes, json_bytes=config.json_bytes, field_bytes=config.json_bytes,
        rate=config.rate,
    )  # fmt: skip


def _build_app(
    config: Config, environments: list[ServedEnvironment], pipelines: list[Pipeline], limits: RequestLimits
) -> FastAPI:
    blueprints = blueprint.with_shared(result for pipeline in pipelines if (result := pipeline.blueprint()) is not None)
    gates_at = _attach_monitors(config, environments, pipelines, blueprints)
    active_workers = _active_workers(config, environments)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for environment in environments:
            try:
                await tables.SCHEMA.prepare(environment.store)
                await endpoints.SCHEMA.prepare(environment.store)
                for schema in (schema for pipeline in pipelines for schema in pipeline.schemas()):
                    await schema.prepare(environment.store)
            except StoreError:
                continue  # it is prepared again at each request; /readyz reports it
        yield
        app.state.closing.set()
        for environment in environments:
            for served in environment.served.values():
                await served.close()
            await environment.scrape.close()
            await environment.monitor.close()
        if active_workers is not None:
            await active_workers.close()
        if gates_at is not None:
            await gates_at.close()

    from tabellion import __version__  # the package is above this module

    app = FastAPI(
        title="tabellion", version=__version__, description=DESCRIPTION, lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.config = config
    app.state.active_workers = active_workers
    app.state.limits = limits
    app.state.pipelines = pipelines
    app.state.blueprints = blueprints
    app.state.pages = merge_policies(policy.PAGES, *(part.pages for part in blueprints))
    app.state.policy = merge_policies(policy.API, app.state.pages, *(part.policy for part in blueprints))
    app.state.places = sorted((*PLACES, *(place for part in blueprints for place in part.places)), key=_order)
    app.state.rules = Rules.of(config.allow)
    app.state.auth = Authenticator(
        {environment.name: environment for environment in environments}, local_metrics=config.metrics == "loopback"
    )
    app.state.exposition = Exposition()
    app.state.process_samples = tuple  #: of the worker in this process, if there is one
    app.state.streams = Streams(limits)
    app.state.pace = RequestLimiter(limits)
    app.state.closing = asyncio.Event()
    for router in (*(router for part in blueprints for router in part.routers), *(module.router for module in MODULES)):
        app.router.routes.extend(router.routes)
    _check_policy(app)
    app.add_middleware(HeadersMiddleware)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _of_router)
    app.add_exception_handler(RequestValidationError, _of_values)
    app.openapi = lambda: openapi.document_of(app)  # type: ignore[method-assign]
    if not all(map(is_included, pipelines)):
        # Our own are tested together; this takes a third of a second.
        _check_names(blueprints)
        app.openapi()
    return app


def merge_policies(*policies: policy.Policy) -> policy.Policy:
    """The policies as one; raises if a route is in two of them."""
    merged: policy.Policy = {}
    for policy_part in policies:
        repeated = merged.keys() & policy_part.keys()
        if repeated:
            raise ConfigurationError(f"two pipelines have the route {' '.join(sorted(repeated)[0])}")
        merged |= policy_part
    return merged


def _check_policy(app: FastAPI) -> None:
    """Raises for routes without a role, and roles without a route."""
    routes = {
        (method, route.path) for route in app.routes if isinstance(route, Route) for method in route.methods or ()
    } - {("HEAD", route.path) for route in app.routes if isinstance(route, Route)}
    for method, path in sorted(routes ^ app.state.policy.keys()):
        problem = "has no policy: name its role" if (method, path) in routes else "has a policy but no route"
        raise ConfigurationError(f"the route {method} {path} {problem}")


def _check_names(blueprints: Sequence[Blueprint]) -> None:
    """Raises for names of texts and icons that do not exist."""
    known_icons = icons()
    for place in (place for part in blueprints for place in part.places):
        if place.icon not in known_icons:
            known = ", ".join(sorted(known_icons))
            raise ConfigurationError(
                f"the header entry {place.path} has the unknown icon {place.icon!r}; known: {known}"
            )
        if not messages.is_known(place.word):
            raise ConfigurationError(f"the header entry {place.path} has the text {place.word!r}: no catalogue has it")
    for code in (code for part in blueprints for code in part.problems):
        if not messages.is_known(f"problem.{code}"):
            raise ConfigurationError(f"the problem {code!r} has no meaning: no catalogue has problem.{code}")


def _order(place: blueprint.NavItem) -> int:
    return place.order


async def _problem(request: Request, error: Any) -> Response:
    answer: Response = error.response(request.state.request_id)
    return answer


async def _of_router(request: Request, error: Any) -> Response:
    problem = of_http_error(request, error)
    wants_page = "text/html" in request.headers.get("accept", "") and "authorization" not in request.headers
    if wants_page and not request.url.path.startswith("/api/"):
        visitor = await request.app.state.auth.visitor(request)
        if visitor is not None:
            request.state.holder = visitor[1]
        return error_page(request, problem)
    return problem.response(request.state.request_id)


async def _of_values(request: Request, error: Any) -> Response:
    return build_problem(error.errors()).response(request.state.request_id)
