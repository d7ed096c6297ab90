"""/queue: what waits for people, in the order in which it should be done."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.documents.doubts import REASONS
from tabellion.web.office import Office
from tabellion.web.pages.page import Page, page

router = APIRouter(route_class=Page)


@router.get("/queue", response_class=Response)
async def queue(request: Request) -> Response:
    """The list, which its script fills and keeps up to date."""
    office: Office = request.state.office
    return page(request, "queue.html", also=("span",), types=office.settings.types.names(), reasons=list(REASONS))
