"""Screenshots of every page for the docs: python -m tests.screenshots [folder]

Taken in a real Chromium from a real installation with sample documents, always the same ones, and three people at work
on them. Times differ from one run to the next, and with them a few numbers; all else stays as it is.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import expect

from tests.browser.chromium import launched, why_not
from tests.browser.installation import ADMIN, WRONG, Installation, Visitor, open_installation
from tests.browser.watch import until
from tests.pipelines.batches.installed import BatchInstallation, open_batches
from tests.pipelines.documents import bills
from tests.pipelines.documents.samples import samples
from tests.pipelines.websites.loopback import served
from tests.workers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

COLOURS = 256
MOST = 200_000  #: bytes of one picture
SIZE = {"width": 1280, "height": 800}
TABLET = {"width": 1024, "height": 768}
WRONG_ONES = 16
REVIEWED = 8
#: Files of the extraction queue, and their types.
EXTRACTIONS = (
    ("en-invoice-two-pages.pdf", "actes"), ("qc-scan.jpg", "actes"), ("qc-invoice-1.pdf", "plans_cadastraux"),
    ("truncated.pdf", "index"),
)  # fmt: skip
PEOPLE = {"anna": "reviewer", "marc": "reviewer", "olga": "operator"}


def main() -> None:
    """Take all of them."""
    if sentence := why_not():
        raise SystemExit(sentence.replace("The browser tests are skipped", "No pictures are taken"))
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, open_installation(Path(data) / "data") as site, launched() as browser:
        furnish(site, browser)
        for name, page in scenes(site, browser):
            picture(page, folder / f"{name}.png")
    with (
        tempfile.TemporaryDirectory() as data,
        open_installation(Path(data) / "data", "--with", "ocr") as site,
        launched() as browser,
    ):
        for name, page in reading_scenes(site, browser):
            picture(page, folder / f"{name}.png")
    with tempfile.TemporaryDirectory() as data, launched() as browser, served(Path(data) / "site") as beech:
        allowed = {"TABELLION_ALLOW": "127.0.0.0/8"}
        with open_installation(Path(data) / "data", "--with", "websites", **allowed) as site:
            for name, page in website_scenes(site, browser, beech):
                picture(page, folder / f"{name}.png")

    with (
        tempfile.TemporaryDirectory() as data,
        open_batches(Path(data), gate="rate = 10", rate=25, latency="0.3-0.8") as batches,
        launched() as browser,
    ):
        for name, page in batch_scenes(batches, browser):
            picture(page, folder / f"{name}.png")


def reading_scenes(site: Installation, browser: Browser) -> Iterator[tuple[str, Page]]:
    """The pages of extractions: the list, and a scan beside its text."""
    papers = {one.name: one.content for one in samples()}
    collected = []
    for name, kind in EXTRACTIONS:
        path = f"/api/extractions/ocr?document_number={quote(name)}&document_type={kind}"
        status, answer = site.service.ask("POST", path, papers[name], **{"Content-Type": "application/octet-stream"})
        assert status == 202, answer
        collected.append(answer["id"])
    with site.visitor(browser, viewport=SIZE) as visitor:
        page = visitor.open("/extractions")
        ended = re.compile("Complete|Failed")
        expect(page.locator("#rows tr", has_text=ended)).to_have_count(len(EXTRACTIONS), timeout=180_000)
        yield "extractions", page
        page = visitor.open(f"/extractions/{collected[1]}")
        page.wait_for_selector("#leaf img")
        yield "extraction", page


def website_scenes(site: Installation, browser: Browser, beech: str) -> Iterator[tuple[str, Page]]:
    """The pages of websites: the list with its phases, and one website with its report."""
    jobs = [("", "profile"), ("", "seo"), ("", "trust"), ("about.html", "trust")]
    made = [site.api("POST", "/api/websites", {"url": f"{beech}{path}", "type": kind})["id"] for path, kind in jobs]
    with site.visitor(browser, viewport=SIZE) as visitor:
        page = visitor.open("/websites")
        expect(page.locator("#rows tr", has_text="Completed")).to_have_count(len(jobs), timeout=180_000)
        yield "websites", page
        page = visitor.open(f"/websites/{made[2]}")
        expect(page.locator(".step.done")).to_have_count(3)
        page.wait_for_function("document.querySelector('.shot img').complete")
        yield "website", page


def batch_scenes(batches: BatchInstallation, browser: Browser) -> Iterator[tuple[str, Page]]:
    """The pages of batches: one that is worked on, with failing refs and its gate, and the list."""
    batches.lose("1-1", "3-0", "7-2", "9-4", "12-1", *(f"901-{place}" for place in range(5)))
    files = [f"/asset/{name}{variant}" for name in ("2-0", "2-1") for variant in ("", "/medium")]
    batches.images.answers |= {path: [(200, b"%PDF-1.4")] for path in files}
    for number, name in enumerate(("letters-1811", "maps-of-the-parish", "census-1851")):
        batches.submit(name, batches.pis(900 + number, 1 + number, 5), chunk_size=1)
    with batches.site.visitor(browser, viewport=SIZE) as visitor:
        page = visitor.open("/batches")
        ended = re.compile("complete")
        expect(page.locator("#rows tr", has_text=ended)).to_have_count(3, timeout=60_000)
        pis = batches.pis(0, 300, 5)
        pis[5]["refs"][0]["filename"] = "notes.txt.ref.json"
        batches.submit("parish-registers-1787", pis, callback_url=f"{batches.images.url}/callback")
        page = visitor.open("/batches/parish-registers-1787")
        done = page.locator("#counts .read dd")
        until(page, lambda: int(done.inner_text().replace(",", "")) > 900, within=120)
        yield "batch", page
        yield "batches", visitor.open("/batches")


def furnish(site: Installation, browser: Browser) -> None:
    """Add documents, people, and some finished work."""
    with contextlib.ExitStack() as stack:
        for name, role in PEOPLE.items():
            site.add_person(name, role, available=True)
        people = {name: stack.enter_context(site.visitor(browser, name)) for name in (ADMIN, *PEOPLE)}
        papers = {one.name: one.content for one in samples() if one.ending != "rejected"} | dict(wrong())
        submitted = {name: str(site.service.upload(content, quote(name))["id"]) for name, content in papers.items()}
        site.documents = {name: site.wait_for_end(document) for name, document in submitted.items()}
        waiting = site.api("GET", "/api/review/items?status=open&limit=100")["items"]
        shown = next(one for one in waiting if one["name"] == WRONG)
        site.api("POST", f"/api/review/items/{shown['id']}/assign", {"to": ADMIN, "reason": "to be shown"})
        others = [one for one in waiting if one is not shown]
        for place, item in enumerate(others[:REVIEWED]):
            finish(people[item["assigned_to"]], item, turned_down=place == 3)
        held, raised = others[REVIEWED], others[REVIEWED + 2]
        claim_item(people[held["assigned_to"]], held)
        claim_item(people[raised["assigned_to"]], raised)
        act(people[raised["assigned_to"]], f"/api/review/items/{raised['id']}/escalate", {"reason": "Which do we pay?"})


def wrong() -> Iterator[tuple[str, bytes]]:
    """Invoices whose totals are not the sums of their parts."""
    chance = random.Random(2026)
    for number in range(WRONG_ONES):
        bill = bills.invent(("en", "fr", "de", "qc")[number % 4], chance)
        slip = Decimal(chance.choice((1, 9, 10, 90, -10, 100)))
        name = f"{bill.vendor[0].split()[0].lower()}-{bill.number}.pdf"
        yield name, bills.invoice(replace(bill, slip=slip), number % 3).to_bytes()


def act(person: Visitor, path: str, body: Any = None, method: str = "POST", **headers: str) -> Any:
    """Send a request of a signed-in user."""
    request = person.page.context.request
    token = request.get("/api/me").json()["csrf"]
    answer = request.fetch(path, method=method, data=body or {}, headers={"X-CSRF-Token": token, **headers})
    return answer.json() if answer.ok and answer.status != 204 else None


def claim_item(person: Visitor, item: dict[str, Any]) -> dict[str, Any] | None:
    """Claim an item as a user and return it."""
    item_now = act(person, f"/api/review/items/{item['id']}/claim")
    return dict(item_now) if item_now else None


def finish(person: Visitor, item: dict[str, Any], *, turned_down: bool) -> None:
    """Correct an item's total and approve it; or reject it."""
    whole = claim_item(person, item)
    assert whole, item
    path, spent = f"/api/review/items/{item['id']}", {"seconds": 9 + len(item["name"]), "keystrokes": len(item["name"])}
    if turned_down:
        act(person, f"{path}/reject", {"code": "contradictory", **spent})
        return
    fields = {one["name"]: one for one in whole["fields"]}
    doubted = [name for one in whole["reasons"] for name in one["fields"] if name in fields]
    changes: dict[str, Any] = {name: {"action": "confirm"} for name in doubted if fields[name]["value"]}
    if "total" in doubted:
        parts = Decimal(fields["subtotal"]["value"]) + Decimal(fields["tax"]["value"])
        changes["total"] = {"action": "correct", "value": str(parts)}
    saved = act(person, f"{path}/fields", {"fields": changes}, "PATCH", **{"If-Match": f'"{whole["version"]}"'})
    assert saved, item
    assert act(person, f"{path}/approve", spent | {"unseen": True}, **{"If-Match": f'"{saved["version"]}"'}), item


