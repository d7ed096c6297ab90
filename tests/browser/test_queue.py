"""The review queue: what waits and why, with filters and keys, updated live."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.installation import WRONG, Installation, Visitor, open_installation
from tests.browser.watch import until


@pytest.fixture(scope="module")
def place(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose queue no other test uses."""
    with open_installation(tmp_path_factory.mktemp("queue") / "data") as one:
        one.fill([WRONG, "en-receipt-1.pdf", "en-receipt-2.pdf"])
        yield one


@pytest.fixture
def boss(place: Installation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with place.visitor(chromium) as one:
        yield one


def row(item: str) -> str:
    """Return an item's row."""
    return f"#rows tr[data-row='{item}']"


def test_a_priority_shows_its_parts(boss: Visitor) -> None:
    """The first row says why it is first: four parts with their points, which add up to the priority."""
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


def test_rows_are_filtered(boss: Visitor) -> None:
    """By name, reason, type and view; an empty list says so and offers a way back."""
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


def test_keys_select_and_open_a_row(boss: Visitor) -> None:
    """j, k and Enter; opening a document does not claim it."""
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


def test_claiming_the_next_opens_it(place: Installation, chromium: Browser) -> None:
    """c claims the most urgent free one, and others see the holder without a reload."""
    place.add_person("quentin", "reviewer")
    place.add_doubtful()
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


def test_an_escalated_document_is_for_operators(place: Installation, chromium: Browser) -> None:
    """It leaves the reviewer with a reason, which the operator's list and screen show."""
    place.add_person("rosa", "reviewer")
    place.add_doubtful()
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
    """Return how the documents of a list ended."""
    return page.locator("#rows .badge").all_inner_texts()


def test_finished_items_are_listed(boss: Visitor) -> None:
    """With their ending and reviewer; the reason of a rejection is shown on the item."""
    item = boss.installation.add_doubtful()
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
