"""/numbers: review statistics, per person and per field."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.documents.routes.titles import field_titles
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)


@router.get("/numbers", response_class=Response)
async def numbers(request: Request) -> Response:
    """The tables; their script fills them for the chosen days."""
    return page(request, "numbers.html", data={"fields": field_titles(request)})
