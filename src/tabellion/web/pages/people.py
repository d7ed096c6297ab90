"""/people: the users and their roles."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)


@router.get("/people", response_class=Response)
async def people(request: Request) -> Response:
    """The list of users, which its script fills."""
    return page(request, "people.html")
