"""The pages are accessible: axe-core finds nothing serious, in light and dark, in English and French."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.browser import axe
from tests.browser.installation import ADDRESSES, Installation, Visitor
from tests.browser.screen import row

LOOKS = [("light", "en-GB"), ("dark", "fr-FR")]
STRANGERS = ["/sign-in", "/enter", "/docs"]


@pytest.fixture(autouse=True)
def _tool() -> None:
    try:
        axe.source()
    except axe.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def admins(installation: Installation, chromium: Browser) -> Iterator[dict[str, Visitor]]:
    """The admin's page for each combination by language; shared, since these tests only look."""
    with ExitStack() as stack:
        yield {
            locale: stack.enter_context(installation.visitor(chromium, color_scheme=scheme, locale=locale))
            for scheme, locale in LOOKS
        }


@pytest.fixture(scope="module")
def strangers(installation: Installation, chromium: Browser) -> Iterator[dict[str, Visitor]]:
    """The same without signing in."""
    with ExitStack() as stack:
        yield {
            locale: stack.enter_context(installation.stranger(chromium, color_scheme=scheme, locale=locale))
            for scheme, locale in LOOKS
        }


@pytest.mark.parametrize("locale", [locale for _, locale in LOOKS])
@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_has_no_serious_violation(
    installation: Installation, admins: dict[str, Visitor], path: str, locale: str
) -> None:
    """Contrast, names, roles and order, in light and in dark."""
    page = admins[locale].open(installation.address(path))
    assert page.locator("html").get_attribute("lang") == locale[:2]
    assert axe.findings(page) == []
    admins[locale].watch.check()


@pytest.mark.parametrize(("scheme", "locale"), LOOKS)
def test_dialogs_and_drawers_have_no_serious_violation(
    installation: Installation, chromium: Browser, scheme: str, locale: str
) -> None:
    """Dialogs, drawers, errors and a screen in use are as accessible as their pages."""
    item = installation.add_doubtful()
    with installation.visitor(chromium, color_scheme=scheme, locale=locale) as visitor:
        page = visitor.review(item)
        page.locator("#field-customer").fill("Somebody")
        page.locator(row("total")).focus()
        assert axe.findings(page) == [], "in use"
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
        for address in (f"/documents/{installation.documents['locked.pdf']}", "/documents/nothing", "/nowhere"):
            assert axe.findings(visitor.open(address)) == [], address


@pytest.mark.parametrize("locale", [locale for _, locale in LOOKS])
@pytest.mark.parametrize("path", STRANGERS)
def test_the_sign_in_pages_have_no_serious_violation(strangers: dict[str, Visitor], path: str, locale: str) -> None:
    """The pages before signing in are accessible too."""
    assert axe.findings(strangers[locale].open(path)) == []
    strangers[locale].watch.check()


def test_a_violation_is_found(chromium: Browser) -> None:
    """An image without a text and text without contrast are both reported."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_content("<!doctype html><html lang='en'><title>x</title><main><img src='data:,'>"
                         "<p style='color: #ccc; background: #fff'>hardly there</p></main>")  # fmt: skip
        found = axe.findings(page)
    assert any("image-alt at img" in one for one in found)
    assert any("color-contrast at p" in one for one in found)
