"""/queue: what waits for people, in the order in which it should be done."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.documents.doubts import REASONS
from tabellion.web.office import Office
from tabellion.web.pages.page import Page, page, type_title

router = APIRouter(route_class=Page)


@router.get("/queue", response_class=Response)
async def queue(request: Request) -> Response:
    """The list, which its script fills and keeps up to date."""
    office: Office = request.state.office
    kinds = office.settings.types.all()
    types = {one.name: type_title(request, one.name, one.title) for one in kinds}
    told = {"types": types, "fields": {one.name: {field.name: field.title for field in one} for one in kinds}}
    return page(
        request, "queue.html", also=("span",), spoken=True, types=types, reasons=list(REASONS), data=told
    )  # fmt: skip
