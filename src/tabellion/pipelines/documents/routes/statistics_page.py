"""/numbers: how people work, per person and per field."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.documents.routes.titles import field_titles
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)


@router.get("/numbers", response_class=Response)
async def numbers(request: Request) -> Response:
    """The tables, which its script fills for the days that are asked for."""
    return page(request, "numbers.html", data={"fields": field_titles(request)})
