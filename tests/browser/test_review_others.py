"""The review screen among others: taken over, deleted, assigned, escalated, and what somebody has begun already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site import Site, Visitor, opened
from tests.browser.watch import until


@pytest.fixture(scope="module")
def own(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation with a reviewer, rita, and nobody else at its queue."""
    with opened(tmp_path_factory.mktemp("others") / "data") as one:
        one.person("rita", "reviewer", available=True)
        one.person("otto", "reviewer", available=True)
        one.person("gone", "reviewer")
        yield one


@pytest.fixture
def rita(own: Site, chromium: Browser) -> Iterator[Visitor]:
    """A reviewer at it."""
    with own.visitor(chromium, "rita") as one:
        yield one


@pytest.fixture
def admin(own: Site, chromium: Browser) -> Iterator[Visitor]:
    """An operator at it."""
    with own.visitor(chromium) as one:
        yield one


def given(site: Site, to: str | None) -> dict[str, Any]:
    """An item that is assigned to somebody, or to nobody."""
    item = site.doubtful()
    site.api("POST", f"/api/review/items/{item['id']}/assign", {"to": to, "reason": "a test"})
    return item


def emptied(site: Site) -> None:
    """No document of another test waits any more."""
    for one in site.api("GET", "/api/review/items?status=open&limit=100")["items"]:
        site.api("DELETE", f"/api/documents/{one['document_id']}")


def reached(page: Page, item: dict[str, Any]) -> None:
    """Waits until an item is before the person, and theirs."""
    expect(page.locator("#doc-name")).to_have_text(item["name"])
    expect(page.locator("#holder")).to_contain_text("yours")


def test_who_is_taken_over_is_told_while_typing(rita: Visitor) -> None:
    """The draft that the server refuses says so at once; nothing is offered that cannot work, until it can."""
    item = given(rita.site, "rita")
    rita.page.clock.install()
    page = rita.review(item)
    rita.watch.expect(409)
    taken = rita.site.api("POST", f"/api/review/items/{item['id']}/claim", {"takeover": True})
    page.locator("#field-customer").fill("Typed & kept Ltd")
    banner = page.locator("#banner")
    expect(banner).to_contain_text(f"{taken['claim']['holder']} is working on it now")
    expect(page.locator("#field-customer")).to_have_value("Typed & kept Ltd")
    expect(page.locator("[data-verb=claim]:visible")).to_have_count(0)
    expect(banner.get_by_role("button")).to_have_count(0)
    rita.site.api("POST", f"/api/review/items/{item['id']}/release")
    page.clock.fast_forward(16_000)  # it looks every now and then whether the other one has ended
    banner.get_by_role("button", name="Claim again").click()
    expect(page.locator("#approve")).to_be_visible()
    expect(page.locator("#field-customer")).to_have_value("Typed & kept Ltd")


@pytest.mark.parametrize("how", ["typing", "approving"])
def test_a_document_that_is_deleted_meanwhile(rita: Visitor, how: str) -> None:
    """The screen says that it is no longer there, and where to go from here."""
    emptied(rita.site)
    item, other = given(rita.site, "rita"), given(rita.site, "rita")
    with rita.page.expect_response(lambda answer: answer.url.endswith("/check")):
        page = rita.review(item)
    rita.watch.settle(page)  # whatever is still under way would be told that there is nothing, before anybody types
    rita.watch.expect(404)
    page.locator("#field-customer").focus()
    rita.site.api("DELETE", f"/api/documents/{item['document_id']}")
    if how == "typing":
        page.keyboard.type("Nobody reads this")  # the page may have noticed by itself, and hidden the field
    else:
        page.keyboard.press("Control+Enter")
    nothing = page.locator("#nothing")
    expect(nothing).to_contain_text("no longer exists")
    expect(page.locator("#desk")).to_be_hidden()
    nothing.get_by_role("button", name="Claim next").click()
    reached(page, other)
    page.go_back()
    expect(nothing).to_contain_text("no longer exists")
    page.go_forward()
    reached(page, other)


