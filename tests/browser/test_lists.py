"""The long lists of the queue and of documents: updates, going back and an unreachable server lose nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, Route, expect

from tests.browser.installation import WRONG, Installation, Visitor, open_installation
from tests.browser.watch import until

COPIES = 128  #: more than two pages of fifty


@pytest.fixture(scope="module")
def place(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with many waiting items."""
    with open_installation(tmp_path_factory.mktemp("lists") / "data") as one:
        one.documents = one.fill([WRONG, "en-receipt-1.pdf"])
        one.add_copies(one.item(one.documents[WRONG]), COPIES)
        yield one


@pytest.fixture
def boss(place: Installation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with place.visitor(chromium) as one:
        yield one


def rows(page: Page) -> int:
    """Return how many rows are shown."""
    return page.locator("#rows tr[data-row]").count()


def wait_for_rows(page: Page, least: int) -> None:
    """Wait until this many rows are shown."""
    until(page, lambda: rows(page) >= least)


def test_a_priority_adds_up(boss: Visitor) -> None:
    """Each part's share of the score times its factor is its points, in French with commas."""
    boss.open("/queue")
    for language, comma in (("en-GB", "."), ("fr-FR", ",")):
        with boss.installation.visitor(boss.page.context.browser, locale=language) as one:  # type: ignore[arg-type]
            page = one.open("/queue")
            page.locator(".score").first.click()
            notes = page.locator("#why dt small").all_inner_texts()
            points = page.locator("#why dd:not(.all) b").all_inner_texts()
        assert len(notes) == len(points) == 4
        for note, point in zip(notes, points, strict=True):
            weight, factor = re.findall(r"\d+(?:[.,]\d+)?", note)
            assert all(text.replace(comma, "").isdigit() for text in (factor, point)), (factor, point)
            weighed = float(weight) * float(factor.replace(",", "."))
            assert abs(weighed - float(point.replace(",", "."))) < 0.1, (note, point)


def test_updates_keep_the_number_of_rows(boss: Visitor) -> None:
    """After loading more, they stay when something changes elsewhere."""
    page = boss.open("/queue")
    for count in (100, COPIES):
        page.locator("#more").click()
        wait_for_rows(page, count)
    last = str(page.locator("#rows tr[data-row]").last.get_attribute("data-row"))
    before = rows(page)
    with page.expect_response(lambda answer: "/api/review/items?" in answer.url):
        boss.installation.api("POST", f"/api/review/items/{last}/assign", {"to": None, "reason": "for whoever comes"})
    boss.watch.settle(page)
    assert rows(page) == before


@pytest.mark.parametrize("path", ["/queue", "/documents"])
def test_loading_more_focuses_the_first_new_row(boss: Visitor, path: str) -> None:
    """Also when they are the last."""
    page = boss.open(path)
    before = 50
    wait_for_rows(page, before)
    while page.locator("#more").is_visible():
        page.locator("#more").click()
        wait_for_rows(page, before + 1)
        boss.watch.settle(page)
        place = "[...document.querySelectorAll('#rows tr')].indexOf(document.activeElement.closest('tr'))"
        assert page.evaluate(place) == before
        before = rows(page)
    assert before > COPIES


def test_loading_more_focuses_the_first_new_row_despite_an_update(boss: Visitor) -> None:
    """The list from the update has the new rows too: the first of them has the focus."""
    page = boss.open("/queue")
    first = str(page.locator("#rows tr[data-row]").first.get_attribute("data-row"))
    held: list[Route] = []
    page.route("**/api/review/items?*cursor=*", lambda route: route.continue_() if held else held.append(route))
    page.locator("#more").click()
    until(page, lambda: bool(held))
    boss.installation.api("POST", f"/api/review/items/{first}/assign", {"to": None, "reason": "for whoever comes"})
    wait_for_rows(page, 51)
    held[0].continue_()
    boss.watch.settle(page)
    place = "[...document.querySelectorAll('#rows tr')].indexOf(document.activeElement.closest('tr'))"
    assert page.evaluate(place) == 50


@pytest.mark.parametrize("path", ["/queue", "/documents"])
def test_going_back_restores_the_position(boss: Visitor, path: str) -> None:
    """As many rows as before, scrolled as far."""
    page = boss.open(path)
    page.locator("#more").click()
    wait_for_rows(page, 100)
    boss.watch.settle(page)
    row = page.locator("#rows tr[data-row]").nth(80)
    row.scroll_into_view_if_needed()
    height = page.evaluate("scrollY")
    assert height > 1000
    row.locator("a").click()
    page.wait_for_url(re.compile(r"/(review|documents)/\w+"))
    boss.watch.settle(page)
    page.go_back()
    wait_for_rows(page, 100)
    until(page, lambda: abs(page.evaluate("scrollY") - height) < 5)


def test_going_back_restores_the_position_despite_an_update(boss: Visitor) -> None:
    """The updated list replaces the requested one: the scroll position is the same."""
    page = boss.open("/queue")
    page.locator("#more").click()
    wait_for_rows(page, 100)
    boss.watch.settle(page)
    row = page.locator("#rows tr[data-row]").nth(80)
    row.scroll_into_view_if_needed()
    height = page.evaluate("scrollY")
    row.locator("a").click()
    page.wait_for_url("**/review/*")
    boss.watch.settle(page)
    held: list[Route] = []
    answering: list[bool] = []
    page.route("**/api/review/items?*", lambda route: route.continue_() if answering else held.append(route))
    page.go_back()
    expect(page.locator("#live")).to_have_text("Live")
    first = boss.installation.api("GET", "/api/review/items?status=open&limit=1")["items"][0]["id"]
    boss.installation.api("POST", f"/api/review/items/{first}/assign", {"to": None, "reason": "for whoever comes"})
    until(page, lambda: len(held) >= 2)
    with page.expect_event("requestfinished", lambda request: request == held[0].request):
        held[0].continue_()
    assert rows(page) == 0
    answering.append(True)
    for route in held[1:]:
        route.continue_()
    wait_for_rows(page, 100)
    until(page, lambda: abs(page.evaluate("scrollY") - height) < 5)


def test_a_document_links_back_to_the_list(boss: Visitor) -> None:
    """Its arrow leads back the way one came, filters included."""
    page = boss.open("/documents?review=pending&q=copy")
    page.locator("#rows a").first.click()
    page.wait_for_url("**/documents/*zz*")
    boss.watch.settle(page)
    page.locator("#back").click()
    page.wait_for_url("**/documents?*")
    assert "review=pending" in page.url
    boss.open("/queue")
    boss.open(f"/documents/{boss.installation.documents[WRONG]}")
    page.locator("#back").click()
    page.wait_for_url("**/documents")


def test_the_address_holds_the_filters_of_the_queue(boss: Visitor) -> None:
    """View, type, reason and name: after opening an item and going back the same rows are shown."""
    page = boss.open("/queue")
    page.keyboard.press("3")
    page.locator("#type").select_option("invoice")
    page.locator("#reason").select_option("issue")
    page.locator("#q").fill("copy 01")
    until(page, lambda: rows(page) == 10)
    assert re.search(r"\?view=none&type=invoice&reason=issue&q=copy(\+|%20)01$", page.url)
    page.locator("#rows a").first.click()
    page.wait_for_url("**/review/*")
    boss.watch.settle(page)
    page.go_back()
    until(page, lambda: rows(page) == 10)
    expect(page.locator("[data-view=none]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#q")).to_have_value("copy 01")
    boss.open("/queue?view=nothing&type=none&reason=nothing")
    wait_for_rows(page, 50)
    expect(page.locator("[data-view=open]")).to_have_attribute("aria-pressed", "true")


def test_the_queue_uses_titles(place: Installation, chromium: Browser) -> None:
    """Types and fields by their titles, in the user's language; one escalated document is singular."""
    item = place.item(place.documents[WRONG])
    place.api("POST", f"/api/review/items/{item['id']}/claim")
    place.api("POST", f"/api/review/items/{item['id']}/escalate", {"reason": "hm"})
    with place.visitor(chromium, locale="fr-FR") as one:
        page = one.open("/queue?view=escalated")
        row = page.locator(f"#rows tr[data-row='{item['id']}']")
        expect(row).to_contain_text("Facture")
        expect(row.locator(".cause.escalated")).to_have_text("escaladé")
        causes = " ".join(row.locator(".cause:not(.escalated)").all_inner_texts())
        assert "Total" in causes
        assert "Sous-total" in causes or "+1" in causes
        assert not re.search(r"subtotal|[a-z]_[a-z]", causes)
        assert page.locator("#type option").all_inner_texts()[1:] == ["Acte", "Facture", "Reçu"]


def test_the_queue_says_when_it_is_not_live(chromium: Browser, tmp_path: Path) -> None:
    """When the server is down, it says so once, and no longer once the server is back."""
    with open_installation(tmp_path / "data") as installation:
        installation.fill(["en-receipt-1.pdf"])
        with installation.visitor(chromium) as one:
            one.watch.cut = True
            page = one.open("/queue")
            expect(page.locator("#live")).to_have_text("Live")
            page.route("**/api/review/items?*", lambda route: route.abort("connectionrefused"))
            for key in "2312":
                page.keyboard.press(key)
                one.watch.settle(page)
            expect(page.locator(".toast", has_text="The server is not responding")).to_have_count(1)
            page.unroute("**/api/review/items?*")
            page.keyboard.press("1")
            expect(page.locator(".toast")).to_have_count(0)
            installation.service.kill()
            expect(page.locator("#live")).to_have_text("Not live")


def test_documents_stay_when_a_request_fails(boss: Visitor) -> None:
    """The rows are still shown below the error, and the answer is shown once it arrives."""
    boss.watch.cut = True
    page = boss.open("/documents")
    before, icons = rows(page), page.locator("#rows .icon").count()
    page.route("**/api/documents?*", lambda route: route.abort("connectionrefused"))
    page.locator("select[name=status]").select_option("failed")
    expect(page.locator("#trouble")).to_contain_text("The server is not responding")
    assert rows(page) == before
    assert page.locator("#rows .icon").count() == icons
    expect(page.locator("#pager")).to_be_hidden()
    page.unroute("**/api/documents?*")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("#nothing")).to_be_visible()


