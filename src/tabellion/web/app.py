"""The application: environments behind one door, every address with a role, every error a problem."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tabellion.config import Config, model_gates
from tabellion.delivery import endpoints
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError, StoreError
from tabellion.monitor.declared import document_queues
from tabellion.monitor.lookout import Lookout
from tabellion.monitor.overview import Overview
from tabellion.net.guard import Rules
from tabellion.pipelines.documents import tables as document_tables
from tabellion.pipelines.documents.settings import LOCAL, Settings, Types
from tabellion.review import queue as review_queue
from tabellion.web import cursors, health, openapi, reference, tables
from tabellion.web.api import (
    documents,
    events,
    files,
    overview,
    queues,
    review,
    review_fields,
    review_numbers,
    users,
    webhooks,
    work,
)
from tabellion.web.auth import Door
from tabellion.web.headers import Envelope
from tabellion.web.limits import Limits
from tabellion.web.office import Office
from tabellion.web.pace import Pace
from tabellion.web.pages import dashboard as dashboard_page
from tabellion.web.pages import documents as documents_page
from tabellion.web.pages import door, numbers, people, queue, static
from tabellion.web.pages import review as review_page
from tabellion.web.pages.page import error_page
from tabellion.web.pictures import Pictures
from tabellion.web.problems import Problem
from tabellion.web.routing import of_http_error
from tabellion.web.streams import Streams
from tabellion.web.validation import refused

if TYPE_CHECKING:
    from tabellion.storage.blobs import Blobs
    from tabellion.storage.lake import Lake

MODULES = (
    health,
    reference,
    events,
    documents,
    files,
    webhooks,
    overview,
    queues,
    work,
    users,
    static,
    door,
    documents_page,
    review,
    review_fields,
    people,
    review_numbers,
    dashboard_page,
    queue,
    review_page,
    numbers,
)
DESCRIPTION = "Documents in, checked data out. Errors are problems (RFC 9457) with a stable `code`."


def make_app(
    config: Config,
    store: Store,
    blobs: Blobs,
    lake: Lake,
    *,
    environment: str | None = None,
    settings: Settings | None = None,
    others: Sequence[Office] = (),
    limits: Limits | None = None,
    queues: Sequence[Queue] | None = None,
) -> FastAPI:
    """The HTTP application over one environment, and over `others`; each key opens its own environment only.

    `queues` are those that can be looked at: without them, those of the document service. The stores are the caller's
    to close.
    """
    name = environment or config.environments[0].name
    offices = [Office(name, store, blobs, settings or settings_of(config, blobs, lake), queues), *others]
    if len({office.name for office in offices}) < len(offices):
        raise ConfigurationError("each environment of the application needs a name of its own")
    if len({office.store.url for office in offices}) < len(offices):
        raise ConfigurationError("two environments of the application are one database: their keys would open both")
    _set_review_times(config)
    return _assembled(config, offices, limits or _limits(config))


def settings_of(config: Config, blobs: Blobs, lake: Lake) -> Settings:
    """What uploads are judged by: the types and models of the configuration."""
    default = str(config.documents.get("model", LOCAL))
    return Settings(blobs, lake, Types(config.types), models=model_gates(config), default_model=default)


def _look_out(config: Config, offices: Sequence[Office]) -> Store | None:
    """Has every environment watched; gives the database of the gates, where it is none of those that are served."""
    served, home = {office.store.url: office.store for office in offices}, config.gates_at
    elsewhere = home.store() if home is not None and home.url not in served else None
    for office in offices:
        seen = office.queues if office.queues is not None else document_queues(office.settings)
        gates_at = elsewhere or (served[home.url] if home is not None else office.store)
        office.lookout = Lookout(
            Overview(office.name, office.store, seen, gate_settings=config.gates, gates_at=gates_at)
        )
    return elsewhere


def _set_review_times(config: Config) -> None:
    said = config.review
    review_queue.set_times(
        lease=float(said.get("lease", review_queue.LEASE)), hold=float(said.get("assignment_hold", review_queue.HOLD))
    )


def _limits(config: Config) -> Limits:
    return Limits(
        upload_bytes=config.upload_bytes, json_bytes=config.json_bytes, field_bytes=config.json_bytes,
        rate=config.rate,
    )  # fmt: skip


def _assembled(config: Config, offices: Sequence[Office], limits: Limits) -> FastAPI:
    gates_at = _look_out(config, offices)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for office in offices:
            try:
                await document_tables.prepare(office.store)
                await tables.prepare(office.store)
                await endpoints.prepare(office.store)
            except StoreError:
                continue  # it is asked again at each request; /readyz tells
        yield
        app.state.closing.set()
        for office in offices:
            await office.updates.close()
            await office.lookout.close()
            await office.pulse.close()
        if gates_at is not None:
            await gates_at.close()
        await app.state.pictures.close()

    from tabellion import __version__  # the package is above this module

    app = FastAPI(
        title="tabellion", version=__version__, description=DESCRIPTION, lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.config = config
    app.state.limits = limits
    app.state.rules = Rules.of(config.allow)
    app.state.door = Door({office.name: office for office in offices})
    app.state.streams = Streams(limits)
    app.state.pace = Pace(limits)
    app.state.pictures = Pictures(config.data / "pictures")
    app.state.cursor_key = cursors.installation_key(config.data)
    app.state.lake_looks = {}
    app.state.closing = asyncio.Event()
    for module in MODULES:
        app.router.routes.extend(module.router.routes)
    app.add_middleware(Envelope)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _of_router)
    app.add_exception_handler(RequestValidationError, _of_values)
    app.openapi = lambda: openapi.document_of(app)  # type: ignore[method-assign]
    return app


async def _problem(request: Request, error: Any) -> Response:
    answer: Response = error.response(request.state.request_id)
    return answer


async def _of_router(request: Request, error: Any) -> Response:
    problem = of_http_error(request, error)
    wants_page = "text/html" in request.headers.get("accept", "") and "authorization" not in request.headers
    if wants_page and not request.url.path.startswith("/api/"):
        found = await request.app.state.door.visitor(request)
        if found is not None:
            request.state.holder = found[1]
        return error_page(request, problem)
    return problem.response(request.state.request_id)


async def _of_values(request: Request, error: Any) -> Response:
    return refused(error.errors()).response(request.state.request_id)
