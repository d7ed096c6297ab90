"""More of the review screen: the next item, releasing, finding text, pasting rows, three readings, statistics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Route, expect

from tests.browser import axe
from tests.browser.installation import Installation, Visitor
from tests.browser.screen import correct_total, field, row, wait_for_focus
from tests.browser.watch import until

#: Puts a text where a spreadsheet would: the clipboard itself is not for pages that nobody has clicked on.
PASTE = """text => { const data = new DataTransfer(); data.setData("text/plain", text);
    document.activeElement.dispatchEvent(
        new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})); }"""


def test_the_next_document_is_loaded_when_this_one_is_approved(reviewer: Visitor) -> None:
    """Without another page load, its image fetched before; time and keys are reported."""
    first, second = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    page = reviewer.review(first)
    page.evaluate("window.same = true")
    expect(page.locator(".nearby-item", has_text="Next")).to_contain_text(second["name"])
    page.locator(row("subtotal")).focus()
    page.keyboard.press("Enter")
    correct_total(page)
    with page.expect_request(lambda request: request.url.endswith("/approve")) as sent:
        page.keyboard.press("Control+Enter")
    expect(page.locator("#doc-name")).to_have_text(second["name"])
    page.wait_for_url(f"**/review/{second['id']}")
    expect(page.locator("#holder")).to_contain_text("yours")
    assert page.evaluate("window.same")
    spent = json.loads(sent.value.post_data or "{}")
    assert spent["keystrokes"] >= 2
    assert spent["seconds"] >= 0
    until(page, lambda: reviewer.whole(first)["status"] == "corrected")
    assert reviewer.whole(second)["holder"] == "admin"
    page.go_back()
    expect(page.locator("#doc-name")).to_have_text(first["name"])
    expect(page.locator("#banner")).to_contain_text("Corrected and approved by admin")


def test_a_refused_approval_restores_the_document(reviewer: Visitor) -> None:
    """Whether or not the next one was shown ahead of the answer."""
    item, _ = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    page = reviewer.review(item)
    correct_total(page)
    expect(page.locator(".nearby-item", has_text="Next")).to_be_visible()
    reviewer.watch.expect(422)
    page.route("**/approve", lambda route: route.fulfill(status=422, json={
        "type": "/docs#review_gated", "title": "x", "status": 422, "code": "review_gated", "detail": "not yet",
        "missing": ["vendor"], "failing": [], "request_id": "x"}))  # fmt: skip
    page.keyboard.press("Control+Enter")
    expect(page.locator("#toasts")).to_contain_text("Required and empty: Vendor")
    expect(page.locator("#doc-name")).to_have_text(item["name"])
    wait_for_focus(page, row("vendor"))
    assert page.url.endswith(item["id"])


def test_a_document_that_is_itself_wrong_is_approved_as_it_is(reviewer: Visitor) -> None:
    """Every field of the rule confirmed with Enter: the rule is a warning, and the document is done."""
    item = reviewer.installation.add_doubtful()
    page = reviewer.review(item)
    reviewer.watch.expect(422)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#toasts")).to_contain_text("confirm each of its fields")
    for name in ("subtotal", "tax", "total"):
        page.locator(row(name)).focus()
        page.keyboard.press("Enter")
        expect(page.locator(row(name))).to_have_attribute("data-state", "confirmed")
    page.keyboard.press("Control+Enter")
    until(page, lambda: reviewer.whole(item)["status"] == "approved")
    assert [one["severity"] for one in reviewer.whole(item)["issues"]] == ["warning"]


def test_an_item_is_released_or_postponed(reviewer: Visitor) -> None:
    """Released it is free at once, with its edits; postponed it is out of the line for a while."""
    item, _ = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    page = reviewer.review(item)
    page.locator("#field-customer").fill("Said before leaving")
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    expect(page.locator("#banner")).to_contain_text("Claim")
    expect(page.locator("#field-customer")).not_to_be_editable()
    assert field(reviewer, item, "customer")["value"] == "Said before leaving"
    page.keyboard.press("c")
    expect(page.locator("#approve")).to_be_visible()
    page.keyboard.press("p")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("2")
    until(page, lambda: reviewer.whole(item)["postponed_until"] is not None)
    expect(page.locator("#doc-name")).not_to_have_text(item["name"])


@pytest.mark.parametrize(
    ("verb", "keys"),
    [("release", ["u"]), ("postpone", ["p", "2"]), ("escalate", ["g", "e", "x", "Enter"]), ("reject", ["Alt+r", "1"])],
    ids=["release", "postpone", "escalate", "reject"],
)
def test_no_draft_is_sent_after_an_item_was_left(reviewer: Visitor, verb: str, keys: list[str]) -> None:
    """However long the answer takes: the server would refuse it, and the screen would report a lost claim."""
    item, _ = reviewer.installation.add_doubtful(), reviewer.installation.add_doubtful()
    reviewer.page.clock.install()
    page = reviewer.review(item)
    held: list[tuple[Route, APIResponse]] = []
    page.route(f"**/{verb}", lambda route: held.append((route, route.fetch())))
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    page.locator("#field-customer").fill("Typed just now")
    page.keyboard.press("Escape")
    for key in keys:
        page.keyboard.press(key)
    until(page, lambda: bool(held))
    page.clock.fast_forward(2000)
    [(route, answer)] = held
    route.fulfill(response=answer)
    reviewer.watch.settle(page)


def test_text_is_found_on_the_pages_and_used(reviewer: Visitor) -> None:
    """Without a mouse: / finds it, whatever its case, and Alt+Enter puts it into the field with its place."""
    item = reviewer.installation.add_doubtful()
    number = field(reviewer, item, "invoice_number")
    page = reviewer.review(item)
    page.locator(row("customer")).focus()
    page.keyboard.press("/")
    page.keyboard.type(str(number["value"]).lower())
    expect(page.locator("#findbar")).to_contain_text("1 of")
    expect(page.locator("#zone .hit.now")).to_be_visible()
    page.keyboard.press("Alt+Enter")
    expect(page.locator("#field-customer")).to_have_value(str(number["value"]))
    wait_for_focus(page, row("customer"))
    page.keyboard.press("Control+s")
    until(page, lambda: field(reviewer, item, "customer")["value"] == number["value"])
    assert field(reviewer, item, "customer")["page"] == number["page"]


def test_cells_are_pasted_from_a_spreadsheet(reviewer: Visitor) -> None:
    """From the current cell on, with new rows as needed; one undo removes them all."""
    item = reviewer.installation.add_doubtful()
    page = reviewer.review(item)
    cells = page.locator("#field-line_items tbody tr")
    before = cells.count()
    page.locator(row("line_items")).focus()
    page.keyboard.press("e")
    page.locator("#field-line_items tbody tr").last.locator("input").first.focus()
    page.evaluate(PASTE, "Bolt\t2\t1,50\t3,00\nNut\t4\t0,25\t1,00\n")
    expect(cells).to_have_count(before + 1)
    expect(cells.last.locator("[data-column=amount]")).to_have_value("1,00")
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    expect(cells.last.locator("[data-column=amount]")).to_have_value("1.00")  # as it is understood
    page.keyboard.press("Control+z")
    expect(cells).to_have_count(before)


def test_a_broken_rule_leads_through_its_fields(reviewer: Visitor) -> None:
    """Alt+Down goes from one to the next and around; x marks absent, and l locks."""
    page = reviewer.review(reviewer.installation.add_doubtful())
    seen = []
    for _ in range(4):
        page.keyboard.press("Alt+ArrowDown")
        seen.append(page.evaluate("document.activeElement.dataset.name"))
    assert set(seen[:3]) == {"subtotal", "tax", "total"}
    assert seen[3] == seen[0]
    due = page.locator(row("due_date"))
    due.focus()
    page.keyboard.press("x")
    expect(due).to_have_attribute("data-state", "absent")
    expect(page.locator("#field-due_date")).to_have_value("")
    page.keyboard.press("x")
    expect(due).to_have_attribute("data-state", "auto")
    page.keyboard.press("l")
    expect(due.get_by_role("img", name="locked")).to_be_visible()
    page.keyboard.press("Control+z")
    expect(due.get_by_role("img", name="locked")).to_be_hidden()


def test_a_saved_change_can_be_undone(reviewer: Visitor) -> None:
    """What was saved is undone by saving again."""
    item = reviewer.installation.add_doubtful()
    read = field(reviewer, item, "customer")["value"]
    page = reviewer.review(item)
    page.locator("#field-customer").fill("Somebody else")
    page.keyboard.press("Control+s")
    until(page, lambda: field(reviewer, item, "customer")["locked"])
    expect(page.locator("#saved")).to_have_text("Saved")
    page.keyboard.press("Control+z")
    expect(page.locator("#field-customer")).to_have_value(str(read))
    page.keyboard.press("Control+s")
    until(page, lambda: not field(reviewer, item, "customer")["locked"])
    assert field(reviewer, item, "customer")["value"] == read


def test_history_shows_who_changed_what(reviewer: Visitor) -> None:
    """Values before and after, newest first, in a drawer that t opens and closes."""
    item = reviewer.installation.add_doubtful()
    page = reviewer.review(item)
    page.locator("#field-customer").fill("Another name")
    page.keyboard.press("Control+s")
    until(page, lambda: field(reviewer, item, "customer")["locked"])
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    drawer = page.locator("#drawer")
    expect(drawer.get_by_role("listitem").first).to_contain_text("corrected Customer")
    expect(drawer.get_by_role("listitem").first.locator("ins")).to_have_text("Another name")
    expect(drawer).to_contain_text("claimed")
    page.keyboard.press("t")
    expect(drawer).to_be_hidden()


def test_statistics_show_how_people_work(own_installation: Installation, chromium: Browser, tmp_path: Path) -> None:
    """Documents, seconds and keys per person, corrections per field, for the chosen days, and as CSV."""
    with own_installation.visitor(chromium) as visitor:
        item = own_installation.add_doubtful()
        page = visitor.review(item)
        correct_total(page)
        page.keyboard.press("Control+Enter")
        until(page, lambda: visitor.whole(item)["status"] == "corrected")
        visitor.open("/numbers")
        expect(page.locator("#people").get_by_role("row", name="admin")).to_be_visible()
        expect(page.locator("#fields").get_by_role("row").first).to_contain_text("Total")
        with page.expect_download() as got:
            page.locator("#people-csv").click()
        got.value.save_as(tmp_path / "people.csv")
        assert "admin" in (tmp_path / "people.csv").read_text()
        page.locator("#until").fill("2001-01-01")
        page.locator("#since").fill("2000-01-01")
        expect(page.locator("#none")).to_contain_text("No documents were finished")
        assert axe.findings(page) == []
