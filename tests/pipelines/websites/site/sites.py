"""Small sites on loopback for visits: pages by path, and everything that was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tabellion.net.guard import Rules
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.pipelines.websites.site.visit import visit
from tests.models.scripted import Answer, RecordedRequest, ScriptedServer

HOME, REFUSED = "127.0.0.1", "127.0.0.3"
GUARD = Rules.of([f"{HOME}/32"])
HTML = {"content-type": "text/html; charset=utf-8"}
PROSE = (
    "The bakery has made bread in the old town since 1950, with flour from two mills nearby and a sourdough that is "
    "older than its bakers. Every morning at six the first loaves leave the oven, and by noon most shelves are empty. "
    "On Saturdays the queue reaches the fountain, and nobody in it seems to mind. "
)
Pages = Mapping[str, Answer | str] | Callable[[RecordedRequest], Answer]


def page(body: str, head: str = "", language: str = "en") -> str:
    return f'<!doctype html><html lang="{language}"><head>{head}</head><body>{body}</body></html>'


def article(title: str) -> str:
    return page(f"<main><h1>{title}</h1><p>{PROSE}</p><p>{PROSE}</p></main>", f"<title>{title}</title>")


@asynccontextmanager
async def site(pages: Pages, host: str = HOME) -> AsyncIterator[ScriptedServer]:
    """A site of these pages; anything else is a 404."""

    def answer(asked: RecordedRequest) -> Answer:
        if callable(pages):
            return pages(asked)
        found = pages.get(asked.path, Answer(b"not here", 404, HTML))
        return Answer(found.encode(), 200, HTML) if isinstance(found, str) else found

    running = ScriptedServer(answer)
    server = await asyncio.start_server(running.serve, host, 0)
    running.url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()


def settings(**changes: Any) -> VisitSettings:
    """Settings for a site on loopback: no pause between requests."""
    return VisitSettings(**{"guard": GUARD, "pause": 0.0, "page_seconds": 10.0, **changes})


async def visit_site(url: str, folder: Path, notes: list[str] | None = None, **changes: Any) -> WebsiteInfo:
    return await visit(url, settings(**changes), folder, (notes if notes is not None else []).append)


def visited(served: Pages, folder: Path, path: str = "/", **changes: Any) -> tuple[WebsiteInfo, list[str]]:
    """What a visit to this site finds, and the paths that were asked for."""

    async def story() -> tuple[WebsiteInfo, list[str]]:
        async with site(served) as server:
            info = await visit_site(server.url + path, folder, **changes)
            return info, [asked.path for asked in server.asked]

    return asyncio.run(story())


def codes(info: WebsiteInfo) -> list[str]:
    """The codes of a visit's issues, without the one about http."""
    found = [getattr(issue, "code", issue) for issue in info.issues]
    return [code for code in found if code != "visit.no_tls"]
