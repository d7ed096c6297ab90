"""A user without a mouse: moves everywhere with Tab, and any use of a pointer fails the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.watch import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOST = 120  #: stops on a page; more, and nobody would get there
NO_POINTER = """for (const type of ["pointerdown", "mousedown", "touchstart"])
    addEventListener(type, () => console.error("a pointer was used"), true);"""
#: A busy browser: a page hears that its dialog was closed when the test calls `tellClosed`, not before.
CLOSED_LATE = """let closed = null;
    addEventListener("close", (event) => {
        if (event.detail === "late") return;
        event.stopImmediatePropagation();
        closed = event.target;
    }, {capture: true});
    window.tellClosed = () => closed !== null && closed.dispatchEvent(new CustomEvent("close", {detail: "late"}));"""


class Keyboard:
    """The keyboard of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.context.add_init_script(NO_POINTER)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type a text."""
        self.page.keyboard.type(text)

    def tab_to(self, selector: str) -> None:
        """Press Tab until an element matching this has the focus."""
        for _ in range(MOST):
            if self.is_on(selector):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"no Tab leads to {selector} on {self.page.url}")

    def is_on(self, selector: str) -> bool:
        """Return whether an element matching this has the focus."""
        return bool(self.page.evaluate("selector => Boolean(document.activeElement?.matches(selector))", selector))

    def wait_for(self, selector: str) -> None:
        """Wait until an element matching this has the focus."""
        until(self.page, lambda: self.is_on(selector))
