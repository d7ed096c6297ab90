"""The review queue: what waits and why, found by filters and keys, up to date without being asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site import WRONG, Site, Visitor, opened
from tests.browser.watch import until


@pytest.fixture(scope="module")
def place(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation whose queue nobody else works on."""
    with opened(tmp_path_factory.mktemp("queue") / "data") as one:
        one.fill([WRONG, "en-receipt-1.pdf", "en-receipt-2.pdf"])
        yield one


@pytest.fixture
def boss(place: Site, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with place.visitor(chromium) as one:
        yield one


def row(item: str) -> str:
    """An item's row."""
    return f"#rows tr[data-row='{item}']"


def test_a_priority_is_made_of_its_parts(boss: Visitor) -> None:
    """The first row says why it is first: four parts with their points, which make the priority."""
    page = boss.open("/queue")
    first = page.locator("#rows tr[data-row]").first
    expect(first).to_be_visible()
    page.keyboard.press("w")
    why = page.locator("#why")
    expect(why).to_be_visible()
    expect(why.get_by_role("heading")).to_have_text("Why is this first?")
    parts = [float(one) for one in why.locator("dd:not(.all) b").all_inner_texts()]
    whole = float(why.locator("dd.all b").inner_text().split()[0])
    assert len(parts) == 4
    assert abs(sum(parts) - whole) < 0.3  # each is rounded
    page.keyboard.press("Escape")
    expect(why).to_be_hidden()


def test_rows_are_found_by_filters(boss: Visitor) -> None:
    """By name, reason, type and view; an empty list says so and leads back."""
    page = boss.open("/queue")
    rows = page.locator("#rows tr[data-row]")
    page.locator("#reason").select_option("issue")
    expect(rows.filter(has_text=WRONG)).to_have_count(1)
    page.locator("#reason").select_option("")
    page.keyboard.press("/")
    page.keyboard.type("wrong-total")
    expect(rows).to_have_count(1)
    page.locator("#type").select_option("deed")
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="Show all").click()
    expect(rows.filter(has_text=WRONG)).to_have_count(1)
    page.keyboard.press("5")
    expect(page.locator("[data-view=overdue]")).to_have_attribute("aria-pressed", "true")
    expect(rows).to_have_count(0)


def test_keys_walk_the_rows_and_open_one(boss: Visitor) -> None:
    """j, k and Enter; a document that is looked at is not claimed by it."""
    page = boss.open("/queue")
    expect(page.locator("#rows tr[data-row]").nth(1)).to_be_visible()
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.locator("#rows tr[data-row]").first).to_have_class("here")
    wanted = str(page.locator("#rows tr.here").get_attribute("data-row"))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/review/{wanted}")
    expect(page.locator("#banner")).to_contain_text("Claim")
    assert boss.whole({"id": wanted})["claim"] is None


def test_claiming_the_next_opens_it(place: Site, chromium: Browser) -> None:
    """c takes the most urgent one that is free, and the others see who has it without asking."""
    place.person("quentin", "reviewer")
    place.doubtful()
    with place.visitor(chromium) as boss, place.visitor(chromium, "quentin") as quentin:
        seen = boss.open("/queue")
        page = quentin.open("/queue")
        expect(page.locator("#rows tr[data-row]").first).to_be_visible()
        page.keyboard.press("c")
        page.wait_for_url("**/review/*")
        item = page.url.rpartition("/")[2]
        expect(page.locator("#approve")).to_be_visible()
        expect(seen.locator(row(item))).to_contain_text("quentin is working on it")
        expect(seen.locator(row(item))).to_contain_text("claim expires in")
        page.keyboard.press("u")
        expect(page.locator("#banner")).to_contain_text("Claim")
        expect(seen.locator(row(item))).not_to_contain_text("quentin works")


def test_an_escalated_document_is_for_operators(place: Site, chromium: Browser) -> None:
    """It leaves the reviewer's hands with a reason, which the operator's list and screen tell."""
    place.person("rosa", "reviewer")
    place.doubtful()
    with place.visitor(chromium, "rosa") as rosa:
        page = rosa.open("/queue")
        page.keyboard.press("c")
        page.wait_for_url("**/review/*")
        item = {"id": page.url.rpartition("/")[2]}
        expect(page.locator("#approve")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("e")
        page.get_by_role("dialog").wait_for()
        page.keyboard.type("who is to pay this?")
        page.keyboard.press("Enter")
        until(page, lambda: rosa.whole(item)["escalated"] is not None)
    with place.visitor(chromium) as boss:
        page = boss.open("/queue")
        page.keyboard.press("4")
        expect(page.locator("#rows tr[data-row]")).to_have_count(1)
        page.locator(f"{row(item['id'])} a").click()
        expect(page.locator("#banner")).to_contain_text("Escalated by rosa: who is to pay this?")


def kinds(page: Page) -> list[str]:
    """How the documents of a list ended."""
    return page.locator("#rows .badge").all_inner_texts()


def test_what_is_done_can_be_looked_up(boss: Visitor) -> None:
    """With its end, by whom; and the reason of a rejection is told where it is opened."""
    item = boss.site.doubtful()
    page = boss.review(item)
    page.keyboard.press("Alt+r")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("6")
    until(page, lambda: boss.whole(item)["status"] == "rejected")
    boss.open("/queue")
    page.keyboard.press("6")
    expect(page.locator(row(item["id"]))).to_contain_text("rejected")
    assert "rejected" in kinds(page)
    page.locator(f"{row(item['id'])} a").click()
    expect(page.locator("#banner")).to_contain_text("Rejected by admin")
    expect(page.locator("#banner")).to_contain_text("amounts or dates do not match")