def scenes(site: Installation, browser: Browser) -> Iterator[tuple[str, Page]]:
    """Every page as it is shown."""
    document = site.documents[WRONG]
    with site.stranger(browser, viewport=SIZE) as stranger:
        yield "sign-in", stranger.open("/sign-in")
    with at(site, browser) as visitor:
        yield "queue", visitor.open("/queue")
        page = visitor.review(site.item(document))
        page.locator("#field-total").press("End")
        visitor.watch.settle(page)
        yield "review", page
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        yield "keys", page
        page.keyboard.press("Escape")
        page.keyboard.press("u")
        yield "documents", visitor.open("/documents")
        yield "document", visitor.open(f"/documents/{document}")
        page = visitor.open("/dashboard")
        page.locator(".live-up").wait_for()
        yield "dashboard", page
        page = visitor.open("/queues/documents")
        page.locator("#tab-failed").click()
        page.locator("#groups tr").first.wait_for()
        visitor.watch.settle(page)
        yield "errors", page
        yield "numbers", visitor.open("/numbers")
        yield "people", visitor.open("/people")
    with at(site, browser, color_scheme="dark") as visitor:
        yield "review-dark", visitor.review(site.item(document))
        yield "dashboard-dark", visitor.open("/dashboard")
    with at(site, browser, locale="fr-FR", viewport=TABLET) as visitor:
        yield "review-tablet-french", visitor.review(site.item(document), claim=False)


@contextlib.contextmanager
def at(site: Installation, browser: Browser, **options: Any) -> Iterator[Visitor]:
    """The admin at the pages, with its own theme."""
    with site.visitor(browser, ADMIN, **({"viewport": SIZE} | options)) as visitor:
        yield visitor


def picture(page: Page, path: Path) -> None:
    """Save a screenshot, with few enough colours to be small."""
    page.wait_for_function("[...document.images].every(one => one.complete)")
    taken = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    for colours in (COLOURS, COLOURS // 2, COLOURS // 4):
        few = taken.quantize(colours, Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
        few.save(path, optimize=True)
        if path.stat().st_size < MOST:
            break
    print(f"{path.name:28} {path.stat().st_size / 1000:4.0f} kB")


if __name__ == "__main__":
    main()
