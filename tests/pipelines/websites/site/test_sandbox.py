"""Parsing in children: results as they are restored, and what ends a child."""

from __future__ import annotations

import asyncio
import base64
import io

from PIL import Image

from tabellion.net.page_fetching import FetchedPage
from tabellion.pipelines.websites.site.sandbox import parse_page, parse_sitemap, redraw_icon, site_sandbox
from tests.engine.made_tables import asynchronous
from tests.pipelines.websites.site.sites import PROSE, article

URL = "https://shop.example/"


def fetched(body: bytes) -> FetchedPage:
    return FetchedPage(URL, 200, (("content-type", "text/html"),), body, False, (), (), None, 0.0)


@asynchronous
async def test_pages_sitemaps_and_icons_come_back_from_a_child() -> None:
    """One pool for all three."""
    page = await parse_page(fetched(article("Bread").encode()))
    assert (page.text("title"), page.error, page.text("no such field")) == ("Bread", "", "")
    assert PROSE[:40] in page.article["text"]
    assert await parse_sitemap(b"<urlset><url><loc>/a</loc></url></urlset>", URL) == ([f"{URL}a"], [])
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    assert (await redraw_icon(picture.getvalue())).startswith(b"\x89PNG")
    assert await redraw_icon(b"<svg>") == b""


@asynchronous
async def test_a_cancelled_parsing_ends_its_child() -> None:
    """A worker that stops does not wait for a hostile page."""
    sandbox = site_sandbox()
    task = asyncio.create_task(parse_page(fetched(b'<a href="x">' * 400_000)))
    while not sandbox._busy:
        await asyncio.sleep(0.01)
    [child] = sandbox._busy
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    while child.alive():
        await asyncio.sleep(0.01)
    assert task.cancelled()


def test_texts_from_a_child_can_be_stored() -> None:
    """Whatever the page contains."""
    page = asyncio.run(parse_page(fetched(b"<title>a&#0;b&#xD800;c\x1b</title><p>" + base64.b64decode("AAEC"))))
    assert "\0" not in str(page.fields)
    str(page.fields).encode()
