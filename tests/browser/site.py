"""A real installation to visit: `tabellion up` in a process of its own, people who are signed in, and its pages."""

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


class Site:
    """One installation."""

    def __init__(self, service: Service, told: dict[str, str]) -> None:
        self.service, self.told = service, told
        self.states: dict[str, Any] = {}  #: who is signed in, and with which cookie
        self.links: dict[str, str] = {}
        self._doubtful = 0
        self.documents: dict[str, str] = {}  #: what it was filled with: id by name

    @property
    def url(self) -> str:
        """Where it is."""
        return self.service.url

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What the API answers to the admin's key, which must be good news."""
        content = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if content else {}
        status, answer = self.service.ask(method, path, content, **given, **headers)
        assert status < 400, answer
        return answer

    def upload(self, content: bytes, name: str, **said: str) -> str:
        """Takes a document in and waits for its end; its id."""
        made = self.service.upload(content, quote(name), **said)
        return self.ended(made["id"])

    def commanded(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command beside it, on the same data."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
        kept |= {"TABELLION_DATA": str(self.service.data)} | self.told
        command = [sys.executable, "-m", "tabellion", *words]
        return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=60, check=False)

    def ended(self, document: str) -> str:
        """The document, once it has ended."""
        told = {"status": "queued"}
        while told["status"] in ("queued", "processing"):
            told = self.api("GET", f"/api/documents/{document}?wait=60")
            assert (told["error"] or {}).get("code") not in ("internal", "try_failed"), told["error"]
        return document

    def fill(self, names: Iterable[str] = PAPERS) -> dict[str, str]:
        """Sample documents, read; the id of each by its name."""
        papers = [sample(name) for name in names]
        made = {one.name: str(self.service.upload(one.content, quote(one.name))["id"]) for one in papers}
        return {name: self.ended(document) for name, document in made.items()}

    def address(self, path: str) -> str:
        """A page's address with what it is to be about filled in: a document and the review of it, a queue."""
        if path == "/documents/{id}":
            return f"/documents/{self.documents[WRONG]}"
        if path == "/review/{id}":
            return f"/review/{self.item(self.documents[WRONG])['id']}"
        return path.replace("{name}", "documents")

    def item(self, document: str) -> dict[str, Any]:
        """The review item of a document."""
        items = self.api("GET", "/api/review/items?status=open&limit=200")["items"]
        return dict(next(one for one in items if one["document_id"] == document))

    @contextlib.contextmanager
    def stranger(self, browser: Browser, state: Any = None, **options: Any) -> Iterator[Visitor]:
        """Somebody in a browser of their own; what no page may do fails at the end."""
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
        """The same, signed in: the admin by the link that `tabellion up` prints, others by one of their own."""
        if name not in self.states:
            with self.stranger(browser) as newcomer:
                self.states[name] = newcomer.sign_in(name)
        with self.stranger(browser, self.states[name], **options) as visitor:
            yield visitor

    def doubtful(self) -> dict[str, Any]:
        """The review item of an invoice like no other, whose total is wrong by ten."""
        bill = replace(bills.invent("en", random.Random(f"doubtful {self._doubtful}")), slip=Decimal(10))
        self._doubtful += 1
        return self.item(self.upload(bills.invoice(bill).written(), f"{bill.number}.pdf"))

    def crowd(self, item: dict[str, Any], count: int) -> None:
        """So many copies of a document and of its review item, made in the database: reading them would take long."""
        with contextlib.closing(sqlite3.connect(self.service.data / "tabellion.db", timeout=30)) as database, database:
            for kind, id_ in (("documents", item["document_id"]), ("review_items", item["id"])):
                table = f"tabellion_{kind}"
                names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                [row] = database.execute(f"SELECT {', '.join(names)} FROM {table} WHERE id = ?", [id_])
                for number in range(count):
                    told = dict(zip(names, row, strict=True)) | {"id": f"{id_[:20]}zz{number:04}"}
                    told |= {"name": f"copy {number:03}.pdf", "completed_at": None} if kind == "documents" else {}
                    told |= (
                        {"document_id": f"{item['document_id'][:20]}zz{number:04}"} if kind == "review_items" else {}
                    )
                    marks = ", ".join("?" for _ in names)
                    database.execute(f"INSERT INTO {table} VALUES ({marks})", [told[name] for name in names])

    def person(self, name: str, role: str, *, available: bool = False) -> None:
        """Makes a user, who comes in by a link and is given work only when `available`."""
        user = self.api("POST", "/api/users", {"name": name, "role": role})
        self.api("PATCH", f"/api/users/{user['id']}", {"available": available})
        self.links[name] = self.api("POST", f"/api/users/{user['id']}/link")["url"]


class Visitor:
    """One person at the pages."""

    def __init__(self, site: Site, page: Page, watch: Watch) -> None:
        self.site, self.page, self.watch = site, page, watch

    def sign_in(self, name: str) -> Any:
        """Comes in by a link, which works once; the cookies of it."""
        self.page.goto(self.site.links.get(name) or self.site.service.said("started")["sign_in"])
        self.page.wait_for_url(lambda url: urlsplit(url).path != "/enter")
        return self.page.context.storage_state()

    def open(self, path: str) -> Page:
        """A page, once it has all that it asks for."""
        self.page.goto(path)
        self.watch.settle(self.page)
        return self.page

    def review(self, item: dict[str, Any], *, claim: bool = True) -> Page:
        """The review screen of an item, which is claimed there."""
        page = self.open(f"/review/{item['id']}")
        expect(page.locator("#fields .slot").first).to_be_visible()
        if claim:
            page.keyboard.press("c")
            expect(page.locator("#approve")).to_be_visible()
        return page

    def whole(self, item: dict[str, Any]) -> dict[str, Any]:
        """What the server says of an item now."""
        return dict(self.site.api("GET", f"/api/review/items/{item['id']}"))

    def stroll(self) -> Iterator[Page]:
        """Every page, one after the other."""
        for path in ADDRESSES:
            yield self.open(self.site.address(path))


@contextlib.contextmanager
def opened(data: Path, *words: str, **variables: str) -> Iterator[Site]:
    """An installation for the length of a block."""
    service = Service(data, *words, **variables)
    try:
        yield Site(service, variables)
    finally:
        service.close()


def sample(name: str) -> Sample:
    """One of the samples, by its name."""
    return next(one for one in samples(scans=False) if one.name == name)
