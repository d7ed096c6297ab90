"""/api/websites/{id}/…: the report as a file, the screenshot, the icon, the prompt as it was sent; comparisons."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.errors import ConfigurationError
from tabellion.messages import Message
from tabellion.pipelines.websites import files, lookup
from tabellion.pipelines.websites.analysis_type import AnalysisType
from tabellion.pipelines.websites.comparison import Comparison, compare
from tabellion.pipelines.websites.lookup import WebsiteDetail
from tabellion.pipelines.websites.report import WebsiteReport, build_report
from tabellion.pipelines.websites.report_file import load_image, render_report
from tabellion.pipelines.websites.routes.websites import LanguageName, find_website
from tabellion.pipelines.websites.served import ServedWebsites, served_websites
from tabellion.pipelines.websites.settings import UnknownName
from tabellion.web.answers import answer
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import KEPT, Responses, disposition, file_answer, file_responses

router = APIRouter(route_class=Guarded, tags=["websites"])
HTML: Responses = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
IMAGES = file_responses("image/*", "image")
#: A report has texts of a stranger's website: it may style itself and show its own images, and nothing else.
REPORT_POLICY = {
    "Content-Security-Policy": "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}
IMAGE_POLICY = KEPT | {"Content-Security-Policy": "sandbox; default-src 'none'"}
Id = Annotated[str, Query(max_length=64, description="The id of a job.")]


@router.get("/api/websites/compare", response_model=Comparison, summary="Compare two websites")
async def compare_websites(request: Request, a: Id, b: Id, language: LanguageName = "en") -> Response:
    """Two websites, or two runs of one: facts, fields and findings side by side."""
    return answer(await compare_jobs(served_websites(request), a, b, language))


async def compare_jobs(served: ServedWebsites, a: str, b: str, language: str) -> Comparison:
    """The comparison of two jobs of this environment."""
    first, second = await find_website(served, a), await find_website(served, b)
    reports = report_of(served, first, language), report_of(served, second, language)
    return compare(first, second, reports)


@router.get("/api/websites/{id}/report", responses=HTML, response_class=Response, summary="Get the report of a website")
async def get_report(
    request: Request, id: str, language: LanguageName = "en",  # noqa: A002
    download: Annotated[bool, Query(description="Whether a browser saves it instead of showing it.")] = False,
) -> Response:  # fmt: skip
    """One HTML file with everything inside it, to be forwarded."""
    served = served_websites(request)
    website = await find_website(served, id)
    if website["info"] is None:
        raise Problem(404, "not_found", Message("website.no_report"), field="id", fix=Message("website.fix_wait"))
    text = await render_file(served, website, language)
    headers = dict(REPORT_POLICY)
    if download:
        host = re.sub(r"[^A-Za-z0-9.-]+", "-", website["normalized_url"].split("/")[2])
        headers["Content-Disposition"] = disposition(f"{host}-{website['type']}.html")
    return Response(text, 200, headers, "text/html; charset=utf-8")


async def render_file(served: ServedWebsites, website: WebsiteDetail, language: str) -> str:
    """The HTML file of a job's report."""
    row = await lookup.get_row(served.store, website["id"])
    blobs, images = served.settings.blobs, row or {"screenshot_file": None, "favicon_file": None}
    screenshot = await load_image(blobs, images["screenshot_file"], "image/jpeg")
    favicon = await load_image(blobs, images["favicon_file"], "image/png")

    def render() -> str:
        return render_report(report_of(served, website, language), screenshot, favicon)

    return await asyncio.to_thread(render)


@router.get("/api/websites/{id}/screenshot", responses=IMAGES, response_class=Response, summary="Get the screenshot")
async def get_screenshot(request: Request, id: str) -> Response:  # noqa: A002
    """The home page as a browser showed it, as a JPEG."""
    return await _image(request, id, "screenshot_file", "image/jpeg")


@router.get("/api/websites/{id}/favicon", responses=IMAGES, response_class=Response, summary="Get the icon")
async def get_favicon(request: Request, id: str) -> Response:  # noqa: A002
    """The icon of the website, as a PNG."""
    return await _image(request, id, "favicon_file", "image/png")


@router.get("/api/websites/{id}/prompt", response_class=Response, summary="Get the prompt")
async def get_prompt(request: Request, id: str) -> Response:  # noqa: A002
    """The prompt as models were sent it, with its schema and what it was trimmed to."""
    served = served_websites(request)
    await find_website(served, id)
    row = await lookup.get_row(served.store, id)
    try:
        if row is None or not row["prompts_file"]:
            raise FileNotFoundError
        prompt = await files.load_prompt(served.settings.blobs, row["prompts_file"])
    except FileNotFoundError:
        raise Problem(404, "not_found", Message("website.no_prompt"), field="id") from None
    return Response(prompt.as_json(), media_type="application/json")


async def _image(request: Request, id: str, column: Literal["screenshot_file", "favicon_file"], media: str) -> Response:  # noqa: A002
    served = served_websites(request)
    row = await lookup.get_row(served.store, id)
    if row is None:
        raise Problem(404, "not_found", Message("website.not_found"), field="id")
    if not (sha256 := row[column]):
        raise Problem(404, "file_gone", Message("website.no_image"), field="id")
    async with served.settings.blobs.open(sha256) as path:
        return file_answer(request, path, f'"{sha256}"', media, IMAGE_POLICY)


def report_of(served: ServedWebsites, website: WebsiteDetail, language: str) -> WebsiteReport:
    """The report of a job."""
    kind: AnalysisType | None = None
    # A type that was removed or broken since: values are shown without titles.
    with contextlib.suppress(UnknownName, ConfigurationError):
        kind = served.settings.get_type(website["type"])
    return build_report(website, kind, language)
