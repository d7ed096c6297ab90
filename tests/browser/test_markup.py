"""Texts that are programs stay texts, wherever they come from and on whichever page they are shown."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import poison
from tests.browser.poison import BACKWARDS, BRACES, DRAWING, EVERYTHING, IMAGE, SCRIPT, Trap
from tests.browser.site import ADDRESSES, Site, Visitor, opened
from tests.browser.watch import until
from tests.pipelines.documents import bills
from tests.pipelines.documents.pdf_writer import Paper

LETTER = f"""
name: letter
version: "1"
title: {json.dumps("Letter " + IMAGE)}
description: {json.dumps(SCRIPT)}
fields:
  subject:
    type: text
    title: {json.dumps("Subject " + IMAGE)}
    description: {json.dumps(EVERYTHING)}
    labels: [Subject]
  year: number
validation:
  - {{name: {json.dumps(IMAGE)}, rule: year > 2000, message: {json.dumps("Not so old: " + EVERYTHING)}}}
processing: {{review: always}}
"""


class Refusing(BaseHTTPRequestHandler):
    """A model that refuses everything, with a sentence that is a program."""

    def do_POST(self) -> None:
        """Says no."""
        self.rfile.read(int(self.headers.get("content-length", "0")))
        content = json.dumps({"error": {"message": f"refused {EVERYTHING}", "code": 400, "status": IMAGE}}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Says nothing."""


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where the model is that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def poisoned(chromium: Browser, model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation with poison wherever somebody can put a text."""
    folder = tmp_path_factory.mktemp("poisoned")
    (folder / "types").mkdir()
    (folder / "types" / "letter.yaml").write_text(LETTER)
    variables = {"TABELLION_TYPES": str(folder / "types"), "GEMINI_API_KEY": "k", "TABELLION_GEMINI_BASE_URL": model}
    with opened(folder / "data", **variables) as site:
        documents = {
            "bill": site.upload(poison.paper(), f"bill {IMAGE}.pdf"),
            "letter": site.upload(letter(), f"letter {DRAWING} {BRACES}.pdf", type="letter"),
            "backwards": site.upload(bills.invoice(bills.invent("fr", random.Random(8))).written(), f"{BACKWARDS}.pdf"),
            "failed": site.upload(b"%PDF-1.7\ndamaged", f"failed {IMAGE}.pdf"),
            "refused": site.upload(
                bills.invoice(bills.invent("en", random.Random(9))).written(), "refused.pdf", model="gemini"
            ),
        }
        site.documents = documents
        key = site.commanded("keys", "create", "--role", "operator", "--name", f"key {IMAGE}", "--json")
        assert key.returncode == 0, key.stderr
        spoil(site, json.loads(key.stdout)["key"])
        yield site


def letter() -> bytes:
    """A letter whose subject is poison and whose year is wrong."""
    paper = Paper()
    paper.text(56, 80, f"Subject: {IMAGE} {DRAWING}", 12)
    paper.text(56, 110, "Year: 1999", 12)
    return paper.written()


def spoil(site: Site, key: str) -> None:
    """Reasons, values and drafts, by a key whose own name is poison."""
    asked = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(path: str, body: Any, method: str = "POST", **headers: str) -> Any:
        status, told = site.service.ask(method, path, json.dumps(body).encode(), **asked, **headers)
        assert status < 400, told
        return told

    bill, note = (f"/api/review/items/{site.item(site.documents[name])['id']}" for name in ("bill", "letter"))
    post(f"{bill}/claim", {})
    version = site.api("GET", bill)["version"]
    value = {"action": "correct", "value": f"Corrected {EVERYTHING}", "page": 1, "quote": IMAGE}
    post(f"{bill}/fields", {"fields": {"customer": value}}, "PATCH", **{"If-Match": f'"{version}"'})
    post(f"{bill}/draft", {"fields": {"vendor": EVERYTHING}}, "PUT")
    post(f"{note}/claim", {})
    post(f"{note}/escalate", {"reason": f"escalated {EVERYTHING}"})
    post(f"{note}/claim", {})
    post(f"{note}/reject", {"code": "other", "reason": f"rejected {EVERYTHING}"})
    post("/api/queues/webhooks/pause", {"reason": f"paused {EVERYTHING}"})
    body = json.dumps({"name": IMAGE, "role": "viewer"}).encode()
    status, told = site.service.ask("POST", "/api/users", body, **{"Content-Type": "application/json"})
    assert status == 422, told  # a name is no place for it


@pytest.fixture
def visitor(poisoned: Site, chromium: Browser) -> Iterator[Visitor]:
    """Somebody whose browser would run anything: the policy that forbids it is lifted."""
    with poisoned.visitor(chromium, bypass_csp=True) as one:
        yield one


@pytest.fixture
def trap(visitor: Visitor) -> Trap:
    """Notices what runs."""
    return Trap(visitor.page.context)


def test_the_trap_works(visitor: Visitor, trap: Trap) -> None:
    """A text that is put into a page as markup does run here, and is noticed."""
    page = visitor.open("/documents")
    page.evaluate("text => { document.querySelector('main').innerHTML = text }", IMAGE)
    until(page, lambda: trap.sprung)
    with pytest.raises(AssertionError):
        trap.check(page)
    visitor.watch.expect(404)
    visitor.watch.wrongs.clear()


@pytest.fixture(scope="module")
def stroller(poisoned: Site, chromium: Browser) -> Iterator[tuple[Visitor, Trap]]:
    """Somebody who only looks, at one page after the other."""
    with poisoned.visitor(chromium, bypass_csp=True) as one:
        yield one, Trap(one.page.context)


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_runs_on_any_page(stroller: tuple[Visitor, Trap], path: str) -> None:
    """Every page about what is poisoned shows it and runs nothing."""
    visitor, trap = stroller
    site = visitor.site
    about: dict[str, list[str]] = {
        "/documents/{id}": [f"/documents/{one}" for one in site.documents.values()],
        "/review/{id}": [f"/review/{one['id']}" for one in items(site)],
        "/queues/{name}": ["/queues/documents", "/queues/webhooks", "/queues/review"],
    }
    for address in about.get(path, [path]):
        visitor.watch.expect(404, 409, 422)  # of a document that cannot be opened there is no picture
        page = visitor.open(address)
        trap.check(page)


def items(site: Site) -> list[dict[str, Any]]:
    """Every review item, open or not."""
    return [
        one for status in ("open", "done") for one in site.api("GET", f"/api/review/items?status={status}")["items"]
    ]


def shows(page: Page, *texts: str) -> None:
    """Waits until the page says these, letter by letter."""
    for text in texts:
        until(page, lambda text=text: text in poison.shown(page))  # type: ignore[misc]


def test_texts_are_shown_as_they_are(visitor: Visitor, trap: Trap) -> None:
    """Names, values, reasons and errors are read on the pages exactly as somebody wrote them."""
    site, by_name = visitor.site, {one["name"]: one for one in items(visitor.site)}
    visitor.watch.expect(404, 409, 422)
    page = visitor.open("/documents")
    shows(page, f"bill {IMAGE}.pdf", f"letter {DRAWING} {BRACES}.pdf", f"failed {IMAGE}.pdf")
    assert "\u202e" not in poison.shown(page)
    trap.check(page)
    page = visitor.open(f"/documents/{site.documents['bill']}")
    shows(page, f"Acme {IMAGE} Ltd", f"Shelf {SCRIPT}", f"Corrected {EVERYTHING}", f"key {IMAGE}")
    trap.check(page)
    page = visitor.open(f"/documents/{site.documents['letter']}")
    shows(page, f"Subject {IMAGE}", f"rejected {EVERYTHING}", f"escalated {EVERYTHING}", f"Letter {IMAGE}")
    trap.check(page)
    page = visitor.open(f"/documents/{site.documents['refused']}")
    shows(page, IMAGE)
    trap.check(page)
    page = visitor.open(f"/review/{by_name[f'bill {IMAGE}.pdf']['id']}")
    shows(page, f"Acme {IMAGE} Ltd", f"Hinge {DRAWING}", f"Corrected {EVERYTHING}", f"key {IMAGE}", f"bill {IMAGE}.pdf")
    page.keyboard.press("Shift+H")  # every word of the page, as it was read
    page.keyboard.press("t")
    expect(page.locator("#drawer")).to_contain_text("Corrected")
    trap.check(page)
    page = visitor.open(f"/review/{by_name[f'letter {DRAWING} {BRACES}.pdf']['id']}")
    shows(page, f"Subject {IMAGE}", f"rejected {EVERYTHING}")
    trap.check(page)
    page = visitor.open("/queue")
    shows(page, f"bill {IMAGE}.pdf", f"key {IMAGE}")
    page.keyboard.press("6")
    shows(page, f"letter {DRAWING} {BRACES}.pdf")
    trap.check(page)
    page = visitor.open("/dashboard")
    shows(page, f"paused {EVERYTHING}")
    trap.check(page)


def test_what_is_typed_and_what_is_asked_for_stays_text(visitor: Visitor, trap: Trap) -> None:
    """Searches, addresses and drafts come back as they were given."""
    visitor.watch.expect(404, 422)
    for address in (f"/documents?q={quote(IMAGE)}&status={quote(DRAWING)}", f"/queue?q={quote(SCRIPT)}",
                    f"/sign-in?next={quote('javascript:ran(4)')}", f"/documents/{quote(IMAGE)}",
                    f"/review/{quote(SCRIPT, safe='')}", f"/queues/{quote(DRAWING)}", f"/{quote(IMAGE)}"):  # fmt: skip
        page = visitor.open(address)
        trap.check(page)
    page = visitor.open("/queue")
    page.locator("#q").fill(EVERYTHING)
    expect(page.locator("#none")).to_be_visible()
    trap.check(page)
    item = visitor.site.doubtful()
    page = visitor.review(item)
    page.locator("#field-customer").fill(EVERYTHING)
    page.locator("#field-customer").press("Tab")
    visitor.watch.settle(page)
    page.reload()
    visitor.watch.settle(page)
    expect(page.locator("#field-customer")).to_have_value(EVERYTHING)
    trap.check(page)
