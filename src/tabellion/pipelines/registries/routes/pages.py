"""/registries: submit and follow searches; each company has a page on which its names are chosen."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.registries.routes.searches import find_session
from tabellion.pipelines.registries.served import served_registries
from tabellion.pipelines.registries.states import DOCUMENT_TYPES
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)


@router.get("/registries", response_class=Response)
async def registries(request: Request) -> Response:
    """Both forms and the list of companies, which a script keeps up to date."""
    profile = served_registries(request).settings.profiles["extraction"]
    kinds = [kind for kind in DOCUMENT_TYPES if kind in profile.tasks]
    fields = {kind: [*profile.tasks[kind].inputs, *profile.tasks[kind].optional] for kind in kinds}
    needed = {kind: list(profile.tasks[kind].inputs) for kind in kinds}
    return page(request, "registries.html", spoken=True, kinds=kinds, data={"fields": fields, "needed": needed})


@router.get("/registries/{id}", response_class=Response)
async def one(request: Request, id: str) -> Response:  # noqa: A002
    """One company: its data, its names to choose from, and the rights registered under each."""
    found = await find_session(served_registries(request), id)
    return page(
        request, "company.html", also=("registries",), spoken=True, title=found["company"] or found["id"],
        data={"id": found["id"]},
    )  # fmt: skip