def test_more_new_documents_than_are_loaded_leave_no_gap(boss: Visitor) -> None:
    """The list is that of the newest documents, although it was opened when only old ones were there."""
    documents = boss.installation.api("GET", "/api/documents?limit=200")["documents"]
    cursor = boss.installation.api("GET", "/api/documents?limit=100")["next"]
    boss.page.route("**/api/documents?*", lambda route: route.continue_(url=f"{route.request.url}&cursor={cursor}"))
    page = boss.open("/documents")
    assert rows(page) == len(documents) - 100
    page.unroute("**/api/documents?*")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator(f"#rows tr[data-row='{documents[0]['id']}']")).to_be_visible()
    shown = page.locator("#rows tr").evaluate_all("rows => rows.map(row => row.dataset.row)")
    assert shown == [one["id"] for one in documents[: len(shown)]]
    page.locator("#more").click()
    wait_for_rows(page, len(shown) + 50)


def test_documents_distinguish_checks_from_review(boss: Visitor) -> None:
    """Check results and review status are separate; the second is a filter, and live."""
    page = boss.open("/documents?q=receipt")
    row = page.locator("#rows tr[data-row]").first
    expect(row).to_contain_text("checks passed")
    expect(row).to_contain_text("waiting for review")
    page.locator("select[name=review]").select_option("approved")
    expect(page.locator("#nothing")).to_be_visible()
    page.locator("select[name=review]").select_option("pending")
    expect(row).to_contain_text("receipt")
    item = boss.installation.item(boss.installation.documents["en-receipt-1.pdf"])
    boss.installation.api("POST", f"/api/review/items/{item['id']}/claim")
    boss.installation.api("POST", f"/api/review/items/{item['id']}/reject", {"code": "unreadable"})
    expect(page.locator("#nothing")).to_be_visible()
    page.locator("select[name=review]").select_option("rejected")
    expect(row).to_contain_text("rejected by a person")


def test_an_upload_reports_accepted_and_rejected_files(boss: Visitor) -> None:
    """How many of several files were uploaded, and how many were rejected."""
    page = boss.open("/documents")
    boss.watch.expect(415, 422)
    papers = {"notes.pdf": b"These are notes.", "nothing.pdf": b""}
    page.locator("#files").set_input_files(
        [FilePayload(name=name, mimeType="application/pdf", buffer=content) for name, content in papers.items()]
    )
    expect(page.locator("#uploads-title")).to_have_text("0 uploaded, 2 rejected")


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_names_are_readable_on_a_tablet(place: Installation, chromium: Browser, locale: str) -> None:
    """In portrait, the list leaves room for a document's name, in both languages."""
    with place.visitor(chromium, locale=locale, viewport={"width": 768, "height": 1024}) as one:
        page = one.open("/documents")
        assert page.locator("#rows td.name").first.evaluate("cell => cell.clientWidth") > 200
        page = one.open("/people")
        wrap = page.locator(".table-wrap")
        assert wrap.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
