"""The review screen among other users: taken over, deleted, assigned, escalated, and work already started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.installation import Installation, Visitor, open_installation
from tests.browser.watch import until


@pytest.fixture(scope="module")
def own_installation(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with one reviewer, rita."""
    with open_installation(tmp_path_factory.mktemp("others") / "data") as one:
        one.add_person("rita", "reviewer", available=True)
        one.add_person("otto", "reviewer", available=True)
        one.add_person("gone", "reviewer")
        yield one


@pytest.fixture
def rita(own_installation: Installation, chromium: Browser) -> Iterator[Visitor]:
    """A reviewer at it."""
    with own_installation.visitor(chromium, "rita") as one:
        yield one


@pytest.fixture
def admin(own_installation: Installation, chromium: Browser) -> Iterator[Visitor]:
    """An operator at it."""
    with own_installation.visitor(chromium) as one:
        yield one


def given(installation: Installation, to: str | None) -> dict[str, Any]:
    """An item that is assigned to a user, or to nobody."""
    item = installation.add_doubtful()
    installation.api("POST", f"/api/review/items/{item['id']}/assign", {"to": to, "reason": "a test"})
    return item


def finish_all(installation: Installation) -> None:
    """Finish all documents of other tests."""
    for one in installation.api("GET", "/api/review/items?status=open&limit=100")["items"]:
        installation.api("DELETE", f"/api/documents/{one['document_id']}")


def wait_for_item(page: Page, item: dict[str, Any]) -> None:
    """Wait until an item is shown to the user, and claimed."""
    expect(page.locator("#doc-name")).to_have_text(item["name"])
    expect(page.locator("#holder")).to_contain_text("yours")


def test_a_takeover_is_shown_while_typing(rita: Visitor) -> None:
    """The refused draft shows it at once; actions that cannot work are not offered until they can."""
    item = given(rita.installation, "rita")
    rita.page.clock.install()
    page = rita.review(item)
    rita.watch.expect(409)
    taken = rita.installation.api("POST", f"/api/review/items/{item['id']}/claim", {"takeover": True})
    page.locator("#field-customer").fill("Typed & kept Ltd")
    banner = page.locator("#banner")
    expect(banner).to_contain_text(f"{taken['claim']['holder']} is working on it now")
    expect(page.locator("#field-customer")).to_have_value("Typed & kept Ltd")
    expect(page.locator("[data-verb=claim]:visible")).to_have_count(0)
    expect(banner.get_by_role("button")).to_have_count(0)
    rita.installation.api("POST", f"/api/review/items/{item['id']}/release")
    page.clock.fast_forward(16_000)  # it looks every now and then whether the other one has ended
    banner.get_by_role("button", name="Claim again").click()
    expect(page.locator("#approve")).to_be_visible()
    expect(page.locator("#field-customer")).to_have_value("Typed & kept Ltd")


@pytest.mark.parametrize("how", ["typing", "approving"])
def test_a_document_deleted_meanwhile(rita: Visitor, how: str) -> None:
    """The screen says that it no longer exists, and where to go."""
    finish_all(rita.installation)
    item, other = given(rita.installation, "rita"), given(rita.installation, "rita")
    with rita.page.expect_response(lambda answer: answer.url.endswith("/check")):
        page = rita.review(item)
    rita.watch.settle(page)  # whatever is still under way would be told that there is nothing, before anybody types
    rita.watch.expect(404)
    page.locator("#field-customer").focus()
    rita.installation.api("DELETE", f"/api/documents/{item['document_id']}")
    if how == "typing":
        page.keyboard.type("Nobody reads this")  # the page may have noticed by itself, and hidden the field
    else:
        page.keyboard.press("Control+Enter")
    nothing = page.locator("#nothing")
    expect(nothing).to_contain_text("no longer exists")
    expect(page.locator("#review-screen")).to_be_hidden()
    nothing.get_by_role("button", name="Claim next").click()
    wait_for_item(page, other)
    page.go_back()
    expect(nothing).to_contain_text("no longer exists")
    page.go_forward()
    wait_for_item(page, other)


def test_started_work_comes_before_new_work(rita: Visitor) -> None:
    """Claim next leads back to the held document; postponing another one does too."""
    finish_all(rita.installation)
    begun, other, _ = (
        given(rita.installation, "rita"),
        given(rita.installation, "rita"),
        given(rita.installation, "rita"),
    )
    rita.review(begun)
    page = rita.review(other)
    page.keyboard.press("p")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("2")
    wait_for_item(page, begun)
    rita.watch.expect(404)
    rita.review(begun, claim=False)
    third = rita.review(given(rita.installation, "rita"))
    rita.installation.api("DELETE", f"/api/documents/{rita.whole({'id': third.url.split('/')[-1]})['document_id']}")
    page.keyboard.press("Control+Enter")
    page.locator("#nothing").get_by_role("button", name="Claim next").click()
    wait_for_item(page, begun)


def test_an_escalated_item_does_not_come_straight_back(admin: Visitor) -> None:
    """None comes where nothing else waits; otherwise the next one, whatever is before it."""
    finish_all(admin.installation)
    item = given(admin.installation, None)
    page = admin.review(item)

    def escalate() -> None:
        page.keyboard.press("g")
        page.keyboard.press("e")
        page.get_by_role("dialog").wait_for()
        page.keyboard.type("Somebody else should look")
        page.keyboard.press("Enter")

    escalate()
    expect(page.locator("#nothing")).to_contain_text("Nothing to review")
    other = given(admin.installation, None)
    page = admin.review(item)
    escalate()
    wait_for_item(page, other)


def test_work_is_assigned_from_a_list(admin: Visitor) -> None:
    """Reviewers, typed or chosen, those away marked as such; an error keeps the dialog open and says why."""
    item = given(admin.installation, "rita")
    page = admin.review(item, claim=False)
    page.keyboard.press("g")
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog")
    choice = dialog.get_by_label("To")
    expect(choice).to_have_value("rita")
    expect(choice.locator("option")).to_contain_text(["anyone", "admin", "away", "otto", "rita"])
    expect(choice.locator("option[value=gone]")).to_be_disabled()
    user = next(one for one in admin.installation.api("GET", "/api/users")["users"] if one["name"] == "otto")
    admin.installation.api("PATCH", f"/api/users/{user['id']}", {"available": False})
    page.keyboard.type("ot")
    expect(choice).to_have_value("otto")
    admin.watch.expect(422)
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("otto")
    expect(choice).to_have_value("otto")
    admin.installation.api("PATCH", f"/api/users/{user['id']}", {"available": True})
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


def test_a_reserved_item_is_not_offered_to_others(rita: Visitor, own_installation: Installation) -> None:
    """For an hour, and while its assignee is there; the screen says until when."""
    item = given(own_installation, "otto")
    page = rita.review(item, claim=False)
    banner = page.locator("#banner")
    expect(banner).to_contain_text("Assigned to otto, who has not started yet. From")
    expect(page.locator("[data-verb=claim]:visible")).to_have_count(0)
    expect(banner.get_by_role("button")).to_have_count(0)
    user = next(one for one in own_installation.api("GET", "/api/users")["users"] if one["name"] == "otto")
    own_installation.api("PATCH", f"/api/users/{user['id']}", {"available": False})
    try:
        page.reload()
        expect(banner.get_by_role("button", name="Claim")).to_be_visible()
        page.keyboard.press("c")
        expect(page.locator("#approve")).to_be_visible()
    finally:
        own_installation.api("PATCH", f"/api/users/{user['id']}", {"available": True})
