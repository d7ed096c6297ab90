"""/docs and /openapi.json: the API reference, which loads nothing from other servers."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.web.headers import PAGE_POLICY
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import is_not_modified

router = APIRouter(route_class=Guarded, tags=["docs"])
STATIC = {"docs.js": "text/javascript", "docs.css": "text/css"}
TEXT = {"schema": {"type": "string"}}
HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": TEXT}}}
PARTS: dict[int | str, dict[str, Any]] = {200: {"content": dict.fromkeys(STATIC.values(), TEXT)}}
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Not modified."}}
FRESH = {"Cache-Control": "no-cache"}


def static(name: str) -> bytes:
    """A file that comes with the package."""
    return (files("tabellion.web") / "static" / name).read_bytes()


@router.get("/docs", responses=HTML, response_class=Response, summary="API reference")
async def docs() -> Response:
    """A page that shows every endpoint with its parameters and responses."""
    headers = FRESH | {"Content-Security-Policy": PAGE_POLICY}
    return Response(static("docs.html"), headers=headers, media_type="text/html; charset=utf-8")


@router.get("/docs/{file}", responses=PARTS, response_class=Response, summary="Files of the API reference")
async def part(file: str) -> Response:
    """Its script and style sheet."""
    if file not in STATIC:
        raise Problem(404, "not_found", Message("problem.no_such_file"))
    return Response(static(file), headers=FRESH, media_type=f"{STATIC[file]}; charset=utf-8")


@router.get("/openapi.json", responses=UNCHANGED, summary="OpenAPI document")
async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    text = json_text(request.app.openapi())
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    if is_not_modified(request, tag):
        return Response(status_code=304, headers=FRESH | {"ETag": tag})
    return Response(text, headers=FRESH | {"ETag": tag}, media_type="application/json")
