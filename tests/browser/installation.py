"""A real installation: `tabellion up` in its own process, signed-in users, and its pages."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import expect

from tests.browser.watch import Watch
from tests.cli.running import CLEAN, Service
from tests.pipelines.documents import bills
from tests.pipelines.documents.samples import Sample, samples
from tests.web.policy import PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Read by rule, some of them with something for a person to look at; no scans, which take their time.
PAPERS = (
    "en-invoice-1.pdf", "en-invoice-2.pdf", "fr-invoice-1.pdf", "qc-invoice-1.pdf", "en-invoice-two-pages.pdf",
    "de-invoice-wrong-total.pdf", "en-receipt-1.pdf", "copy-1-of-en-invoice-1.pdf", "truncated.pdf", "locked.pdf",
)  # fmt: skip
#: Every page that is for people who are signed in.
ADDRESSES = [
    path for (method, path), role in PAGES.items() if method == "GET" and role is not None and path != "/"
]  # fmt: skip
WRONG = "de-invoice-wrong-total.pdf"  #: its total is not the sum of its parts: a person must look
ADMIN = "admin"
PLAIN = {"viewport": {"width": 1280, "height": 800}, "timezone_id": "UTC", "reduced_motion": "reduce"}


class Installation:
    """One installation."""

    def __init__(self, service: Service, variables: dict[str, str]) -> None:
        self.service, self.variables = service, variables
        self.states: dict[str, Any] = {}  #: who is signed in, and with which cookie
        self.links: dict[str, str] = {}
        self._doubtful = 0
        self.documents: dict[str, str] = {}  #: what it was filled with: id by name

    @property
    def url(self) -> str:
        """Its address."""
        return self.service.url

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the API's answer to the admin's key, which must be a success."""
        content = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if content else {}
        status, answer = self.service.ask(method, path, content, **given, **headers)
        assert status < 400, answer
        return answer

    def upload(self, content: bytes, name: str, **said: str) -> str:
        """Upload a document and wait until it has ended; return its id."""
        submitted = self.service.upload(content, quote(name), **said)
        return self.wait_for_end(submitted["id"])

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside it, on the same data."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
        kept |= {"TABELLION_DATA": str(self.service.data)} | self.variables
        command = [sys.executable, "-m", "tabellion", *words]
        return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=60, check=False)

    def wait_for_end(self, document: str) -> str:
        """Return the document once it has ended."""
        state = {"status": "queued"}
        while state["status"] in ("queued", "processing"):
            state = self.api("GET", f"/api/documents/{document}?wait=60")
            assert (state["error"] or {}).get("code") not in ("internal", "try_failed"), state["error"]
        return document

    def fill(self, names: Iterable[str] = PAPERS) -> dict[str, str]:
        """Upload sample documents and wait; return the id of each by its name."""
        papers = [sample(name) for name in names]
        submitted = {one.name: str(self.service.upload(one.content, quote(one.name))["id"]) for one in papers}
        return {name: self.wait_for_end(document) for name, document in submitted.items()}

    def address(self, path: str) -> str:
        """Return a page's address with its parameters filled in: a document and its review, a queue."""
        if path == "/documents/{id}":
            return f"/documents/{self.documents[WRONG]}"
        if path == "/review/{id}":
            return f"/review/{self.item(self.documents[WRONG])['id']}"
        return path.replace("{name}", "documents")

    def item(self, document: str) -> dict[str, Any]:
        """Return the review item of a document."""
        items = self.api("GET", "/api/review/items?status=open&limit=200")["items"]
        return dict(next(one for one in items if one["document_id"] == document))

    @contextlib.contextmanager
    def stranger(self, browser: Browser, state: Any = None, **options: Any) -> Iterator[Visitor]:
        """Open the pages without signing in; forbidden browser events fail at the end."""
        given = PLAIN | {"locale": "en-GB"} | options
        with browser.new_context(base_url=self.url, storage_state=state, **given) as context:
            visitor = Visitor(self, context.new_page(), Watch(context, self.url))
            try:
                yield visitor
            except Exception as error:
                for wrong in visitor.watch.wrongs:  # often the reason
                    error.add_note(wrong)
                raise
            visitor.watch.check()

    @contextlib.contextmanager
    def visitor(self, browser: Browser, name: str = ADMIN, **options: Any) -> Iterator[Visitor]:
        """Open the pages signed in: the admin by the link that `tabellion up` prints, others by a link of their own."""
        if name not in self.states:
            with self.stranger(browser) as newcomer:
                self.states[name] = newcomer.sign_in(name)
        with self.stranger(browser, self.states[name], **options) as visitor:
            yield visitor

    def add_doubtful(self) -> dict[str, Any]:
        """Add a unique invoice whose total is wrong by ten; return its review item."""
        bill = replace(bills.invent("en", random.Random(f"doubtful {self._doubtful}")), slip=Decimal(10))
        self._doubtful += 1
        return self.item(self.upload(bills.invoice(bill).to_bytes(), f"{bill.number}.pdf"))

    def add_copies(self, item: dict[str, Any], count: int) -> None:
        """Add this many copies of a document and of its review item to the database, since reading them is slow."""
        with contextlib.closing(sqlite3.connect(self.service.data / "tabellion.db", timeout=30)) as database, database:
            for kind, id_ in (("documents", item["document_id"]), ("review_items", item["id"])):
                table = f"tabellion_{kind}"
                names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                [row] = database.execute(f"SELECT {', '.join(names)} FROM {table} WHERE id = ?", [id_])
                for number in range(count):
                    copy = dict(zip(names, row, strict=True)) | {"id": f"{id_[:20]}zz{number:04}"}
                    copy |= {"name": f"copy {number:03}.pdf", "completed_at": None} if kind == "documents" else {}
                    copy |= (
                        {"document_id": f"{item['document_id'][:20]}zz{number:04}"} if kind == "review_items" else {}
                    )
                    marks = ", ".join("?" for _ in names)
                    database.execute(f"INSERT INTO {table} VALUES ({marks})", [copy[name] for name in names])

    def add_person(self, name: str, role: str, *, available: bool = False) -> None:
        """Create a user who signs in by a link and is assigned work only when `available`."""
        user = self.api("POST", "/api/users", {"name": name, "role": role})
        self.api("PATCH", f"/api/users/{user['id']}", {"available": available})
        self.links[name] = self.api("POST", f"/api/users/{user['id']}/link")["url"]


