"""Files as answers, with ETags and range requests."""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tabellion.messages import Message
from tabellion.web.problems import Problem

CHUNK = 256 * 1024
#: A file never changes, but access to it may: browsers must ask each time.
KEPT = {"Cache-Control": "private, no-cache"}
#: Headers for files of users: they must not run as one of our pages.
STRANGE = KEPT | {"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'"}
Responses = dict[int | str, dict[str, Any]]
BINARY = {"schema": {"type": "string", "format": "binary"}}
SAME: Responses = {304: {"description": "Not modified."}}
_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")


def is_not_modified(request: Request, tag: str) -> bool:
    """Whether the client already has the current version."""
    header = request.headers.get("if-none-match", "")
    return header.strip() == "*" or tag in [etag.strip().removeprefix("W/") for etag in header.split(",")]


def disposition(name: str) -> str:
    """The header that makes a browser save a file under this name."""
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in " ._-()" else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def file_responses(media: str = "*/*", noun: str = "file") -> Responses:
    """The responses of `file_answer`, for the OpenAPI document."""
    return {
        200: {"content": {media: BINARY}, "description": f"The {noun}."},
        206: {"content": {media: BINARY}, "description": f"The requested range of the {noun}."},
        **SAME,
        416: {"description": "The range is outside the file."},
    }


def file_answer(request: Request, path: Path, tag: str, media: str, headers: dict[str, str]) -> Response:
    """The file, or the requested range of it."""
    headers = headers | {"ETag": tag, "Accept-Ranges": "bytes"}
    if is_not_modified(request, tag):
        return Response(status_code=304, headers=headers)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise Problem(404, "file_gone") from None
    size = os.fstat(handle).st_size
    try:
        piece = _piece(request, size, tag)
    except Problem:
        os.close(handle)
        raise
    first, last = piece or (0, size - 1)
    headers = headers | {"Content-Length": str(last - first + 1)}
    if piece is not None:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return _FileResponse(handle, first, last + 1, 200 if piece is None else 206, headers, media)


class _FileResponse(StreamingResponse):
    """Closes its file when it has been sent, and also if it never is."""

    def __init__(self, handle: int, start: int, end: int, status: int, headers: dict[str, str], media: str) -> None:
        super().__init__(_read(handle, start, end), status, headers, media)
        self._close = weakref.finalize(self, os.close, handle)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def _piece(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """The first and last requested byte; None for the whole file, also if the header is not valid (RFC 9110)."""
    match = _RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    if match is None or (not match["first"] and not match["last"]):
        return None
    if request.headers.get("if-range", tag) != tag:
        return None
    if not match["first"]:
        first, last = max(size - int(match["last"]), 0), size - 1
        satisfiable = int(match["last"]) > 0 and size > 0
    else:
        first = int(match["first"])
        last = min(int(match["last"]), size - 1) if match["last"] else size - 1
        satisfiable = first < size
        if match["last"] and int(match["last"]) < first:
            return None
    if not satisfiable:
        raise Problem(416, "range_unsatisfiable", Message("problem.file_has", n=size),
                      headers={"Content-Range": f"bytes */{size}"})  # fmt: skip
    return first, last


async def _read(handle: int, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        chunk = await asyncio.to_thread(os.pread, handle, min(CHUNK, end - start), start)
        if not chunk:
            return
        start += len(chunk)
        yield chunk
