"""/documents: all of them, and one with everything that is known of it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.web.api.documents import found
from tabellion.web.office import Office
from tabellion.web.pages.page import Page, page

router = APIRouter(route_class=Page)


@router.get("/documents", response_class=Response)
async def listing(request: Request) -> Response:
    """The list, which its script fills and keeps up to date."""
    office: Office = request.state.office
    return page(request, "documents.html", types=office.settings.types.names())


@router.get("/documents/{id}", response_class=Response)
async def one(request: Request, id: str) -> Response:  # noqa: A002
    """One document, which its script fills and keeps up to date."""
    office: Office = request.state.office
    document = await found(office, id)
    return page(
        request, "document.html", also=("documents",), document=document, types=office.settings.types.names(),
        models=list(office.settings.gates()), data={"id": id},
    )  # fmt: skip
