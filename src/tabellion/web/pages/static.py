"""/static: scripts and styles of the pages, each under an address that changes when any of them does."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.messages import Message
from tabellion.pipeline import installed_pipelines
from tabellion.web.blueprint import with_shared
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import is_not_modified

router = APIRouter(route_class=Guarded, include_in_schema=False)
MEDIA = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
_IMPORT = re.compile(rb"""(from\s+|import\s+|import\()(["'])(\./[a-z_]+\.js)\2""")


def packages() -> list[str]:
    """Those that have templates and static files: ours, and those of installed pipelines."""
    made = (one.blueprint() for one in installed_pipelines().values())
    blueprints = with_shared(one for one in made if one is not None)
    return ["tabellion.web", *(one.package for one in blueprints if one.package is not None)]


@functools.cache
def _release() -> tuple[str, dict[str, bytes]]:
    """What tells these files from those of another release, and every file by its name.

    Scripts import each other by the address that pages use too, or each would be loaded twice.
    """
    folders = [files(package) / "static" for package in packages()]
    there = [one for folder in folders if folder.is_dir() for one in folder.iterdir()]
    found = {one.name: one.read_bytes() for one in there if one.name.rpartition(".")[2] in MEDIA}
    together = b"".join(name.encode() + b"\0" + found[name] for name in sorted(found))
    version = hashlib.sha256(together).hexdigest()[:16]
    marked = rb"\1\2\3?v=" + version.encode() + rb"\2"
    return version, {name: _IMPORT.sub(marked, text) if name.endswith(".js") else text for name, text in found.items()}


def address(name: str) -> str:
    """Where a page finds a file."""
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
