"""/queue: open review items in order of priority."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.pipelines.documents.review_reasons import REASONS
from tabellion.pipelines.documents.routes.titles import field_titles, type_titles
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)
Word = Annotated[str | None, Query(max_length=200)]


@router.get("/queue", response_class=Response)
async def queue(
    request: Request,
    view: Word = None,
    type: Word = None,  # noqa: A002
    reason: Word = None,
    q: Word = None,
) -> Response:
    """The list; its script fills it from the query string and keeps it up to date."""
    types = type_titles(request)
    return page(
        request, "queue.html", also=("span",), spoken=True, types=types, reasons=list(REASONS),
        data={"types": types, "fields": field_titles(request)},
    )  # fmt: skip
