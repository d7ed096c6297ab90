"""/extractions: the list, and one extraction with a page image beside its text."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.extractions.queues import QUEUES
from tabellion.extractions.routes.extractions import find_extraction
from tabellion.extractions.served import served_extractions
from tabellion.extractions.states import ExtractionStatus
from tabellion.web.blueprint import NavItem
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)
PLACES = (NavItem("/extractions", "extractions.nav", "search", order=25),)
TYPES = ("index", "actes", "plans_cadastraux")
Word = Annotated[str | None, Query(max_length=200)]


@router.get("/extractions", response_class=Response)
async def show_list(request: Request, status: Word = None, type: Word = None) -> Response:  # noqa: A002
    """The list; its script loads it with the filters of the URL and keeps it up to date."""
    statuses = [state.name for state in sorted(ExtractionStatus, key=_place)]
    chosen = {"status": status or "", "type": type or ""}
    return page(request, "extractions.html", spoken=True, statuses=statuses, types=TYPES, chosen=chosen)


@router.get("/extractions/{id}", response_class=Response)
async def one(
    request: Request,
    id: str,  # noqa: A002
    page_: Annotated[str | None, Query(alias="page", max_length=10)] = None,
) -> Response:
    """One extraction; its script loads it and keeps it up to date."""
    row = await find_extraction(served_extractions(request), id)
    names = [view.name for view in request.state.environment.views]
    title = row.get("document_number") or row.get("lot") or row["id"]
    return page(
        request, "extraction.html", also=("extractions",), spoken=True, title=title,
        data={"id": row["id"], "queues": [name for name in QUEUES if name in names]},
    )  # fmt: skip


#: Status numbers in the order in which a row passes through them; failure comes last.
ORDER = (1, 2, 3, 6, 5, 4)


def _place(status: ExtractionStatus) -> int:
    return ORDER.index(status.value)
