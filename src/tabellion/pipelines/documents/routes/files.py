"""A document's original file, images of its pages, and the words on them."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.messages import Message
from tabellion.pipelines.documents.page_words import FORM, Words
from tabellion.pipelines.documents.routes.documents import Document, find_document
from tabellion.pipelines.documents.served import served_documents
from tabellion.web.page_images import LIMITS, PICTURE, Width, rotation_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import KEPT, SAME, STRANGE, disposition, file_answer, file_responses, is_not_modified
from tabellion.web.validation import Whole

router = APIRouter(route_class=Guarded, tags=["documents"])


class PageWords(Answer):
    """The words of a page in reading order, each with its box: `[text, x0, y0, x1, y1]`, 0 to 1 from the top left."""

    words: list[list[str | float]]


@router.get(
    "/api/documents/{id}/file", responses=file_responses(), response_class=Response, summary="Download the file"
)
async def file(request: Request, id: str) -> Response:  # noqa: A002
    """The original file as a download; `Range` requests a part of it."""
    served = served_documents(request)
    document = await find_document(served, id)
    headers = STRANGE | {"Content-Disposition": disposition(document["name"])}
    async with served.blobs.open(document["sha256"]) as path:
        return file_answer(request, path, f'"{document["sha256"]}"', document["media"], headers)


@router.get(
    "/api/documents/{id}/pages/{number}.png",
    responses=PICTURE,
    response_class=Response,
    summary="Get a page as an image",
)
async def page(
    request: Request,
    id: str,  # noqa: A002
    number: Annotated[Whole, Path(ge=1, le=100_000, description="The page number, starting at 1.")],
    width: Width = 1200,
) -> Response:
    """A page as a PNG, rotated upright."""
    served = served_documents(request)
    document = await find_document(served, id)
    _check(document, number)
    rotation = rotation_of(document["page_details"], number)
    return await served.pictures.answer(request, served.blobs, document["sha256"], number, width, rotation)


@router.get(
    "/api/documents/{id}/pages/{number}/words", responses=SAME, response_model=PageWords,
    summary="Get the words of a page",
)  # fmt: skip
async def words(
    request: Request,
    id: str,  # noqa: A002
    number: Annotated[Whole, Path(ge=1, le=100_000, description="The page number, starting at 1.")],
) -> Response:
    """Every word of a page with its position; a page that is not stored is read again."""
    served = served_documents(request)
    document = await find_document(served, id)
    _check(document, number)
    ocr, blob = served.settings.ocr, served.blobs.path(document["sha256"])
    tag = f'"{document["sha256"]}-{number}-words-{ocr}-{FORM}"'
    headers = KEPT | {"ETag": tag}
    if is_not_modified(request, tag):
        return Response(status_code=304, headers=headers)
    cache = Words(served.blobs.root)
    content = await asyncio.to_thread(cache.find, blob, number, ocr)
    if content is None:
        async with served.blobs.open(document["sha256"]):
            read = functools.partial(cache.read, blob, number, ocr, limits=LIMITS)
            content = await served.pictures.run_in_sandbox(read)
    return Response(content, 200, headers, "application/json")


def _check(document: Document, number: int) -> None:
    if document["pages"] is not None and number > document["pages"]:
        raise Problem(404, "page_missing", Message("documents_api.page_count", n=document["pages"]), field="number")
