"""A long table on the review screen: rows are located on the pages, headings stay visible, and Tab skips it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.installation import Installation
from tests.browser.test_review import IN_SIGHT
from tests.browser.watch import until
from tests.pipelines.documents import bills

ROWS = 50
#: On which page a mark stands, and from where to where, in shares of the page.
PLACE = """node => [Number(node.closest(".sheet").dataset.page), parseFloat(node.style.top) / 100,
    (parseFloat(node.style.top) + parseFloat(node.style.height)) / 100]"""


@pytest.fixture(scope="module")
def item(own_installation: Installation) -> dict[str, Any]:
    """An invoice of three pages, with some identical rows."""
    bill = replace(bills.invent("fr", random.Random("long"), rows=ROWS), slip=Decimal(7))
    rows = (*bill.rows[:30], bill.rows[2], *bill.rows[31:])  # one of the second page is one of the first again
    return own_installation.item(
        own_installation.upload(bills.invoice(replace(bill, rows=rows)).to_bytes(), "long.pdf")
    )


@pytest.fixture
def page(own_installation: Installation, chromium: Browser, item: dict[str, Any]) -> Iterator[Page]:
    """Its screen, claimed."""
    with own_installation.visitor(chromium) as one:
        yield one.review(item)


def cell(page: Page, row: int, column: str) -> Any:
    """Return an input of the table; rows count from zero."""
    return page.locator("#field-line_items tbody tr").nth(row).locator(f"[data-column={column}]")


def words(own_installation: Installation, item: dict[str, Any], number: int) -> list[list[Any]]:
    """Return the words of a page with their places."""
    return list(own_installation.api("GET", f"/api/documents/{item['document_id']}/pages/{number}/words")["words"])


@pytest.mark.parametrize(("row", "number"), [(2, 1), (30, 2), (49, 3)])
def test_a_row_is_located_on_its_page(
    page: Page, own_installation: Installation, item: dict[str, Any], row: int, number: int
) -> None:
    """The page scrolls to a mark around the row's own line, even where another row is identical."""
    cell(page, row, "amount").click()
    mark = page.locator("#zone .line")
    expect(mark).to_have_count(1)
    until(page, lambda: mark.evaluate(IN_SIGHT))
    where, top, bottom = mark.evaluate(PLACE)
    assert where == number
    inside = [one[0] for one in words(own_installation, item, number) if top <= (one[2] + one[4]) / 2 <= bottom]
    assert " ".join(inside).startswith(cell(page, row, "description").input_value())
    assert "".join(inside).endswith(cell(page, row, "amount").input_value().replace(".", ","))


def test_rows_are_marked_one_after_the_other(page: Page) -> None:
    """With the arrow keys; the table itself when leaving it, and nothing in another field."""
    cell(page, 23, "quantity").click()
    mark = page.locator("#zone .line")
    expect(mark).to_have_count(1)
    first = mark.evaluate(PLACE)
    page.keyboard.press("ArrowDown")
    until(page, lambda: mark.count() == 1 and mark.evaluate(PLACE) != first)
    assert mark.evaluate(PLACE)[0] == 2
    page.keyboard.press("Escape")
    expect(mark).to_have_count(0)
    until(page, lambda: page.locator("#zone .box[data-name=line_items]").evaluate("node => node.matches('.current')"))


def test_headings_and_sum_stay_visible(page: Page) -> None:
    """In every row; what does not fit into a cell is in its title."""
    last = cell(page, ROWS - 1, "description")
    last.click()
    for part in ("thead th >> nth=0", "tfoot .sum"):
        box = page.locator(f"#field-line_items {part}").bounding_box()
        frame = page.locator(".gridframe:has(#field-line_items)").bounding_box()
        assert box
        assert frame
        assert frame["y"] - 1 <= box["y"]
        assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 1
    expect(last).to_have_attribute("title", last.input_value())
    last.fill("Something else altogether, and longer")
    expect(last).to_have_attribute("title", "Something else altogether, and longer")


def test_tab_stops_once_at_a_table(page: Page) -> None:
    """At its row, where keys are commands; not at each of its cells."""
    page.locator("#field-purchase_order").focus()
    page.keyboard.press("Tab")
    page.wait_for_function("document.activeElement.dataset.name === 'line_items'")
    page.keyboard.press("Shift+Tab")
    page.wait_for_function("document.activeElement.id === 'field-purchase_order'")
    page.locator("#field-total").focus()
    page.keyboard.press("Tab")
    page.wait_for_function("document.activeElement.dataset.name === 'taxes'")
    page.keyboard.press("Tab")
    page.wait_for_function("document.activeElement.id === 'field-payment_terms'")
    page.locator("#fields [data-name=line_items]").focus()
    page.keyboard.press("e")
    page.wait_for_function("document.activeElement.matches('#field-line_items input')")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.dataset.name === 'line_items'")
