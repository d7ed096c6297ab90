"""The review screen, as tests look at it: rows of fields, who has the focus, what the server says of a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.site import Visitor


def row(name: str) -> str:
    """A field's row."""
    return f"#fields [data-name={name}]"


def on(page: Page, selector: str) -> None:
    """Waits until something has the focus."""
    page.wait_for_function("selector => document.activeElement?.matches(selector)", arg=selector)


def field(visitor: Visitor, item: dict[str, Any], name: str) -> dict[str, Any]:
    """What the server says of a field."""
    return dict(next(one for one in visitor.whole(item)["fields"] if one["name"] == name))


def mended(page: Page) -> None:
    """The total of a doubtful invoice made right."""
    total = page.locator("#field-total")
    total.fill(f"{float(total.input_value()) - 10:.2f}")
    expect(page.locator("#left")).to_have_text("all done")
