"""/dashboard and /queues/{name}: the overview, and the rows of one queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from tabellion.accounts.roles import Role
from tabellion.monitor.rows import PLACES
from tabellion.web.api.queues import get_queue_view
from tabellion.web.environment import ServedEnvironment
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)


@router.get("/dashboard", response_class=Response)
async def dashboard(request: Request) -> Response:
    """Queues, workers, gates, spend and the figures of pipelines; starts with the last known overview."""
    environment: ServedEnvironment = request.state.environment
    data = {"overview": environment.monitor.get_recent()}
    figures = [figure for part in request.app.state.blueprints for figure in part.figures.values()]
    texts = [figure.template.rpartition(".")[0] for figure in figures]
    return page(
        request, "dashboard.html", also=texts, spoken=True, figures=figures,
        all_workers=_shows_all_workers(request), data=data,
    )  # fmt: skip


def _shows_all_workers(request: Request) -> bool:
    """Whether the user may see the workers of all environments, and there are several."""
    role: Role = request.state.holder.role
    several = len(request.app.state.config.environments) > 1
    return several and request.app.state.active_workers is not None and role >= Role.ADMIN


@router.get("/queues/{name}", response_class=Response)
async def queue(request: Request, name: Annotated[str, Path(min_length=1, max_length=200)]) -> Response:
    """The rows of one queue by state, and its errors by fingerprint."""
    environment: ServedEnvironment = request.state.environment
    view = get_queue_view(environment, name)
    data = {"queue": view.name, "overview": environment.monitor.get_recent()}
    return page(
        request, "queue_detail.html", also=("dashboard",), spoken=True, name=view.name, places=PLACES, data=data
    )
