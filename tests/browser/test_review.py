"""The review screen: page and fields are linked, and every way of deciding a field works."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.installation import Installation, Visitor
from tests.browser.screen import field, row, wait_for_focus
from tests.browser.watch import until

#: Whether an element is wholly within what the page zone shows.
IN_SIGHT = """(box) => {
    const zone = document.getElementById("zone").getBoundingClientRect(), seen = box.getBoundingClientRect();
    return seen.top >= zone.top && seen.bottom <= zone.bottom && seen.left >= zone.left && seen.right <= zone.right;
}"""


@pytest.fixture
def item(installation: Installation) -> dict[str, Any]:
    """An unreviewed document whose total is not the sum of its parts."""
    return installation.add_doubtful()


def test_page_and_fields_are_linked(visitor: Visitor, item: dict[str, Any]) -> None:
    """Selecting a field scrolls to its box; clicking a box selects its field."""
    page = visitor.review(item, claim=False)
    wait_for_focus(page, row("subtotal"))  # the first that wants a look
    until(page, lambda: page.locator("#zone .box[data-name=subtotal]").evaluate(IN_SIGHT))
    for name in ("vendor", "total", "invoice_number"):
        page.locator(f"{row(name)} label").click()
        box = page.locator(f"#zone .box[data-name={name}]")
        expect(box).to_have_class("box state-rule_failed current" if name == "total" else "box state-auto current")
        until(page, lambda box=box: box.evaluate(IN_SIGHT))  # type: ignore[misc]
    page.locator("#zone .box[data-name=invoice_date]").click()
    wait_for_focus(page, row("invoice_date"))


def test_a_value_not_found_on_the_page_is_recognised_by_its_code(visitor: Visitor, item: dict[str, Any]) -> None:
    """Whatever the model's confidence and the sentence: it needs a look, and is asked about before approval."""
    page = visitor.review(item, claim=False)
    state = """async ([text, code]) => {
        const { Item } = await import(document.querySelector("link[href*='review_item.js']").href);
        const reading = { name: "total", kind: "money", value: "1.00", confidence: 1, threshold: 0.5 };
        const reason = { reasons: [text], translatable: { reasons: [code && { code, params: {} }] } };
        const item = new Item({ id: "1", version: 1, fields: [{ ...reading, ...reason }] });
        return [item.state("total"), item.unseenFields];
    }"""
    assert page.evaluate(state, ["is nowhere on the page", "reason.ungrounded"]) == ["needs_look", ["total"]]
    assert page.evaluate(state, ["ungrounded", None]) == ["auto", []]


def test_a_box_drawn_on_the_page_fills_the_field(visitor: Visitor, item: dict[str, Any]) -> None:
    """The text inside becomes the value of the current field, and the box is stored with it."""
    page = visitor.review(item)
    number = next(one["value"] for one in visitor.whole(item)["fields"] if one["name"] == "invoice_number")
    page.locator(f"{row('invoice_number')} label").click()
    page.keyboard.press("Escape")
    place = page.locator("#zone .box[data-name=invoice_number]")
    until(page, lambda: place.evaluate(IN_SIGHT))
    seen = place.bounding_box()
    assert seen
    page.locator(row("customer")).focus()
    page.keyboard.press("s")
    place.scroll_into_view_if_needed()
    seen = place.bounding_box()
    assert seen
    page.mouse.move(seen["x"] - 2, seen["y"] - 2)
    page.mouse.down()
    page.mouse.move(seen["x"] + seen["width"] + 2, seen["y"] + seen["height"] + 2, steps=4)
    page.mouse.up()
    expect(page.locator("#field-customer")).to_have_value(number)
    page.keyboard.press("Control+s")
    until(page, lambda: field(visitor, item, "customer")["value"] == number)
    assert field(visitor, item, "customer")["box"]


def test_a_candidate_is_chosen_by_its_number(visitor: Visitor, item: dict[str, Any]) -> None:
    """1 to 9 put another reading into the field, and Ctrl+Z removes it again."""
    page = visitor.review(item)
    one = next(one for one in visitor.whole(item)["fields"] if one["candidates"] and one["kind"] != "list")
    other = next(at for at, candidate in enumerate(one["candidates"]) if candidate["value"] != one["value"])
    page.locator(row(one["name"])).focus()
    page.keyboard.press(str(other + 1))
    entry = page.locator(f"#field-{one['name']}")
    expect(entry).to_have_value(str(one["candidates"][other]["value"]))
    expect(page.locator(row(one["name"]))).to_have_attribute("data-state", "corrected")
    page.keyboard.press("Control+z")
    expect(entry).to_have_value(str(one["value"]))
    page.keyboard.press("Control+Shift+z")
    expect(entry).to_have_value(str(one["candidates"][other]["value"]))


