"""The review screen under hands that slip: keys held down, clicks, undo while typing, fingers without a keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.site import Site, Visitor, opened

#: Where the top of an element is on the screen.
TOP = "node => Math.round(node.getBoundingClientRect().top)"


@pytest.fixture(scope="module")
def own(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation whose queue nobody else works on."""
    with opened(tmp_path_factory.mktemp("hands") / "data") as one:
        yield one


@pytest.fixture
def reviewer(own: Site, chromium: Browser) -> Iterator[Visitor]:
    """Somebody at it."""
    with own.visitor(chromium) as one:
        yield one


def row(name: str) -> str:
    """A field's row."""
    return f"#fields [data-name={name}]"


def on(page: Page, selector: str) -> None:
    """Waits until something has the focus."""
    page.wait_for_function("selector => document.activeElement?.matches(selector)", arg=selector)


def hold(page: Page, key: str, times: int = 25) -> None:
    """A key that stays down, and repeats itself as keyboards do."""
    for _ in range(times):
        page.keyboard.down(key)
        page.wait_for_timeout(30)
    page.keyboard.up(key)


def posted(page: Page, verb: str) -> list[str]:
    """Every request for a verb from now on."""
    sent: list[str] = []

    def heard(request: Request) -> None:
        if request.url.endswith(f"/{verb}"):
            sent.append(request.url)

    page.on("request", heard)
    return sent


def mended(page: Page) -> None:
    """The total made right."""
    total = page.locator("#field-total")
    total.fill(f"{float(total.input_value()) - 10:.2f}")
    expect(page.locator("#left")).to_have_text("all settled")


def test_one_press_approves_one_document(reviewer: Visitor) -> None:
    """Ctrl+Enter held down approves the document that is seen, and not the one after it."""
    first, second = reviewer.site.doubtful(), reviewer.site.doubtful()
    page = reviewer.review(first)
    mended(page)
    reviewer.watch.expect(422)
    sent = posted(page, "approve")
    page.keyboard.down("Control")
    hold(page, "Enter", 40)
    page.keyboard.up("Control")
    expect(page.locator("#holder")).to_contain_text("yours")
    assert len(sent) == 1
    assert reviewer.whole(first)["status"] == "corrected"
    assert reviewer.whole(second)["status"] == "in_review"


def test_a_press_too_many_does_not_count_for_the_next_document(reviewer: Visitor) -> None:
    """Pressed again right when the next document has come, Ctrl+Enter was not meant for it."""
    item, _ = reviewer.site.doubtful(), reviewer.site.doubtful()
    page = reviewer.review(item)
    mended(page)
    expect(page.locator(".coming", has_text="Next")).to_be_visible()
    reviewer.watch.expect(422)
    sent = posted(page, "approve")
    # Pressed by the page itself, in the moment in which the other document stands there.
    page.evaluate("""() => {
        const press = () => document.activeElement.dispatchEvent(new KeyboardEvent(
            "keydown", {key: "Enter", code: "Enter", ctrlKey: true, bubbles: true, cancelable: true}));
        new MutationObserver(() => setTimeout(press)).observe(document.getElementById("doc-name"), {childList: true});
        const bar = document.getElementById("holder-text");
        new MutationObserver(() => bar.textContent.startsWith("yours") && press()).observe(bar, {childList: true});
        press();
    }""")
    expect(page.locator("#doc-name")).not_to_have_text(item["name"])
    expect(page.locator("#holder")).to_contain_text("yours")
    reviewer.watch.settle(page)
    assert len(sent) == 1


def test_enter_held_down_confirms_one_field(reviewer: Visitor) -> None:
    """The rest has not been looked at; nor does it press a button that the focus came to."""
    page = reviewer.review(reviewer.site.doubtful())
    sent = posted(page, "approve")
    page.locator(row("subtotal")).focus()
    hold(page, "Enter")
    expect(page.locator(row("subtotal"))).to_have_attribute("data-state", "confirmed")
    assert page.locator("#fields .slot[data-state=confirmed]").count() == 1
    for _ in range(2):
        page.keyboard.press("Enter")
    assert page.locator("#fields .slot[data-state=confirmed]").count() == 3
    on(page, "#approve")
    page.keyboard.press("k")
    page.locator(row("total")).focus()
    hold(page, "Enter")
    on(page, "#approve")
    assert sent == []


def test_undo_while_typing_stays_in_the_input(reviewer: Visitor) -> None:
    """The next letters are text and no commands; in a table they go into the same cell."""
    item: dict[str, Any] = reviewer.site.doubtful()
    page = reviewer.review(item)
    entry = page.locator("#field-customer")
    read = entry.input_value()
    page.locator(row("customer")).focus()
    page.keyboard.press("e")
    page.keyboard.type("12.3")
    page.keyboard.press("Control+z")
    expect(entry).to_have_value(read)
    on(page, "#field-customer")
    page.keyboard.type("ux")
    expect(entry).to_have_value(f"{read}ux")
    assert reviewer.whole(item)["holder"] == "admin"
    cell = page.locator("#field-line_items tbody tr:nth-child(2) [data-column=quantity]")
    count = cell.input_value()
    cell.fill("77")
    page.keyboard.press("Control+z")
    expect(cell).to_have_value(count)
    on(page, "#field-line_items tbody tr:nth-child(2) [data-column=quantity]")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+z")  # what was typed before, in another field: no input was in hand, and none is
    expect(entry).to_have_value(read)
    on(page, row("customer"))
