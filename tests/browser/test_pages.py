"""Each page does its job: signing in, documents, the queue, the dashboard, people, statistics; on any screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.installation import ADDRESSES, PAPERS, WRONG, Installation, Visitor, sample
from tests.browser.watch import until

PASSWORD = "seven green bottles"
#: Drops files on the page, as a file manager does.
DROP = """([name, bytes]) => {
    const carried = new DataTransfer();
    carried.items.add(new File([new Uint8Array(bytes)], name, {type: "application/pdf"}));
    for (const type of ["dragenter", "dragover", "drop"])
        document.body.dispatchEvent(new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: carried}));
}"""
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_user_signs_in_and_out(installation: Installation, chromium: Browser) -> None:
    """By a link, which works once; then with their own password; after signing out the password is needed."""
    installation.add_person("bruno", "reviewer")
    with installation.stranger(chromium) as bruno:
        bruno.sign_in("bruno")
        page = bruno.open("/queue")
        page.locator("#me-menu summary").click()
        page.locator("#password-button").click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=new]").fill(PASSWORD)
        dialog.locator("[name=again]").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        page.locator("#me-menu summary").click()
        page.locator("#sign-out-button").click()
        page.wait_for_url("**/sign-in")
        bruno.open("/queue")
        assert "/sign-in?next=/queue" in page.url
        bruno.watch.expect(401)
        page.locator("#name").fill("Bruno")
        page.locator("#password").fill("something else")
        page.keyboard.press("Enter")
        expect(page.locator("#fault")).to_be_visible()
        page.locator("#password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/queue")
        expect(page.locator("#me-menu .who")).to_have_text("bruno")
        page.goto("about:blank")
        page.goto(installation.links["bruno"])
        expect(page.locator("#enter-fault")).to_be_visible()


def test_a_page_sends_no_request_while_signing_out(installation: Installation, chromium: Browser) -> None:
    """The session ends before the browser knows: requests meanwhile would only be refused."""
    installation.add_person("clara", "reviewer")
    with installation.visitor(chromium, "clara") as clara:
        page = clara.open("/queue")
        held: list[Route] = []
        page.route("**/sign-out", lambda route: held.append(route))
        page.locator("#me-menu summary").click()
        page.locator("#sign-out-button").click()
        until(page, lambda: bool(held))
        answer = held[0].fetch()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.keyboard.press("2")
        expect(page.get_by_role("button", name="Mine")).to_have_attribute("aria-pressed", "true")
        assert [one for one in asked if "/static/" not in one] == []
        held[0].fulfill(response=answer)
        page.wait_for_url("**/sign-in")


def test_what_a_role_may_not_do_is_not_shown(installation: Installation, chromium: Browser) -> None:
    """A viewer sees neither uploads nor people, and is told clearly on pages they may not open."""
    installation.add_person("vera", "viewer")
    with installation.visitor(chromium, "vera") as vera:
        page = vera.open("/documents")
        expect(page.locator("#upload")).to_have_count(0)
        expect(page.locator("nav a[href='/people']")).to_have_count(0)
        vera.watch.expect(403)
        vera.open("/people")
        expect(page.locator("main")).to_contain_text("Your role does not let you see this")


def test_documents_are_dropped_and_listed(visitor: Visitor) -> None:
    """A dropped file is uploaded and appears in the list by itself; a broken one shows its error."""
    page = visitor.open("/documents")
    paper = sample("en-receipt-2.pdf")
    page.evaluate(DROP, [paper.name, list(paper.content)])
    row = page.locator("#rows tr", has_text=paper.name)
    expect(row).to_contain_text("completed", ignore_case=True, timeout=30_000)
    visitor.watch.expect(415, 422)
    page.evaluate(DROP, ["notes.pdf", list(b"These are notes.")])
    expect(page.locator("#upload-list .text-bad")).to_be_visible()
    page.locator("#q").fill("receipt-2")
    expect(page.locator("#rows tr")).to_have_count(1)
    page.locator("#q").fill("no such name")
    expect(page.locator("#nothing")).to_be_visible()


def test_a_document_shows_everything(visitor: Visitor) -> None:
    """Its image with boxes, fields, doubts, attempts, history and outputs; and it can be deleted."""
    page = visitor.open(f"/documents/{visitor.installation.documents[WRONG]}")
    expect(page.locator("#leaf img")).to_be_visible()
    page.locator("[data-field=total] .field-name").click()
    expect(page.locator("#leaf .spot.here")).to_be_visible()
    expect(page.locator("#doubts")).to_contain_text("The total is not the subtotal plus the tax")
    expect(page.locator("#attempts tbody tr")).to_have_count(1)
    expect(page.locator("#history li").first).to_be_visible()
    with page.expect_download() as download:
        page.locator("#about a", has_text="JSON").click()
    assert b'"total"' in Path(download.value.path()).read_bytes()
    gone = visitor.installation.add_doubtful()
    visitor.open(f"/documents/{gone['document_id']}")
    page.locator("#delete").click()
    page.get_by_role("dialog").locator(".danger").click()
    page.wait_for_url("**/documents")
    expect(page.locator("#rows tr", has_text=gone["name"])).to_have_count(0)


def test_the_queue_shows_what_waits_and_why(visitor: Visitor) -> None:
    """The items, their deadlines and reasons; updates appear by themselves."""
    page = visitor.open("/queue")
    rows = page.locator("#rows tr[data-row]")
    expect(rows).not_to_have_count(0)
    item = visitor.installation.add_doubtful()
    fresh = page.locator(f"#rows tr[data-row='{item['id']}']")
    expect(fresh).to_be_visible(timeout=15_000)
    expect(fresh.locator("[data-due]")).to_contain_text("h")
    fresh.locator(".score").click()
    expect(page.locator("#why dt")).to_have_count(5)
    page.keyboard.press("Escape")
    page.locator("#q").fill(item["name"])
    expect(rows).to_have_count(1)


def test_a_queue_is_paused_and_its_failures_retried(visitor: Visitor) -> None:
    """Errors are grouped by kind; one button retries a group, and a pause is shown everywhere at once."""
    installation = visitor.installation
    page = visitor.open("/dashboard")
    expect(page.locator("#live")).to_have_class("live live-up", timeout=15_000)
    assert int(page.locator("[data-tile=failed] strong").inner_text()) >= 2
    expect(page.locator("#workers tr").first).to_be_visible()
    page.locator("#queues a", has_text="documents").click()
    page.wait_for_url("**/queues/documents*")
    page.locator("#tab-failed").click()
    groups = page.locator("#groups tr")
    expect(groups).to_have_count(2)
    tried = sum(1 for one in PAPERS if sample(one).ending == "failed")
    with page.expect_response(lambda answer: answer.url.endswith("/retry") and answer.ok):
        groups.first.get_by_role("button").click()
        page.get_by_role("dialog").locator(".primary").click()
    until(page, lambda: len(installation.api("GET", "/api/queues/documents/errors")["groups"]) == tried)
    page.locator("#pause").click()
    page.get_by_role("dialog").locator("[name=reason]").fill("stock-taking")
    page.keyboard.press("Enter")
    expect(page.locator("#badges .badge.warn")).to_be_visible()
    assert installation.api("GET", "/api/queues/documents")["paused"]
    page.locator("#pause").click()
    expect(page.locator("#badges .badge.warn")).to_have_count(0)


def test_an_admin_adds_users(visitor: Visitor) -> None:
    """A new user and their link, on one page; after disabling they are shown as such."""
    page = visitor.open("/people")
    page.locator("#add").click()
    page.get_by_role("dialog").locator("[name=name]").fill("carla")
    page.keyboard.press("Enter")
    shown = page.locator(".link-shown")
    expect(shown).to_be_visible()
    assert "/enter#" in shown.input_value()
    page.keyboard.press("Escape")
    row = page.locator("#rows tr", has_text="carla")
    row.locator(".danger").click()
    page.get_by_role("dialog").locator(".danger").click()
    expect(row.locator(".badge.bad")).to_be_visible()


def test_language_and_theme_belong_to_the_user(installation: Installation, chromium: Browser) -> None:
    """Chosen once, they hold on every page and after the browser restarts."""
    installation.add_person("denis", "viewer")
    with installation.visitor(chromium, "denis") as denis:
        page = denis.open("/documents")
        page.locator("#language").select_option("fr")
        expect(page.locator("html")).to_have_attribute("lang", "fr")
        page.locator("#theme-button").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page = denis.open("/queue")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        installation.states["denis"] = page.context.storage_state()
    with installation.visitor(chromium, "denis") as denis:
        page = denis.open("/documents")
        expect(page.locator("html")).to_have_attribute("lang", "fr")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("h1")).to_have_text("Documents")
        expect(page.locator("nav a[href='/queue']")).not_to_contain_text("Queue")


@pytest.mark.parametrize("size", [(820, 1180), (1024, 768)], ids=str)
def test_nothing_is_cut_off_on_a_tablet(installation: Installation, chromium: Browser, size: tuple[int, int]) -> None:
    """No page is wider than the screen, and buttons are large enough for a finger."""
    width, height = size
    with installation.visitor(chromium, viewport={"width": width, "height": height}, has_touch=True) as visitor:
        faults: dict[str, list[str]] = {}
        for path in ADDRESSES:
            page = visitor.open(installation.address(path))
            found = small(page) + ([f"wider than {width} pixels"] if page.evaluate(WIDER) > 0 else [])
            faults |= {path: found} if found else {}
    assert faults == {}


def small(page: Page) -> list[str]:
    """Return controls smaller than 24 pixels; links within a text are as high as their line."""
    return [str(one) for one in page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, input:not([type=hidden]), a.button, nav a")]
            .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.closest(".boxes, #leaf, .unseen"))
            .map(one => [one.getBoundingClientRect(), one.outerHTML.slice(0, 120)])
            .filter(([box]) => box.width && (box.width < 23.5 || box.height < 23.5))
            .map(([box, html]) => `${Math.round(box.width)} x ${Math.round(box.height)}: ${html}`)"""
    )]  # fmt: skip
