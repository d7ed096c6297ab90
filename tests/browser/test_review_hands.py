"""The review screen and imprecise input: keys held down, clicks, undo while typing, touch without a keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.browser.installation import Installation, Visitor
from tests.browser.keyboard import CLOSED_LATE
from tests.browser.screen import correct_total, row, wait_for_focus
from tests.browser.watch import until

#: Where the top of an element is on the screen.
TOP = "node => Math.round(node.getBoundingClientRect().top)"


def hold(page: Page, key: str, times: int = 25) -> None:
    """Hold a key down, repeating as keyboards do."""
    for _ in range(times):
        page.keyboard.down(key)
        page.wait_for_timeout(30)
    page.keyboard.up(key)


def posted(page: Page, verb: str) -> list[str]:
    """Record every request for an action from now on."""
    sent: list[str] = []

    def record(request: Request) -> None:
        if request.url.endswith(f"/{verb}"):
            sent.append(request.url)

    page.on("request", record)
    return sent


def test_one_press_approves_one_document(reviewer: Visitor) -> None:
    """Ctrl+Enter held down approves the document on the screen, and not the one after it."""
    first, second = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    page = reviewer.review(first)
    correct_total(page)
    reviewer.watch.expect(422)
    sent = posted(page, "approve")
    page.keyboard.down("Control")
    hold(page, "Enter", 40)
    page.keyboard.up("Control")
    expect(page.locator("#doc-name")).to_have_text(second["name"])
    expect(page.locator("#holder")).to_contain_text("yours")
    assert len(sent) == 1
    assert reviewer.whole(first)["status"] == "corrected"
    assert reviewer.whole(second)["status"] == "in_review"


def test_an_extra_press_does_not_count_for_the_next_document(reviewer: Visitor) -> None:
    """Ctrl+Enter counts for a document shown for at least 0.4 s, however slow the page or the claim is."""
    item, _ = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    clock = reviewer.page.clock
    clock.install()
    page = reviewer.review(item)
    correct_total(page)
    expect(page.locator(".nearby-item", has_text="Next")).to_be_visible()
    reviewer.watch.settle(page)
    reviewer.watch.expect(422)
    sent = posted(page, "approve")
    clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#doc-name")).not_to_have_text(item["name"])
    expect(page.locator("#holder")).to_contain_text("yours")

    def press_after(milliseconds: int) -> None:
        clock.run_for(milliseconds)
        page.keyboard.press("Control+Enter")
        reviewer.watch.settle(page)

    press_after(0)
    clock.fast_forward(1000)  # to a slow machine's first frame with the document: nobody has seen it until now
    press_after(0)
    press_after(350)
    assert len(sent) == 1
    press_after(100)
    until(page, lambda: len(sent) == 2)


def test_enter_held_down_confirms_one_field(reviewer: Visitor) -> None:
    """The rest was not looked at; nor does it press a button that gets the focus."""
    page = reviewer.review(reviewer.installation.add_doubtful())
    sent = posted(page, "approve")
    page.locator(row("subtotal")).focus()
    hold(page, "Enter")
    expect(page.locator(row("subtotal"))).to_have_attribute("data-state", "confirmed")
    assert page.locator("#fields .slot[data-state=confirmed]").count() == 1
    for _ in range(2):
        page.keyboard.press("Enter")
    assert page.locator("#fields .slot[data-state=confirmed]").count() == 3
    wait_for_focus(page, "#approve")
    page.keyboard.press("k")
    page.locator(row("total")).focus()
    hold(page, "Enter")
    wait_for_focus(page, "#approve")
    assert sent == []


def test_no_other_document_is_claimed_while_one_is_loading(reviewer: Visitor) -> None:
    """`c` claims the document of the page, or nothing until it is loaded."""
    item, _ = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    page = reviewer.page
    held: list[Route] = []
    page.route(f"**/api/review/items/{item['id']}", lambda route: held.append(route))
    claimed = posted(page, "claim")
    page.goto(f"/review/{item['id']}")
    until(page, lambda: bool(held))
    page.keyboard.press("c")
    held[0].continue_()
    expect(page.locator("#doc-name")).to_have_text(item["name"])
    reviewer.watch.settle(page)
    assert claimed == []
    page.keyboard.press("c")
    expect(page.locator("#approve")).to_be_visible()
    assert len(claimed) == 1


def test_a_key_right_after_a_question_counts(reviewer: Visitor) -> None:
    """A key pressed after closing a question counts, even before the browser reports it closed."""
    reviewer.page.add_init_script(CLOSED_LATE)
    page = reviewer.review(reviewer.installation.add_doubtful())
    for key, title in (("Alt+r", "Reject"), ("p", "Postpone"), ("Alt+r", "Reject")):
        page.keyboard.press(key)
        expect(page.get_by_role("dialog")).to_contain_text(title)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_undo_while_typing_stays_in_the_input(reviewer: Visitor) -> None:
    """The next letters are text and not commands; in a table they go into the same cell."""
    item: dict[str, Any] = reviewer.installation.add_doubtful()
    page = reviewer.review(item)
    entry = page.locator("#field-customer")
    read = entry.input_value()
    page.locator(row("customer")).focus()
    page.keyboard.press("e")
    page.keyboard.type("12.3")
    page.keyboard.press("Control+z")
    expect(entry).to_have_value(read)
    wait_for_focus(page, "#field-customer")
    page.keyboard.type("ux")
    expect(entry).to_have_value(f"{read}ux")
    assert reviewer.whole(item)["holder"] == "admin"
    cell = page.locator("#field-line_items tbody tr:nth-child(2) [data-column=quantity]")
    count = cell.input_value()
    cell.fill("77")
    page.keyboard.press("Control+z")
    expect(cell).to_have_value(count)
    wait_for_focus(page, "#field-line_items tbody tr:nth-child(2) [data-column=quantity]")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+z")  # what was typed before, in another field: no input was in hand, and none is
    expect(entry).to_have_value(read)
    wait_for_focus(page, row("customer"))


def click_slowly(page: Page, selector: str) -> tuple[int, int]:
    """Click slowly, as people do; return where the element was before and is after."""
    node = page.locator(selector)
    node.scroll_into_view_if_needed()
    before, box = node.evaluate(TOP), node.bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.wait_for_timeout(60)
    page.mouse.up()
    return before, node.evaluate(TOP)


@pytest.mark.parametrize("start", ["subtotal", "vendor", "total"])
def test_a_clicked_element_stays_under_the_pointer(reviewer: Visitor, start: str) -> None:
    """And has the caret, although the current field closes above or below it."""
    page = reviewer.review(reviewer.installation.add_doubtful())
    cell = "#field-line_items tbody tr:first-child input >> nth=0"
    for target in (cell, "#field-total", "#field-due_date", "#field-vendor"):
        page.locator(row(start)).focus()
        reviewer.watch.settle(page)
        before, after = click_slowly(page, target)
        assert abs(after - before) <= 1, target
        assert page.locator(target).evaluate("node => node === document.activeElement"), target


def test_a_tap_reaches_the_cell(own_installation: Installation, chromium: Browser) -> None:
    """A tap puts the caret where it was tapped, and the button that deletes a row is visible."""
    with own_installation.visitor(
        chromium, has_touch=True, is_mobile=True, viewport={"width": 1024, "height": 768}
    ) as visitor:
        page = visitor.review(own_installation.add_doubtful(), claim=False)
        page.locator("#banner button").tap()
        expect(page.locator("#approve")).to_be_visible()
        page.locator(row("subtotal")).focus()
        page.locator("#field-line_items tbody tr:first-child input >> nth=0").tap()
        wait_for_focus(page, "#field-line_items tbody tr:first-child td:first-child input")
        rows = page.locator("#field-line_items tbody tr")
        before = rows.count()
        delete = rows.last.get_by_role("button")
        assert delete.evaluate("node => getComputedStyle(node).opacity") == "1"
        delete.tap()
        expect(rows).to_have_count(before - 1)


def test_touch_can_do_what_keys_do(own_installation: Installation, chromium: Browser) -> None:
    """Confirm, lock, absent: the hints are buttons, large enough; the document can be approved."""
    with own_installation.visitor(
        chromium, has_touch=True, is_mobile=True, viewport={"width": 768, "height": 1024}
    ) as visitor:
        item = own_installation.add_doubtful()
        page = visitor.review(item, claim=False)
        page.locator("#banner button").tap()
        expect(page.locator("#approve")).to_be_visible()
        number = page.locator("#field-invoice_number")
        number.tap()
        absent = page.locator(f"{row('invoice_number')} [data-verb=absent]")
        expect(absent).to_be_visible()
        size = absent.bounding_box()
        assert size
        assert size["height"] >= 44
        absent.tap()
        expect(page.locator(row("invoice_number"))).to_have_attribute("data-state", "absent")
        page.locator(f"{row('invoice_number')} [data-verb=absent]").tap()
        expect(page.locator(row("invoice_number"))).to_have_attribute("data-state", "auto")
        page.locator(f"{row('invoice_number')} [data-verb=lock]").tap()
        expect(page.locator(row("invoice_number")).get_by_role("img", name="locked")).to_be_visible()
        page.locator("#field-customer").tap()
        page.locator(f"{row('customer')} [data-verb=absent]").tap()
        for name in ("subtotal", "tax", "total"):
            page.locator(f"{row(name)} label").tap()
            page.locator(f"{row(name)} [data-verb=confirm]").tap()
            expect(page.locator(row(name))).to_have_attribute("data-state", "confirmed")
        expect(page.locator("#left")).to_have_text("all done")
        page.locator("#approve").tap()
        until(page, lambda: visitor.whole(item)["status"] == "corrected")


def test_a_button_stays_while_it_is_pressed(reviewer: Visitor) -> None:
    """The rules are evaluated again meanwhile: a click needs the same button at its start and end."""
    held: list[Route] = []
    answering: list[bool] = []  # what is asked later is not held
    reviewer.page.route("**/check", lambda route: route.continue_() if answering else held.append(route))
    page = reviewer.review(reviewer.installation.add_doubtful())
    page.locator("#field-customer").fill("Somebody")
    until(page, lambda: bool(held))
    page.locator("#field-due_date").click()
    button = page.locator(f"{row('due_date')} [data-verb=absent]")
    button.hover()
    page.mouse.down()
    answering.append(True)
    # All that were asked by now: the page drops an older question when it asks a newer one.
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/check")):
        for route in held:
            route.continue_()
    reviewer.watch.settle(page)
    page.mouse.up()
    expect(page.locator(row("due_date"))).to_have_attribute("data-state", "absent")


def test_a_mouse_can_do_what_keys_do(reviewer: Visitor) -> None:
    """Also from within the input; the current field stays current."""
    page = reviewer.review(reviewer.installation.add_doubtful())
    page.locator("#field-due_date").click()
    absent = page.locator(f"{row('due_date')} [data-verb=absent]")
    expect(absent).to_be_visible()
    size = absent.bounding_box()
    assert size
    assert size["height"] >= 24
    page.locator(f"{row('due_date')} [data-verb=absent]").click()
    expect(page.locator(row("due_date"))).to_have_attribute("data-state", "absent")
    wait_for_focus(page, "#field-due_date")
    page.keyboard.press("Escape")
    page.locator(f"{row('due_date')} [data-verb=edit]").click()
    wait_for_focus(page, "#field-due_date")
