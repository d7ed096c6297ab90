"""Visits to sites on loopback: what they find, how they choose, what they respect, and how they end."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.net.guard import Rules
from tabellion.pipelines.websites.site.errors import SiteFailed
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.site.sandbox import LIMITS, MODULE
from tabellion.pipelines.websites.site.visit import visit
from tabellion.reading.limits import MEBI
from tabellion.reading.sandbox import Sandbox
from tests.engine.made_tables import asynchronous
from tests.models.scripted import Answer, RecordedRequest
from tests.net.serving import raw_server, tls_server
from tests.pipelines.websites.site.sites import (
    HTML,
    PROSE,
    REFUSED,
    article,
    codes,
    page,
    settings,
    site,
    visit_site,
    visited,
)  # fmt: skip

ORGANISATION = json.dumps({
    "@context": "https://schema.org", "@type": "Bakery", "name": "Old Town Bakery", "telephone": "+33 4 72 10 10 30",
    "address": {"@type": "PostalAddress", "streetAddress": "12 rue de la République", "postalCode": "69001",
                "addressLocality": "Lyon", "addressCountry": "FR"},
    "sameAs": ["https://www.facebook.com/oldtownbakery"],
})  # fmt: skip
HEAD = f"""<title>Bread since 1950 | Old Town Bakery</title><meta name="description" content="Bread and cakes.">
<link rel="canonical" href="/?home"><meta property="og:site_name" content="Old Town Bakery">
<meta property="og:type" content="website"><meta name="generator" content="WordPress 6.5">
<link rel="icon" href="/icon.png"><script src="https://js.stripe.com/v3/"></script>
<script type="application/ld+json">{ORGANISATION}</script>"""
BODY = f"""<nav><a href="/about">About us</a> <a href="/contact.html">Contact</a> <a href="/old.pdf">Menu</a></nav>
<main><h1>Bread since 1950</h1><p>{PROSE}</p><h2>Our mills</h2><p>{PROSE}</p></main>
<footer><a href="https://www.instagram.com/oldtownbakery/">Instagram</a>
<a href="https://www.facebook.com/sharer.php?u=x">Share</a></footer>"""


def icon() -> bytes:
    output = io.BytesIO()
    Image.new("RGB", (16, 16), "red").save(output, "PNG")
    return output.getvalue()


def robots(text: str) -> Answer:
    return Answer(text.encode(), 200, {"content-type": "text/plain"})


BAKERY: dict[str, Answer | str] = {
    "/": Answer(page(BODY, HEAD).encode(), 200, {**HTML, "server": "nginx/1.25", "set-cookie": "PHPSESSID=1"}),
    "/about": article("About the bakery"),
    "/contact.html": page("<h1>Contact</h1><p>Write to hello@oldtown.fr or call 04 72 10 10 30.</p>"),
    "/icon.png": Answer(icon(), 200, {"content-type": "image/png"}),
    "/robots.txt": Answer(
        b"User-agent: *\nDisallow: /private\nSitemap: /map.xml\n", 200, {"content-type": "text/plain"}
    ),
    "/map.xml": "<urlset><url><loc>/private/x</loc></url><url><loc>/cakes</loc></url></urlset>",
    "/cakes": article("Cakes"),
}


def test_a_page_that_is_missing_is_an_issue(tmp_path: Path) -> None:
    """With its address and status: rules do not take it for a page that exists."""
    info, _ = visited({key: value for key, value in BAKERY.items() if key != "/about"}, tmp_path)
    missing = [issue for issue in info.issues if isinstance(issue, Message) and issue.code == "visit.page_missing"]
    assert [issue.params for issue in missing] == [{"url": f"{info.final_url}about", "status": 404}]


def test_a_site_is_described_with_its_pages_contacts_and_technologies(tmp_path: Path) -> None:
    """Everything with the page it was found on."""
    info, asked = visited(BAKERY, tmp_path)
    root = info.final_url
    assert (info.title, info.site_name, info.language) == ("Bread since 1950", "Old Town Bakery", "en")
    assert (info.description, info.canonical) == ("Bread and cakes.", f"{root}?home")
    assert info.open_graph["og:type"] == "website"
    assert [block["@type"] for block in info.json_ld] == ["Bakery"]
    assert [(heading.level, heading.text) for heading in info.headings] == [(1, "Bread since 1950"), (2, "Our mills")]
    assert PROSE.strip()[:80] in info.text
    assert "Instagram" not in info.text
    assert (info.links.internal_count, info.links.external_count) == (3, 2)
    found = [(one.url.removeprefix(root), one.found, one.title) for one in info.pages]
    assert found == [("", "home", "Bread since 1950"), ("about", "link", "About the bakery"),
                     ("contact.html", "link", ""), ("cakes", "sitemap", "Cakes")]  # fmt: skip
    assert [(one.value, one.page) for one in info.contacts.emails] == [("hello@oldtown.fr", f"{root}contact.html")]
    assert [(one.value, one.page) for one in info.contacts.phones] == [("+33 4 72 10 10 30", root)]
    assert [one.value for one in info.contacts.addresses] == ["12 rue de la République, 69001, Lyon, FR"]
    assert {(one.network, one.url) for one in info.social} == {
        ("Instagram", "https://www.instagram.com/oldtownbakery"), ("Facebook", "https://www.facebook.com/oldtownbakery"),
    }  # fmt: skip
    technologies = {one.name: (one.version, one.kind, one.evidence) for one in info.technologies}
    assert technologies == {
        "WordPress": ("6.5", "meta", "generator: WordPress 6.5"), "nginx": ("1.25", "header", "server: nginx/1.25"),
        "PHP": ("", "cookie", "PHPSESSID"), "Stripe": ("", "script", "https://js.stripe.com/v3/"),
    }  # fmt: skip
    assert (info.robots.exists, info.robots.allowed, info.robots.sitemaps) == (True, True, (f"{root}map.xml",))
    assert info.headers["server"] == "nginx/1.25"
    with Image.open(tmp_path / info.favicon) as drawn:
        assert (drawn.format, drawn.size) == ("PNG", (16, 16))
    assert info.screenshot == ""
    assert asked[:2] == ["/robots.txt", "/"]
    assert asked.count("/robots.txt") == 1
    assert "/private/x" not in asked
    assert codes(info) == []


def test_what_a_visit_found_survives_json(tmp_path: Path) -> None:
    """With its messages, so that a report can be shown in another language."""
    info, _ = visited({"/": page("<script>1</script>")}, tmp_path, pages=1)
    restored = WebsiteInfo.from_dict(json.loads(json.dumps(info.as_dict())))
    assert restored == info
    assert [issue.code for issue in restored.issues] == [issue.code for issue in info.issues]  # type: ignore[attr-defined]


def test_each_step_is_noted(tmp_path: Path) -> None:
    """For the person who waits."""
    notes: list[str] = []

    async def story() -> None:
        async with site(BAKERY) as server:
            await visit_site(server.url, tmp_path, notes, pages=2)

    asyncio.run(story())
    assert [note.code for note in notes] == ["visit.step_home", "visit.step_sitemap", "visit.step_page"]  # type: ignore[attr-defined]


@asynchronous
async def test_requests_name_this_program(tmp_path: Path) -> None:
    """Every one of them, with an address that explains it."""
    async with site(BAKERY) as server:
        await visit_site(server.url, tmp_path)
        assert {asked.headers["user-agent"] for asked in server.asked} == {settings().user_agent}
        assert "+https://" in settings().user_agent


# -- robots.txt ----------------------------------------------------------------------------------------------------


def test_a_site_that_asks_not_to_be_read_is_not_read(tmp_path: Path) -> None:
    """Only robots.txt is fetched."""
    pages = {**BAKERY, "/robots.txt": robots("User-agent: tabellion\nDisallow: /\n")}
    asked: list[str] = []

    async def story() -> None:
        async with site(pages) as server:
            try:
                await visit_site(server.url, tmp_path)
            finally:
                asked.extend(one.path for one in server.asked)

    with pytest.raises(Permanent) as failure:
        asyncio.run(story())
    assert failure.value.args[0].code == "visit.robots_denied"
    assert asked == ["/robots.txt"]


def test_a_denial_can_be_ignored_on_request(tmp_path: Path) -> None:
    """For a site of one's own; the report says so."""
    pages = {**BAKERY, "/robots.txt": robots("User-agent: *\nDisallow: /\n")}
    info, _ = visited(pages, tmp_path, respect_robots=False, pages=1)
    assert (info.title, info.robots.allowed, info.robots.respected) == ("Bread since 1950", False, False)


