"""Everybody can use the pages: axe-core finds nothing serious, in light and dark, in English and French."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.browser import axe
from tests.browser.site import ADDRESSES, Site, Visitor

LOOKS = [("light", "en-GB"), ("dark", "fr-FR")]
STRANGERS = ["/sign-in", "/enter", "/docs"]


@pytest.fixture(autouse=True)
def _tool() -> None:
    try:
        axe.source()
    except axe.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def admins(site: Site, chromium: Browser) -> Iterator[dict[str, Visitor]]:
    """The admin before each look, by its language; in one window each, since these tests only look."""
    with ExitStack() as stack:
        yield {
            locale: stack.enter_context(site.visitor(chromium, color_scheme=scheme, locale=locale))
            for scheme, locale in LOOKS
        }


@pytest.fixture(scope="module")
def strangers(site: Site, chromium: Browser) -> Iterator[dict[str, Visitor]]:
    """The same, of somebody who is not signed in."""
    with ExitStack() as stack:
        yield {
            locale: stack.enter_context(site.stranger(chromium, color_scheme=scheme, locale=locale))
            for scheme, locale in LOOKS
        }


@pytest.mark.parametrize("locale", [locale for _, locale in LOOKS])
@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_has_no_grave_fault(site: Site, admins: dict[str, Visitor], path: str, locale: str) -> None:
    """Contrast, names, roles, order: nothing that keeps somebody from using it, in light and in dark."""
    page = admins[locale].open(site.address(path))
    assert page.locator("html").get_attribute("lang") == locale[:2]
    assert axe.findings(page) == []
    admins[locale].watch.check()


@pytest.mark.parametrize(("scheme", "locale"), LOOKS[1:])
def test_what_opens_on_a_page_has_no_grave_fault(site: Site, chromium: Browser, scheme: str, locale: str) -> None:
    """Dialogs, drawers, errors and a screen in the middle of work are as usable as the pages they open on."""
    item = site.doubtful()
    with site.visitor(chromium, color_scheme=scheme, locale=locale) as visitor:
        page = visitor.review(item)
        assert axe.findings(page) == [], "claimed"
        for key, opened in (("t", "#drawer"), ("?", "dialog"), ("Alt+r", "dialog"), ("p", "dialog")):
            page.keyboard.press(key)
            page.locator(opened).wait_for()
            visitor.watch.settle(page)
            assert axe.findings(page) == [], f"after {key}"
            page.keyboard.press("Escape")
            page.locator(opened).wait_for(state="hidden")
        page.locator("#field-invoice_date").fill("the day after")
        page.locator("[data-name=invoice_date] [role=alert]").wait_for()
        assert axe.findings(page) == [], "with what cannot be read"
        page.locator("#field-invoice_date").press("Control+z")
        page = visitor.open("/people")
        page.locator("#add").click()
        assert axe.findings(page) == [], "with a form"
        page = visitor.open("/queue")
        page.locator(".score").first.click()
        assert axe.findings(page) == [], "with an explanation"
        visitor.watch.expect(404, 409, 422)
        for address in (f"/documents/{site.documents['locked.pdf']}", "/documents/nothing", "/nowhere"):
            assert axe.findings(visitor.open(address)) == [], address


@pytest.mark.parametrize("locale", [locale for _, locale in LOOKS])
@pytest.mark.parametrize("path", STRANGERS)
def test_the_way_in_has_no_grave_fault(strangers: dict[str, Visitor], path: str, locale: str) -> None:
    """Nor have the pages that people see before anybody knows who they are."""
    assert axe.findings(strangers[locale].open(path)) == []
    strangers[locale].watch.check()


def test_a_fault_is_found(chromium: Browser) -> None:
    """A picture without words and letters that are hardly there are both told of."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_content("<!doctype html><html lang='en'><title>x</title><main><img src='data:,'>"
                         "<p style='color: #ccc; background: #fff'>hardly there</p></main>")  # fmt: skip
        found = axe.findings(page)
    assert any("image-alt at img" in one for one in found)
    assert any("color-contrast at p" in one for one in found)
