"""Texts that look like scripts stay texts, wherever they come from and wherever they are shown."""

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

from tests.browser import script_injection
from tests.browser.installation import ADDRESSES, Installation, Visitor, open_installation
from tests.browser.script_injection import BACKWARDS, BRACES, DRAWING, EVERYTHING, IMAGE, SCRIPT, ScriptDetector
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
    """A model that refuses everything, with a sentence that is a script."""

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers.get("content-length", "0")))
        content = json.dumps({"error": {"message": f"refused {EVERYTHING}", "code": 400, "status": IMAGE}}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Log nothing."""


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The address of the model that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def poisoned(chromium: Browser, model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with a script wherever a text can be entered."""
    folder = tmp_path_factory.mktemp("poisoned")
    (folder / "types").mkdir()
    (folder / "types" / "letter.yaml").write_text(LETTER)
    variables = {"TABELLION_TYPES": str(folder / "types"), "GEMINI_API_KEY": "k", "TABELLION_GEMINI_BASE_URL": model}
    with open_installation(folder / "data", **variables) as installation:
        documents = {
            "bill": installation.upload(script_injection.paper(), f"bill {IMAGE}.pdf"),
            "letter": installation.upload(letter(), f"letter {DRAWING} {BRACES}.pdf", type="letter"),
            "backwards": installation.upload(
                bills.invoice(bills.invent("fr", random.Random(8))).to_bytes(), f"{BACKWARDS}.pdf"
            ),
            "failed": installation.upload(b"%PDF-1.7\ndamaged", f"failed {IMAGE}.pdf"),
            "refused": installation.upload(
                bills.invoice(bills.invent("en", random.Random(9))).to_bytes(), "refused.pdf", model="gemini"
            ),
        }
        installation.documents = documents
        key = installation.run_command("keys", "create", "--role", "operator", "--name", f"key {IMAGE}", "--json")
        assert key.returncode == 0, key.stderr
        inject(installation, json.loads(key.stdout)["key"])
        yield installation


def letter() -> bytes:
    """A letter whose subject is a script and whose year is wrong."""
    paper = Paper()
    paper.text(56, 80, f"Subject: {IMAGE} {DRAWING}", 12)
    paper.text(56, 110, "Year: 1999", 12)
    return paper.to_bytes()


def inject(installation: Installation, key: str) -> None:
    """Enter scripts as reasons, values and drafts, by a key whose own name is one."""
    asked = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(path: str, body: Any, method: str = "POST", **headers: str) -> Any:
        status, answer = installation.service.ask(method, path, json.dumps(body).encode(), **asked, **headers)
        assert status < 400, answer
        return answer

    bill, note = (
        f"/api/review/items/{installation.item(installation.documents[name])['id']}" for name in ("bill", "letter")
    )
    post(f"{bill}/claim", {})
    version = installation.api("GET", bill)["version"]
    value = {"action": "correct", "value": f"Corrected {EVERYTHING}", "page": 1, "quote": IMAGE}
    post(f"{bill}/fields", {"fields": {"customer": value}}, "PATCH", **{"If-Match": f'"{version}"'})
    post(f"{bill}/draft", {"fields": {"vendor": EVERYTHING}}, "PUT")
    post(f"{note}/claim", {})
    post(f"{note}/escalate", {"reason": f"escalated {EVERYTHING}"})
    post(f"{note}/claim", {})
    post(f"{note}/reject", {"code": "other", "reason": f"rejected {EVERYTHING}"})
    post("/api/queues/webhooks/pause", {"reason": f"paused {EVERYTHING}"})
    body = json.dumps({"name": IMAGE, "role": "viewer"}).encode()
    status, answer = installation.service.ask("POST", "/api/users", body, **{"Content-Type": "application/json"})
    assert status == 422, answer  # a name is no place for it


@pytest.fixture
def visitor(poisoned: Installation, chromium: Browser) -> Iterator[Visitor]:
    """A user whose browser would run anything: the content security policy is disabled."""
    with poisoned.visitor(chromium, bypass_csp=True) as one:
        yield one


@pytest.fixture
def detector(visitor: Visitor) -> ScriptDetector:
    """Notices what runs."""
    return ScriptDetector(visitor.page.context)


def test_the_detector_works(visitor: Visitor, detector: ScriptDetector) -> None:
    """A text inserted into a page as markup does run here, and is noticed."""
    page = visitor.open("/documents")
    page.evaluate("text => { document.querySelector('main').innerHTML = text }", IMAGE)
    until(page, lambda: detector.sprung)
    with pytest.raises(AssertionError):
        detector.check(page)
    visitor.watch.expect(404)
    visitor.watch.wrongs.clear()


@pytest.fixture(scope="module")
def stroller(poisoned: Installation, chromium: Browser) -> Iterator[tuple[Visitor, ScriptDetector]]:
    """A user who only looks, at one page after the other."""
    with poisoned.visitor(chromium, bypass_csp=True) as one:
        yield one, ScriptDetector(one.page.context)


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_runs_on_any_page(stroller: tuple[Visitor, ScriptDetector], path: str) -> None:
    """Every page about the injected texts shows them and runs nothing."""
    visitor, detector = stroller
    installation = visitor.installation
    about: dict[str, list[str]] = {
        "/documents/{id}": [f"/documents/{one}" for one in installation.documents.values()],
        "/review/{id}": [f"/review/{one['id']}" for one in items(installation)],
        "/queues/{name}": ["/queues/documents", "/queues/webhooks", "/queues/review"],
    }
    for address in about.get(path, [path]):
        visitor.watch.expect(404, 409, 422)  # of a document that cannot be opened there is no picture
        page = visitor.open(address)
        detector.check(page)


def items(installation: Installation) -> list[dict[str, Any]]:
    """Every review item, open or not."""
    return [
        one
        for status in ("open", "done")
        for one in installation.api("GET", f"/api/review/items?status={status}")["items"]
    ]


def wait_for_text(page: Page, *texts: str) -> None:
    """Wait until the page shows these texts exactly."""
    for text in texts:
        until(page, lambda text=text: text in script_injection.page_text(page))  # type: ignore[misc]


def test_texts_are_shown_as_they_are(visitor: Visitor, detector: ScriptDetector) -> None:
    """Names, values, reasons and errors are shown exactly as they were written."""
    installation, by_name = visitor.installation, {one["name"]: one for one in items(visitor.installation)}
    visitor.watch.expect(404, 409, 422)
    page = visitor.open("/documents")
    wait_for_text(page, f"bill {IMAGE}.pdf", f"letter {DRAWING} {BRACES}.pdf", f"failed {IMAGE}.pdf")
    assert "\u202e" not in script_injection.page_text(page)
    detector.check(page)
    page = visitor.open(f"/documents/{installation.documents['bill']}")
    wait_for_text(page, f"Acme {IMAGE} Ltd", f"Shelf {SCRIPT}", f"Corrected {EVERYTHING}", f"key {IMAGE}")
    detector.check(page)
    page = visitor.open(f"/documents/{installation.documents['letter']}")
    wait_for_text(page, f"Subject {IMAGE}", f"rejected {EVERYTHING}", f"escalated {EVERYTHING}", f"Letter {IMAGE}")
    detector.check(page)
    page = visitor.open(f"/documents/{installation.documents['refused']}")
    wait_for_text(page, IMAGE)
    detector.check(page)
    page = visitor.open(f"/review/{by_name[f'bill {IMAGE}.pdf']['id']}")
    wait_for_text(
        page, f"Acme {IMAGE} Ltd", f"Hinge {DRAWING}", f"Corrected {EVERYTHING}", f"key {IMAGE}", f"bill {IMAGE}.pdf"
    )
    page.keyboard.press("Shift+H")  # every word of the page, as it was read
    page.keyboard.press("t")
    expect(page.locator("#drawer")).to_contain_text("Corrected")
    detector.check(page)
    page = visitor.open(f"/review/{by_name[f'letter {DRAWING} {BRACES}.pdf']['id']}")
    wait_for_text(page, f"Subject {IMAGE}", f"rejected {EVERYTHING}")
    detector.check(page)
    page = visitor.open("/queue")
    wait_for_text(page, f"bill {IMAGE}.pdf", f"key {IMAGE}")
    page.keyboard.press("6")
    wait_for_text(page, f"letter {DRAWING} {BRACES}.pdf")
    detector.check(page)
    page = visitor.open("/dashboard")
    wait_for_text(page, f"paused {EVERYTHING}")
    detector.check(page)


def test_typed_and_requested_texts_stay_text(visitor: Visitor, detector: ScriptDetector) -> None:
    """Searches, addresses and drafts are returned as they were given."""
    visitor.watch.expect(404, 422)
    for address in (f"/documents?q={quote(IMAGE)}&status={quote(DRAWING)}", f"/queue?q={quote(SCRIPT)}",
                    f"/sign-in?next={quote('javascript:ran(4)')}", f"/documents/{quote(IMAGE)}",
                    f"/review/{quote(SCRIPT, safe='')}", f"/queues/{quote(DRAWING)}", f"/{quote(IMAGE)}"):  # fmt: skip
        page = visitor.open(address)
        detector.check(page)
    page = visitor.open("/queue")
    page.locator("#q").fill(EVERYTHING)
    expect(page.locator("#none")).to_be_visible()
    detector.check(page)
    item = visitor.installation.add_doubtful()
    page = visitor.review(item)
    page.locator("#field-customer").fill(EVERYTHING)
    page.locator("#field-customer").press("Tab")
    visitor.watch.settle(page)
    page.reload()
    visitor.watch.settle(page)
    expect(page.locator("#field-customer")).to_have_value(EVERYTHING)
    detector.check(page)
