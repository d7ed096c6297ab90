"""/documents: all of them, and one with everything that is known of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.pipelines.documents.routes.documents import find_document
from tabellion.pipelines.documents.routes.titles import type_titles
from tabellion.pipelines.documents.row import REVIEWS, STATUSES
from tabellion.pipelines.documents.served import served_documents
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)
VERDICTS = ("accept", "warn", "reject")
Word = Annotated[str | None, Query(max_length=200)]


@router.get("/documents", response_class=Response)
async def listing(
    request: Request,
    status: Word = None,
    type: Word = None,  # noqa: A002
    verdict: Word = None,
    review: Word = None,
    q: Word = None,
) -> Response:
    """The list, which its script fills as the address says and keeps up to date."""
    served = served_documents(request)
    types, given = type_titles(request), {"status": status, "type": type, "verdict": verdict, "review": review, "q": q}
    return page(
        request, "documents.html", spoken=True, statuses=STATUSES, verdicts=VERDICTS, reviews=REVIEWS, types=types,
        models=list(served.settings.gates()), limit=request.app.state.limits.upload_bytes,
        chosen={name: value or "" for name, value in given.items()},
        data={"types": types, "upload_bytes": request.app.state.limits.upload_bytes},
    )  # fmt: skip


@router.get("/documents/{id}", response_class=Response)
async def one(request: Request, id: str) -> Response:  # noqa: A002
    """One document, which its script fills and keeps up to date."""
    served = served_documents(request)
    document = await find_document(served, id)
    fields = {
        kind.name: {
            one.name: {"title": one.title, "kind": one.kind, "threshold": one.threshold, "required": one.required,
                       "columns": {column.name: column.title for column in one.items}}
            for one in kind
        }
        for kind in served.settings.types.all()
    }  # fmt: skip
    return page(
        request, "document.html", also=("documents", "review.because"), spoken=True, document=document,
        statuses=STATUSES,
        data={
            "id": id, "name": document["name"], "fields": fields, "types": type_titles(request),
            "models": list(served.settings.gates()),
        },
    )  # fmt: skip
