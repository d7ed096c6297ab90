"""The review screen as tests see it: rows of fields, the focus, the server's fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.installation import Visitor


def row(name: str) -> str:
    """Return a field's row."""
    return f"#fields [data-name={name}]"


def wait_for_focus(page: Page, selector: str) -> None:
    """Wait until an element has the focus."""
    page.wait_for_function("selector => document.activeElement?.matches(selector)", arg=selector)


def field(visitor: Visitor, item: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the server's version of a field."""
    return dict(next(one for one in visitor.whole(item)["fields"] if one["name"] == name))


def correct_total(page: Page) -> None:
    """Correct the total of a doubtful invoice."""
    total = page.locator("#field-total")
    total.fill(f"{float(total.input_value()) - 10:.2f}")
    expect(page.locator("#left")).to_have_text("all done")
