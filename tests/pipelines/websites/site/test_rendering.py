"""Pages in a real Chromium: what their scripts write, what they may reach, and what they cannot break."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tabellion.net.chromium import Chromium
from tabellion.net.guard import Blocked
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.site.rendering import RenderingFailed, render_page
from tests.browser.chromium import find, why_not
from tests.models.scripted import Answer, RecordedRequest
from tests.pipelines.websites.site.sites import GUARD, PROSE, REFUSED, article, codes, page, settings, site, visit_site

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "")

#: A page whose content is written by its script.
SCRIPTED = page(
    '<div id="root"></div><script src="/app.js"></script>', "<title>App</title><script>window.early = 1</script>"
)
APP = f"""document.title = "Bakery";
document.getElementById("root").innerHTML = `<h1>Bread</h1><p>{PROSE}</p><a href="/about">About us</a>`;"""
SCRIPT = {"content-type": "text/javascript"}


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The browser's event loop."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def chromium(runner: asyncio.Runner) -> Iterator[Chromium]:
    """A guarded browser, started once."""
    one = Chromium(GUARD, program=find())
    yield one
    runner.run(one.close())


def visited(
    runner: asyncio.Runner, chromium: Chromium, served: Any, folder: Path, **changes: Any
) -> tuple[WebsiteInfo, list[RecordedRequest]]:
    async def story() -> tuple[WebsiteInfo, list[RecordedRequest]]:
        async with site(served) as server:
            return await visit_site(server.url, folder, chromium=chromium, **changes), server.asked

    return runner.run(story())


def test_a_page_that_its_scripts_write_is_read_in_the_browser(
    runner: asyncio.Runner, chromium: Chromium, tmp_path: Path
) -> None:
    """With a screenshot; its other pages are shown too, if they need it."""
    served = {"/": SCRIPTED, "/app.js": Answer(APP.encode(), 200, SCRIPT), "/about": SCRIPTED}
    info, asked = visited(runner, chromium, served, tmp_path, pages=2)
    assert (info.rendered, info.title, info.headings[0].text) == (True, "Bakery", "Bread")
    assert PROSE[:60] in info.text
    assert getattr(info.render_reason, "code", "") == "visit.script_empty_root"
    assert [(one.found, one.rendered, one.title) for one in info.pages] == [
        ("home", True, "Bakery"), ("link", True, "Bakery"),
    ]  # fmt: skip
    with Image.open(tmp_path / info.screenshot) as picture:
        assert (picture.format, picture.size) == ("JPEG", (1280, 800))
    assert {one.headers["user-agent"] for one in asked} == {settings().user_agent}
    assert codes(info) == []


def test_a_page_that_shows_its_text_is_only_photographed(
    runner: asyncio.Runner, chromium: Chromium, tmp_path: Path
) -> None:
    """Its text is what the server sent."""
    changing = article("Static").replace("</body>", "<script>document.body.innerHTML = 'gone'</script></body>")
    info, _ = visited(runner, chromium, {"/": changing}, tmp_path, pages=1)
    assert (info.rendered, info.render_reason, info.screenshot) == (False, "", "screenshot.jpg")
    assert PROSE[:60] in info.text
    info, _ = visited(runner, chromium, {"/": changing}, tmp_path, pages=1, browser="always")
    assert (info.rendered, info.text) == (True, "gone")
    info, asked = visited(runner, chromium, {"/": changing}, tmp_path / "other", pages=1, browser="never")
    assert (info.rendered, info.screenshot, [one.path for one in asked].count("/")) == (False, "", 1)


def test_a_rendered_page_reaches_no_private_address(runner: asyncio.Runner, chromium: Chromium, tmp_path: Path) -> None:
    """Neither by script nor by frame; the report names the hosts, but not those that do not exist."""

    async def story() -> tuple[WebsiteInfo, list[RecordedRequest]]:
        async with site({"/": article("Secret")}, REFUSED) as private:
            body = f"""<div id="root"></div><iframe src="{private.url}/frame"></iframe><script>
                document.getElementById("root").innerHTML = "<p>{PROSE}</p>";
                fetch("{private.url}/fetch", {{mode: "no-cors"}}).catch(() => 0);
                new Image().src = "{private.url}/image";
                new Image().src = "http://gone.invalid/image";</script>"""
            async with site({"/": page(body)}) as public:
                return await visit_site(public.url, tmp_path, chromium=chromium, pages=1), private.asked

    info, asked = runner.run(story())
    assert asked == []
    assert PROSE[:60] in info.text
    assert codes(info) == ["visit.requests_refused"]
    [issue] = [issue for issue in info.issues if "127" in issue]
    assert issue == f"the page requested 1 host that may not be contacted: {REFUSED}"


def test_a_script_that_goes_to_a_private_address_shows_nothing_of_it(
    runner: asyncio.Runner, chromium: Chromium, tmp_path: Path
) -> None:
    """The site is reported as far as it could be read."""

    async def story() -> tuple[WebsiteInfo, list[RecordedRequest]]:
        async with site({"/": article("Secret")}, REFUSED) as private:
            body = f'<div id="root"></div><script>location.href = "{private.url}/"</script>'
            async with site({"/": page(body, "<title>Trap</title>")}) as public:
                return await visit_site(public.url, tmp_path, chromium=chromium, pages=1), private.asked

    info, asked = runner.run(story())
    assert asked == []
    assert (info.title, info.rendered, info.text) == ("Trap", False, "")
    assert REFUSED not in info.final_url
    assert "visit.not_rendered" in codes(info)


def test_a_script_that_goes_to_a_site_with_a_denial_is_not_read(
    runner: asyncio.Runner, chromium: Chromium, tmp_path: Path
) -> None:
    """Robots.txt of the other site counts."""

    async def story() -> WebsiteInfo:
        denial = Answer(b"User-agent: *\nDisallow: /\n", 200, {"content-type": "text/plain"})
        async with site({"/": article("Other"), "/robots.txt": denial}) as other:
            body = f'<div id="root"></div><script>location.href = "{other.url}/"</script>'
            async with site({"/": page(body, "<title>Forward</title>")}) as public:
                return await visit_site(public.url, tmp_path, chromium=chromium, pages=1)

    info = runner.run(story())
    assert (info.title, info.rendered) == ("Forward", False)
    assert codes(info) == ["visit.not_rendered", "visit.no_text"]


def test_what_a_page_sends_back_is_limited(runner: asyncio.Runner, chromium: Chromium, tmp_path: Path) -> None:
    """Even if its scripts replace the functions that a reader would call."""
    body = """<p id="p"></p><script>
        String.prototype.slice = function () { return "x".repeat(50000000); };
        Object.defineProperty(Element.prototype, "outerHTML", {get() { return "y".repeat(50000000); }});
        document.getElementById("p").textContent = "z".repeat(1000000);</script>"""

    async def story() -> tuple[bytes, bool]:
        async with site({"/": page(body)}) as server:
            shown = await render_page(chromium, settings(page_bytes=10_000), tmp_path, server.url)
            return shown.body, shown.is_cut

    text, is_cut = runner.run(story())
    assert (len(text), is_cut) == (10_000, True)
    assert text.startswith(b"<html")


def test_a_page_that_cannot_be_shown_says_why(runner: asyncio.Runner, chromium: Chromium, tmp_path: Path) -> None:
    """A download, and an address that the guard refuses."""

    async def story() -> None:
        file = Answer(b"data", 200, {"content-type": "application/zip", "content-disposition": "attachment"})
        async with site({"/": file}) as server:
            with pytest.raises(RenderingFailed):
                await render_page(chromium, settings(), tmp_path, server.url)
        with pytest.raises(Blocked):
            await render_page(chromium, settings(), tmp_path, f"http://{REFUSED}/")

    runner.run(story())


def test_a_page_that_blocks_the_browser_is_read_without_it(
    runner: asyncio.Runner, chromium: Chromium, tmp_path: Path
) -> None:
    """An endless loop costs the time of one page, and the next visit works."""
    looping = page('<div id="root"></div><script>for (;;) {}</script>', "<title>Loop</title>")
    info, _ = visited(runner, chromium, {"/": looping}, tmp_path, pages=1, page_seconds=2.0)
    assert (info.title, info.rendered) == ("Loop", False)
    assert "visit.not_rendered" in codes(info)
    served = {"/": SCRIPTED, "/app.js": Answer(APP.encode(), 200, SCRIPT)}
    assert visited(runner, chromium, served, tmp_path, pages=1)[0].rendered


def test_without_a_browser_a_page_that_needs_one_says_so(tmp_path: Path) -> None:
    """The page is read as the server sent it."""

    async def story() -> WebsiteInfo:
        async with site({"/": SCRIPTED}) as server:
            return await visit_site(server.url, tmp_path, pages=1)

    info = asyncio.run(story())
    assert (info.rendered, info.title) == (False, "App")
    assert codes(info) == ["visit.no_browser", "visit.no_text"]
    assert info.render_reason