class Visitor:
    """One user of the pages."""

    def __init__(self, installation: Installation, page: Page, watch: Watch) -> None:
        self.installation, self.page, self.watch = installation, page, watch

    def sign_in(self, name: str) -> Any:
        """Sign in by a link, which works once; return its cookies."""
        self.page.goto(
            self.installation.links.get(name) or self.installation.service.wait_for_line("started")["sign_in"]
        )
        self.page.wait_for_url(lambda url: urlsplit(url).path != "/enter")
        return self.page.context.storage_state()

    def open(self, path: str) -> Page:
        """Open a page and wait until it is loaded."""
        self.page.goto(path)
        self.watch.settle(self.page)
        return self.page

    def review(self, item: dict[str, Any], *, claim: bool = True) -> Page:
        """Open the review screen of an item, which claims it."""
        page = self.open(f"/review/{item['id']}")
        expect(page.locator("#fields .slot").first).to_be_visible()
        if claim:
            page.keyboard.press("c")
            expect(page.locator("#approve")).to_be_visible()
        return page

    def whole(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the server's version of an item."""
        return dict(self.installation.api("GET", f"/api/review/items/{item['id']}"))

    def visit_all(self) -> Iterator[Page]:
        """Visit every page, one after the other."""
        for path in ADDRESSES:
            yield self.open(self.installation.address(path))


@contextlib.contextmanager
def open_installation(data: Path, *words: str, **variables: str) -> Iterator[Installation]:
    """Run an installation for the duration of a block."""
    service = Service(data, *words, **variables)
    try:
        yield Installation(service, variables)
    finally:
        service.close()


def sample(name: str) -> Sample:
    """Return one of the samples by its name."""
    return next(one for one in samples(scans=False) if one.name == name)
