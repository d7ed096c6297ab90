"""/static: scripts and styles of the pages, under URLs with a version that changes when any of them does."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.installed_pipelines import installed_pipelines
from tabellion.messages import Message
from tabellion.web.blueprint import with_shared
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import is_not_modified

router = APIRouter(route_class=Guarded, include_in_schema=False)
MEDIA = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
_IMPORT = re.compile(rb"""(from\s+|import\s+|import\()(["'])(\./[a-z_]+\.js)\2""")


def packages() -> list[str]:
    """The packages with templates and static files: ours, and those of installed pipelines."""
    blueprints = with_shared(
        blueprint for pipeline in installed_pipelines().values() if (blueprint := pipeline.blueprint()) is not None
    )
    return ["tabellion.web", *(part.package for part in blueprints if part.package is not None)]


@functools.cache
def _release() -> tuple[str, dict[str, bytes]]:
    """The version of the static files, and the content of each by name.

    Scripts import each other by the same versioned URL that pages use, or each would be loaded twice.
    """
    folders = [files(package) / "static" for package in packages()]
    entries = [entry for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    contents = {entry.name: entry.read_bytes() for entry in entries if entry.name.rpartition(".")[2] in MEDIA}
    joined = b"".join(name.encode() + b"\0" + contents[name] for name in sorted(contents))
    version = hashlib.sha256(joined).hexdigest()[:16]
    versioned = rb"\1\2\3?v=" + version.encode() + rb"\2"
    return version, {
        name: _IMPORT.sub(versioned, text) if name.endswith(".js") else text for name, text in contents.items()
    }


def address(name: str) -> str:
    """The URL of a static file, with its version."""
    version, contents = _release()
    if name not in contents:
        raise KeyError(f"there is no static file {name!r}")
    return f"/static/{name}?v={version}"


@router.get("/static/{file}", responses={200: {"content": {"*/*": {}}}}, response_class=Response)
async def static(request: Request, file: str, v: Annotated[str | None, Query(max_length=64)] = None) -> Response:
    """A script, style sheet or image; cached permanently if requested with its version."""
    version, contents = _release()
    content = contents.get(file)
    if content is None:
        raise Problem(404, "not_found", Message("problem.no_such_file"))
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"Cache-Control": FOREVER if v == version else "no-cache", "ETag": tag}
    if is_not_modified(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=f"{MEDIA[file.rpartition('.')[2]]}; charset=utf-8")
