"""The pages of documents and their review."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion import messages
from tabellion.pipelines.documents.review import queue as review_queue
from tabellion.pipelines.documents.review_reasons import REASONS
from tabellion.pipelines.documents.routes.documents import find_document
from tabellion.pipelines.documents.routes.review_request import item_context
from tabellion.pipelines.documents.row import REVIEWS, STATUSES
from tabellion.pipelines.documents.served import served_documents
from tabellion.web.pages.page import PageRoute, language_of, page

router = APIRouter(route_class=PageRoute)
VERDICTS = ("accept", "warn", "reject")
Word = Annotated[str | None, Query(max_length=200)]


@router.get("/documents", response_class=Response)
async def show_list(
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


@functools.cache
def modules() -> tuple[str, ...]:
    """The screen's scripts: named in its head, so that the browser requests all of them at once."""
    folder = files("tabellion.pipelines.documents") / "static"
    names = (file.name for file in folder.iterdir())
    return tuple(sorted(name for name in names if name.startswith("review") and name.endswith(".js")))


@router.get("/review/{id}", response_class=Response)
async def review(request: Request, id: str) -> Response:  # noqa: A002
    """The screen; its script fetches the item, so that opening one and going on to the next look the same."""
    await item_context(request, id)
    data = {"item": id, "kept": review_queue.HOLD, "types": type_titles(request)}
    return page(request, "review.html", also=("span",), spoken=True, modules=modules(), data=data)


@router.get("/numbers", response_class=Response)
async def numbers(request: Request) -> Response:
    """The tables; their script fills them for the chosen days."""
    return page(request, "numbers.html", data={"fields": field_titles(request)})


def type_titles(request: Request) -> dict[str, str]:
    """The title of each document type of this environment."""
    return {
        doctype.name: type_title(request, doctype.name, doctype.title)
        for doctype in served_documents(request).settings.types.all()
    }


def field_titles(request: Request) -> dict[str, dict[str, str]]:
    """The titles of the types' fields."""
    return {
        doctype.name: {spec.name: spec.title for spec in doctype}
        for doctype in served_documents(request).settings.types.all()
    }


def type_title(request: Request, name: str, title: str) -> str:
    """The title of a document type: from its file, or translated if that has none."""
    key = f"fields.type.{name}"
    is_default = not title or title == name.replace("_", " ").capitalize()
    return str(messages.domain(language_of(request), "pages").get(key, title or name)) if is_default else title
