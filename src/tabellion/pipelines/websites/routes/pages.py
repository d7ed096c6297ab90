"""/websites: the list with its form, one website with its report, and two side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.pipelines.websites.report_file import formatting
from tabellion.pipelines.websites.routes.website_files import compare_jobs, report_of
from tabellion.pipelines.websites.routes.websites import find_website
from tabellion.pipelines.websites.served import served_websites
from tabellion.pipelines.websites.states import JobStatus
from tabellion.web.pages.page import PageRoute, language_of, page

router = APIRouter(route_class=PageRoute)
Word = Annotated[str | None, Query(max_length=2048)]


@router.get("/websites", response_class=Response)
async def show_list(request: Request, status: Word = None, type: Word = None, url: Word = None) -> Response:  # noqa: A002
    """The list; its script loads it with the filters of the URL and keeps it up to date."""
    settings, language = served_websites(request).settings, language_of(request)
    kinds = settings.all_types()
    return page(
        request, "websites.html", also=("website",), spoken=True, kinds=kinds, statuses=[str(one) for one in JobStatus],
        models=[name for name in settings.models if name != "local"],
        chosen={"status": status or "", "type": type or "", "url": url or ""},
        data={"types": {kind.name: kind.title(language) for kind in kinds}, "default": settings.default_type},
    )  # fmt: skip


@router.get("/websites/compare", response_class=Response)
async def show_comparison(request: Request, a: Word = None, b: Word = None) -> Response:
    """Two websites, or two runs of one, side by side."""
    language = language_of(request)
    comparison = await compare_jobs(served_websites(request), a or "", b or "", language)
    return page(
        request, "website_compare.html", also=("website", "report"), comparison=comparison, **formatting(language)
    )


@router.get("/websites/{id}", response_class=Response)
async def show_website(request: Request, id: str) -> Response:  # noqa: A002
    """One website: its phases, which its script keeps up to date, and its report as soon as there is one."""
    served, language = served_websites(request), language_of(request)
    website = await find_website(served, id)
    return page(
        request, "website.html", also=("report", "websites"), spoken=True, report=report_of(served, website, language),
        website=website, data={"id": website["id"], "status": website["status"]}, **formatting(language),
    )  # fmt: skip
