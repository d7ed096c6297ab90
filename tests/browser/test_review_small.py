"""The review screen with little room: zoomed to 200 %, and on a tablet in portrait."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, Page, expect

from tests.browser.installation import Installation
from tests.browser.test_review import IN_SIGHT
from tests.browser.watch import until

#: Buttons of which a part is covered or cut off.
COVERED = """() => [...document.querySelectorAll(".review-footer button, .pagetools button")].filter(one => {
    const {left, right, top, bottom} = one.getBoundingClientRect();
    if (!one.checkVisibility() || !right) return false;
    const corners = [[left + 3, top + 3], [right - 3, bottom - 3]];
    return corners.some(([x, y]) => !one.contains(document.elementFromPoint(x, y)));
}).map(one => one.dataset.verb)"""
#: Inputs that can be seen whole, and are covered by nothing.
SEEN = """() => [...document.querySelectorAll("#fields .slot .entry > *")].filter(one => {
    const {left, top, bottom} = one.getBoundingClientRect();
    const edges = [[left + 9, top + 3], [left + 9, bottom - 3]];
    return edges.every(([x, y]) => one.contains(document.elementFromPoint(x, y)));
}).length"""


@pytest.fixture(scope="module")
def item(own_installation: Installation) -> dict[str, Any]:
    """A document that needs review."""
    return own_installation.add_doubtful()


def box(node: Locator) -> FloatRect:
    """Return the position of an element."""
    expect(node).to_be_visible()
    found = node.bounding_box()
    assert found
    return found


def assert_fits(page: Page) -> None:
    """Assert that nothing is outside the window."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "document.querySelector('.formzone').scrollWidth <= document.querySelector('.formzone').clientWidth"
    )


@pytest.mark.parametrize(
    ("size", "locale"), [((640, 400), "fr-FR"), ((853, 533), "en-GB"), ((960, 540), "fr-FR")],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)  # fmt: skip
def test_a_zoomed_screen_shows_fields_and_page(
    own_installation: Installation, chromium: Browser, item: dict[str, Any], size: tuple[int, int], locale: str
) -> None:
    """Several fields at once, the current one's place large enough to read, and every button complete."""
    shape = {"width": size[0], "height": size[1]}
    with own_installation.visitor(chromium, viewport=shape, device_scale_factor=2, locale=locale) as visitor:
        page = visitor.review(item)
        for name in ("invoice_number", "total", "vendor"):
            entry = page.locator(f"#field-{name}")
            page.locator(f"#fields [data-name={name}]").focus()
            mark = page.locator(f"#zone .box[data-name={name}]")
            until(page, lambda mark=mark: mark.evaluate(IN_SIGHT))  # type: ignore[misc]
            assert box(mark)["height"] >= 14, name
            assert page.evaluate(COVERED) == []
            foot, seen = box(page.locator(".review-footer")), box(entry)
            assert seen["y"] + seen["height"] <= foot["y"], name
            assert entry.evaluate("""node => { const {left, top, height} = node.getBoundingClientRect();
                return node.contains(document.elementFromPoint(left + 9, top + height / 2)); }"""), name
        page.locator("#fields [data-name=currency]").focus()  # which has little to say
        assert page.evaluate(SEEN) >= 3
        assert_fits(page)


@pytest.mark.parametrize("size", [(768, 1024), (640, 400)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_notes_hide_no_button(
    own_installation: Installation, chromium: Browser, item: dict[str, Any], size: tuple[int, int]
) -> None:
    """They are above the footer."""
    with own_installation.visitor(chromium, viewport={"width": size[0], "height": size[1]}) as visitor:
        visitor.page.clock.install()
        page = visitor.review(item)
        page.locator("#field-customer").fill("Somebody")
        page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)  # the note would be gone after two seconds
        page.keyboard.press("Control+s")
        note = page.locator("#toasts .toast").last
        expect(note).to_be_visible()
        seen = box(note)
        assert seen["y"] + seen["height"] <= box(page.locator(".review-footer"))["y"]
        assert page.evaluate(COVERED) == []
