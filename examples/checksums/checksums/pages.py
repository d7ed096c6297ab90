"""The page /checksums, its role, and its place in the header."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tabellion.accounts.roles import Role
from tabellion.web.blueprint import NavItem
from tabellion.web.pages.page import PageRoute, page
from tabellion.web.policy import Policy

from .texts import list_newest

router = APIRouter(route_class=PageRoute)
POLICY: Policy = {("GET", "/checksums"): Role.VIEWER}
PLACES = (NavItem("/checksums", "checksums.nav", "numbers", order=60),)


@router.get("/checksums", response_class=Response)
async def show_list(request: Request) -> Response:
    """The list, from `templates/checksums.html`."""
    rows = await list_newest(request.state.environment.store)
    return page(request, "checksums.html", rows=rows)