def test_a_robots_file_that_fails_means_not_now(tmp_path: Path) -> None:
    """RFC 9309: an error of the server is not a permission."""
    with pytest.raises(SiteFailed) as failure:
        visited({"/robots.txt": Answer(b"", 503), "/": article("Home")}, tmp_path)
    assert failure.value.args[0].code == "visit.robots_unavailable"


def test_a_long_crawl_delay_limits_the_visit_to_the_home_page(tmp_path: Path) -> None:
    """Rather than to keep a worker waiting."""
    pages: dict[str, Answer | str] = {
        "/robots.txt": robots("User-agent: *\nCrawl-delay: 60\n"),
        "/": page(f'<a href="/about">About us</a><main><p>{PROSE}</p></main>'),
        "/about": article("About"),
    }
    info, asked = visited(pages, tmp_path, longest_pause=0.05)
    assert (len(info.pages), info.robots.crawl_delay) == (1, 60.0)
    assert "/about" not in asked
    assert codes(info) == ["visit.crawl_delay_long"]


# -- bad sites -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "visit.url_invalid"),
        ("https://", "visit.url_invalid"),
        ("ftp://example.com/", "visit.url_invalid"),
        ("https://user:secret@example.com/", "visit.url_invalid"),
        ("http://10.0.0.1/", "visit.refused"),
        ("http://[::1]/", "visit.refused"),
        ("http://169.254.169.254/latest/meta-data/", "visit.refused"),
        ("http://127.0.0.1:22/", "visit.refused"),
        ("http://nowhere.example/", "visit.host_unknown"),
    ],
)
def test_an_address_that_can_never_be_visited_fails_for_good(url: str, code: str, tmp_path: Path) -> None:
    """Not a URL, not public, or unknown."""

    async def resolve(host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is unknown")

    with pytest.raises(Permanent) as failure:
        asyncio.run(visit(url, settings(guard=Rules(resolver=resolve)), tmp_path, lambda _: None))
    assert failure.value.args[0].code == code


def test_a_redirect_to_a_private_address_is_refused_before_it_is_contacted(tmp_path: Path) -> None:
    """A site cannot use a visit to reach the network around it."""

    async def story() -> list[RecordedRequest]:
        async with site({"/": article("Secret")}, REFUSED) as private:
            async with site(lambda asked: _to(asked, private.url)) as public:
                with pytest.raises(Permanent) as failure:
                    await visit_site(public.url, tmp_path)
                assert failure.value.args[0].code == "visit.refused"
            return private.asked

    assert asyncio.run(story()) == []


def _to(asked: RecordedRequest, target: str) -> Answer:
    return Answer(b"", 404) if asked.path == "/robots.txt" else Answer(b"", 302, {"location": target})


@pytest.mark.parametrize(
    ("home", "kind", "code"),
    [
        (Answer(b"", 302, {"location": "/"}), Permanent, "visit.not_fetched"),
        (Answer(b"", 404, HTML), Permanent, "visit.status"),
        (Answer(b"", 403, HTML), Permanent, "visit.status"),
        (Answer(b"", 429, HTML), SiteFailed, "visit.status"),
        (Answer(b"", 503, HTML), SiteFailed, "visit.status"),
        (Answer(b"%PDF-1.7", 200, {"content-type": "application/pdf"}), Permanent, "visit.not_a_page"),
        (Answer(b"\0\1\2", 200, {"content-type": ""}), Permanent, "visit.not_a_page"),
    ],
    ids=["loop", "missing", "forbidden", "throttled", "down", "pdf", "binary"],
)
def test_a_home_page_that_is_none_fails_with_its_reason(
    home: Answer, kind: type[Exception], code: str, tmp_path: Path
) -> None:
    """For good, or until later."""
    with pytest.raises(kind) as failure:
        visited({"/": home}, tmp_path)
    assert failure.value.args[0].code == code


def test_nothing_listening_may_be_tried_again(tmp_path: Path) -> None:
    """A server may be down for a moment."""
    with pytest.raises(SiteFailed):
        asyncio.run(visit_site("http://127.0.0.1:9/", tmp_path))


def test_a_wrong_certificate_fails_for_good(tmp_path: Path) -> None:
    """The message has the reason."""

    async def story() -> None:
        async with tls_server() as (url, _):
            await visit_site(url, tmp_path)

    with pytest.raises(Permanent, match="self-signed certificate"):
        asyncio.run(story())


def test_a_slow_body_may_be_tried_again(tmp_path: Path) -> None:
    """The deadline of a page ends it."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if request.startswith(b"GET /robots.txt"):
            writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
        while True:
            writer.write(b"<p>")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def story() -> None:
        async with raw_server(drip) as url:
            await visit_site(url, tmp_path, page_seconds=0.5)

    with pytest.raises(SiteFailed, match=r"longer than 0\.5 seconds"):
        asyncio.run(story())


def test_a_page_of_ten_gigabytes_is_read_to_the_limit(tmp_path: Path) -> None:
    """What was read is reported, with an issue."""
    start = page(f"<h1>Endless</h1><p>{PROSE}</p>", "<title>Endless</title>").removesuffix("</body></html>").encode()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if not request.startswith(b"GET / "):
            writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 10000000000\r\n\r\n" + start)
        while True:
            writer.write(b"<p>more and more</p>" * 3000)
            await writer.drain()

    async def story() -> WebsiteInfo:
        async with raw_server(pour) as url:
            return await visit_site(url, tmp_path, page_bytes=300_000)

    info = asyncio.run(story())
    assert (info.title, codes(info)) == ("Endless", ["visit.page_cut"])
    assert len(info.text) < 400_000


@pytest.mark.parametrize(
    ("declared", "actual", "wrong"),
    [("iso-8859-1", "utf-8", True), ("utf-8", "cp1252", True), ("iso-8859-1", "cp1252", False), ("", "utf-8", False)],
)
def test_a_page_is_read_in_its_true_character_set(declared: str, actual: str, wrong: bool, tmp_path: Path) -> None:
    """Whatever it declares; a wrong declaration is an issue."""
    text = page(f"<h1>Pâtisserie à Besançon</h1><p>Été, forêt, œuf. {PROSE}</p>", "<title>Pâtisserie</title>")
    media = {"content-type": f"text/html; charset={declared}" if declared else "text/html"}
    info, _ = visited({"/": Answer(text.encode(actual), 200, media)}, tmp_path, pages=1)
    assert (info.title, info.headings[0].text) == ("Pâtisserie", "Pâtisserie à Besançon")
    assert codes(info) == (["visit.charset_wrong"] if wrong else [])


def test_a_page_without_text_is_reported_as_such(tmp_path: Path) -> None:
    """It is a site all the same."""
    info, _ = visited({"/": page('<img src="x.png">', "<title>Pictures</title>")}, tmp_path)
    assert (info.title, info.text, codes(info)) == ("Pictures", "", ["visit.no_text"])


def test_an_endless_sitemap_is_read_in_part(tmp_path: Path) -> None:
    """An index that names itself and a new index each time; compressed ones are read too."""

    def answer(asked: RecordedRequest) -> Answer:
        if asked.path == "/":
            return Answer(article("Home").encode(), 200, HTML)
        if asked.path == "/sitemap.xml" or asked.path.startswith("/more"):
            further = "".join(f"<sitemap><loc>/more{asked.path[-1:]}{one}.xml</loc></sitemap>" for one in range(50))
            listed = "<sitemap><loc>/pages.xml.gz</loc></sitemap><sitemap><loc>/sitemap.xml</loc></sitemap>"
            return Answer(f"<sitemapindex>{further}{listed}</sitemapindex>".encode(), 200, HTML)
        if asked.path == "/pages.xml.gz":
            urls = "".join(f"<url><loc>/page/{number}</loc></url>" for number in range(100))
            return Answer(gzip.compress(f"<urlset>{urls}</urlset>".encode()), 200, {"content-type": "application/gzip"})
        return Answer(article(asked.path).encode(), 200, HTML) if asked.path.startswith("/page/") else Answer(b"", 404)

    info, asked = visited(answer, tmp_path, pages=3)
    assert [one.found for one in info.pages] == ["home", "sitemap", "sitemap"]
    assert len([path for path in asked if path.endswith((".xml", ".gz"))]) == 4
    assert codes(info) == ["visit.sitemaps_left_out"]


def test_a_page_that_only_forwards_is_followed(tmp_path: Path) -> None:
    """As a browser would, through the guard and robots.txt."""
    pages = {"/": '<meta http-equiv="refresh" content="0; url=/en/">', "/en/": article("Welcome")}
    info, _ = visited(pages, tmp_path, pages=1)
    assert info.title == "Welcome"
    assert [url.rpartition(":")[2].partition("/")[2] for url in info.redirects] == [""]
    assert info.final_url.endswith("/en/")


def test_a_page_that_exhausts_its_parser_fails_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its child is lost, this process is not, and the next page is read."""
    with Sandbox(limits=replace(LIMITS, address_space=100 * MEBI), allowed=(f"{MODULE}.",)) as small:
        monkeypatch.setattr("tabellion.pipelines.websites.site.sandbox._pool", [small])
        with pytest.raises(Permanent) as failure:
            visited({"/": article("Large")}, tmp_path, pages=1)
    assert failure.value.args[0].code == "visit.page_unreadable"
    monkeypatch.undo()
    assert visited({"/": article("Fine")}, tmp_path, pages=1)[0].title == "Fine"


@pytest.mark.parametrize(
    "hostile",
    ["<div>" * 500_000, "<a " + "x=1 " * 500_000, "<table><tr><td>" * 100_000, "a@" * 500_000, "&#xD800;\0&#0;" * 1000],
    ids=["nested", "attributes", "tables", "addresses", "unstorable"],
)
def test_a_hostile_page_is_read_as_far_as_it_goes(hostile: str, tmp_path: Path) -> None:
    """Whatever it is made of; what is reported can be stored."""
    info, _ = visited({"/": page(hostile, "<title>Hostile</title>")}, tmp_path, pages=1)
    assert info.title == "Hostile"
    assert "\0" not in str(info.as_dict()).encode().decode()


def test_a_visit_keeps_what_it_has_when_its_time_is_over(tmp_path: Path) -> None:
    """The sample ends early, the home page is reported."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        if path == "/sitemap.xml":
            await asyncio.Event().wait()
        body = article("Home").encode() if path == "/" else b""
        status = 200 if body else 404
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
        await writer.drain()

    async def story() -> WebsiteInfo:
        async with raw_server(answer) as url:
            return await visit_site(url, tmp_path, seconds=3.0)

    info = asyncio.run(story())
    assert (info.title, len(info.pages), codes(info)) == ("Home", 1, ["visit.cut_short"])