def test_rows_of_a_table_are_added_and_deleted(visitor: Visitor, item: dict[str, Any]) -> None:
    """Alt+Insert and Alt+Delete, arrows between cells, and a sum that follows what is typed."""
    page = visitor.review(item)
    cells = page.locator("#field-line_items tbody tr")
    before = cells.count()
    paid = sum(float(one["amount"]) for one in field(visitor, item, "line_items")["value"])
    page.locator(row("line_items")).focus()
    page.keyboard.press("e")
    wait_for_focus(page, "#field-line_items tbody tr:first-child input")
    page.keyboard.press("Alt+Insert")
    expect(cells).to_have_count(before + 1)
    page.keyboard.type("Carriage")
    amount = page.locator("#field-line_items tbody tr:nth-child(2) [data-column=amount]")
    amount.fill("1000.00")
    expect(page.locator("#field-line_items .sum")).to_contain_text(f"{paid + 1000:.2f}")
    page.keyboard.press("ArrowUp")
    wait_for_focus(page, "#field-line_items tbody tr:first-child [data-column=amount]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Alt+Delete")
    expect(cells).to_have_count(before)


def test_typed_values_are_normalised(visitor: Visitor, item: dict[str, Any]) -> None:
    """A date in any order becomes a date; an invalid one is reported at once, and cannot be approved."""
    page = visitor.review(item)
    entry = page.locator("#field-invoice_date")
    entry.fill("3 March 2026")
    entry.press("Enter")
    expect(entry).to_have_value("2026-03-03")
    entry.fill("the day after")
    expect(page.locator(f"{row('invoice_date')} [role=alert]")).to_be_visible()
    entry.press("Control+Enter")
    expect(page.locator("#toasts .toast")).to_be_visible()
    expect(entry).to_have_value("the day after")


def test_a_document_that_does_not_add_up_is_not_approved(visitor: Visitor, item: dict[str, Any]) -> None:
    """The server refuses, the screen says why and moves to the field; once corrected, it is approved."""
    page = visitor.review(item)
    visitor.watch.expect(422)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#toasts")).to_contain_text("total")
    assert visitor.whole(item)["status"] == "in_review"
    total = page.locator("#field-total")
    total.fill(f"{float(total.input_value()) - 10:.2f}")
    total.press("Enter")
    page.keyboard.press("Control+Enter")
    until(page, lambda: visitor.whole(item)["status"] == "corrected")
    spent = visitor.installation.api("GET", f"/api/review/items/{item['id']}/history")["entries"]
    assert {"claimed", "corrected", "approved"} <= {one["action"] for one in spent}


def test_a_document_is_rejected_with_a_reason(visitor: Visitor, item: dict[str, Any]) -> None:
    """Alt+R and a number: two keys."""
    page = visitor.review(item)
    reason = visitor.whole(item)["reject_reasons"][0]["code"]
    page.keyboard.press("Alt+r")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("1")
    until(page, lambda: visitor.whole(item)["status"] == "rejected")
    [last] = [one for one in visitor.installation.api("GET", f"/api/review/items/{item['id']}/history")["entries"]
              if one["action"] == "rejected"]  # fmt: skip
    assert reason in str(last)


def test_two_tabs_do_not_overwrite_each_other(visitor: Visitor, item: dict[str, Any]) -> None:
    """What was saved in the other tab is shown beside one's own, and the user decides."""
    first = visitor.review(item)
    second = first.context.new_page()
    second.goto(first.url)
    visitor.watch.settle(second)
    first.locator("#field-customer").fill("First & Co")
    first.keyboard.press("Control+s")
    until(first, lambda: field(visitor, item, "customer")["value"] == "First & Co")
    visitor.watch.expect(409)
    second.locator("#field-customer").fill("Second & Co")
    second.keyboard.press("Control+s")
    dialog = second.get_by_role("dialog")
    expect(dialog).to_contain_text("First & Co")
    expect(dialog).to_contain_text("Second & Co")
    assert field(visitor, item, "customer")["value"] == "First & Co"
    second.keyboard.press("Enter")
    second.keyboard.press("Control+s")
    until(second, lambda: field(visitor, item, "customer")["value"] == "Second & Co")


def test_viewing_does_not_claim(installation: Installation, chromium: Browser, item: dict[str, Any]) -> None:
    """A viewer sees everything and can change nothing."""
    installation.add_person("viola", "viewer")
    with installation.visitor(chromium, "viola") as visitor:
        page = visitor.review(item, claim=False)
        expect(page.locator("#field-total")).not_to_be_editable()
        expect(page.locator("#approve")).to_be_hidden()
        page.keyboard.press("c")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Ctrl+Enter")
    assert installation.item(item["document_id"])["holder"] is None
