"""The portal as an ASGI application, and a server that runs it in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries.portal.html import TITLES, render_page
from tabellion.pipelines.registries.portal.sites import EnterpriseRegister, LandRegistry, RightsRegister
from tabellion.pipelines.registries.portal.state import PortalFaults, PortalState

START = 30.0  #: seconds that the server may take to stop


def make_portal(state: PortalState | None = None) -> Starlette:
    """The application with its three sites."""
    state = state or PortalState()
    land = LandRegistry("foncier", state, signed_in=True)
    companies = EnterpriseRegister("req", state, signed_in=False)
    rights = RightsRegister("rdprm", state, signed_in=True)

    async def home(request: Request) -> Response:
        links = "".join(f'<li><a href="/{name}">{title}</a></li>' for name, title in TITLES.items())
        return HTMLResponse(render_page("", "Portail d'exercice", f"<ul>{links}</ul>"))

    async def look(request: Request) -> Response:
        return JSONResponse(state.to_dict())

    async def set_faults(request: Request) -> Response:
        try:
            state.faults = PortalFaults.parse(await request.json())
        except (ConfigurationError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 422)
        return JSONResponse(state.to_dict())

    async def expire(request: Request) -> Response:
        state.expire()
        return JSONResponse(state.to_dict())

    return Starlette(
        routes=[
            Route("/", home),
            Route("/_faults", look, methods=["GET"]),
            Route("/_faults", set_faults, methods=["POST"]),
            Route("/_expire", expire, methods=["POST"]),
            Route("/foncier", land.endpoint(land.menu)),
            Route("/foncier/connexion", land.endpoint(land.sign_in, public=True), methods=["GET", "POST"]),
            Route("/foncier/index", land.endpoint(land.index)),
            Route("/foncier/actes", land.endpoint(land.deeds)),
            Route("/foncier/plans", land.endpoint(land.plans)),
            Route("/foncier/telecharger", land.endpoint(land.file)),
            Route("/req", companies.endpoint(companies.search)),
            Route("/req/entreprise/{neq}", companies.endpoint(companies.company)),
            Route("/rdprm", rights.endpoint(rights.search)),
            Route("/rdprm/connexion", rights.endpoint(rights.sign_in, public=True), methods=["GET", "POST"]),
            Route("/rdprm/etat", rights.endpoint(rights.statement)),
        ]
    )


@dataclass(frozen=True, slots=True)
class RunningPortal:
    """A running portal."""

    url: str
    state: PortalState


@contextlib.contextmanager
def run_portal(port: int = 0, host: str = "127.0.0.1", *, fix: str = "choose another port") -> Iterator[RunningPortal]:
    """Serves the portal from a thread within a block; port 0 picks a free one. `fix` is for a port in use."""
    state = PortalState()
    listening = bind_socket(host, port, fix)
    config = uvicorn.Config(make_portal(state), log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), name="portal", daemon=True)
    thread.start()
    try:
        # The socket accepts connections already; requests wait until the server is ready.
        yield RunningPortal(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}", state)
    finally:
        server.should_exit = True
        thread.join(START)
        listening.close()


def bind_socket(host: str, port: int, fix: str) -> socket.socket:
    """A listening socket; the error for a port in use tells how to change it."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"cannot listen on {host}:{port} ({error.strerror}): {fix}") from error
    listening.listen(128)
    return listening
