"""/review/{id}: the review screen of one document."""

from __future__ import annotations

import functools
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.documents.review import queue
from tabellion.pipelines.documents.routes.review_request import item_context
from tabellion.pipelines.documents.routes.titles import type_titles
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)


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
    data = {"item": id, "kept": queue.HOLD, "types": type_titles(request)}
    return page(request, "review.html", also=("span",), spoken=True, modules=modules(), data=data)