def test_what_is_begun_comes_before_what_is_new(rita: Visitor) -> None:
    """Claim next leads back to the document that one holds; postponing another one does too."""
    emptied(rita.site)
    begun, other, _ = given(rita.site, "rita"), given(rita.site, "rita"), given(rita.site, "rita")
    rita.review(begun)
    page = rita.review(other)
    page.keyboard.press("p")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("2")
    reached(page, begun)
    rita.watch.expect(404)
    rita.review(begun, claim=False)
    third = rita.review(given(rita.site, "rita"))
    rita.site.api("DELETE", f"/api/documents/{rita.whole({'id': third.url.split('/')[-1]})['document_id']}")
    page.keyboard.press("Control+Enter")
    page.locator("#nothing").get_by_role("button", name="Claim next").click()
    reached(page, begun)


def test_what_an_operator_escalates_does_not_come_straight_back(admin: Visitor) -> None:
    """None comes where nothing else waits; else the next one, whatever stands before it."""
    emptied(admin.site)
    item = given(admin.site, None)
    page = admin.review(item)

    def escalate() -> None:
        page.keyboard.press("g")
        page.keyboard.press("e")
        page.get_by_role("dialog").wait_for()
        page.keyboard.type("Somebody else should look")
        page.keyboard.press("Enter")

    escalate()
    expect(page.locator("#nothing")).to_contain_text("Nothing to review")
    other = given(admin.site, None)
    page = admin.review(item)
    escalate()
    reached(page, other)


def test_work_is_given_to_somebody_from_a_list(admin: Visitor) -> None:
    """Who reviews, typed or chosen, those who are away shown as such; a refusal leaves the dialog open and says why."""
    item = given(admin.site, "rita")
    page = admin.review(item, claim=False)
    page.keyboard.press("g")
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog")
    choice = dialog.get_by_label("To")
    expect(choice).to_have_value("rita")
    expect(choice.locator("option")).to_contain_text(["anyone", "admin", "away", "otto", "rita"])
    expect(choice.locator("option[value=gone]")).to_be_disabled()
    user = next(one for one in admin.site.api("GET", "/api/users")["users"] if one["name"] == "otto")
    admin.site.api("PATCH", f"/api/users/{user['id']}", {"available": False})
    page.keyboard.type("ot")
    expect(choice).to_have_value("otto")
    admin.watch.expect(422)
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("otto")
    expect(choice).to_have_value("otto")
    admin.site.api("PATCH", f"/api/users/{user['id']}", {"available": True})
    choice.focus()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    until(page, lambda: admin.whole(item)["assigned_to"] == "otto")
    expect(page.locator("#banner")).to_contain_text("otto")
    page.keyboard.press("g")
    page.keyboard.press("a")
    dialog.get_by_label("To").select_option("")
    dialog.get_by_role("button", name="Assign").click()
    until(page, lambda: admin.whole(item)["assigned_to"] is None)


def test_what_is_kept_for_somebody_is_not_offered_to_others(rita: Visitor, own: Site) -> None:
    """For an hour, and while that person is there; the screen says until when."""
    item = given(own, "otto")
    page = rita.review(item, claim=False)
    banner = page.locator("#banner")
    expect(banner).to_contain_text("Assigned to otto, who has not started yet. From")
    expect(page.locator("[data-verb=claim]:visible")).to_have_count(0)
    expect(banner.get_by_role("button")).to_have_count(0)
    user = next(one for one in own.api("GET", "/api/users")["users"] if one["name"] == "otto")
    own.api("PATCH", f"/api/users/{user['id']}", {"available": False})
    try:
        page.reload()
        expect(banner.get_by_role("button", name="Claim")).to_be_visible()
        page.keyboard.press("c")
        expect(page.locator("#approve")).to_be_visible()
    finally:
        own.api("PATCH", f"/api/users/{user['id']}", {"available": True})
