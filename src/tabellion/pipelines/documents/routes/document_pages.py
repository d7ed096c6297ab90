"""/documents: the list of documents, and one document with everything known about it."""

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
    """The list; its script fills it from the query string and keeps it up to date."""
    served = served_documents(request)
    types, query = type_titles(request), {"status": status, "type": type, "verdict": verdict, "review": review, "q": q}
    return page(
        request, "documents.html", spoken=True, statuses=STATUSES, verdicts=VERDICTS, reviews=REVIEWS, types=types,
        models=list(served.settings.gates()), limit=request.app.state.limits.upload_bytes,
        chosen={name: value or "" for name, value in query.items()},
        data={"types": types, "upload_bytes": request.app.state.limits.upload_bytes},
    )  # fmt: skip


@router.get("/documents/{id}", response_class=Response)
async def one(request: Request, id: str) -> Response:  # noqa: A002
    """One document; its script fills the page and keeps it up to date."""
    served = served_documents(request)
    document = await find_document(served, id)
    fields = {
        kind.name: {
            spec.name: {"title": spec.title, "kind": spec.kind, "threshold": spec.threshold, "required": spec.required,
                        "columns": {column.name: column.title for column in spec.items}}
            for spec in kind
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
