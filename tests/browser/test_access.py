"""Everybody can use the pages: axe-core finds nothing serious, in light and dark, in English and French."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser import axe
from tests.browser.site import ADDRESSES, Site

LOOKS = [("light", "en-GB"), ("dark", "fr-FR")]
STRANGERS = ["/sign-in", "/enter", "/docs"]


@pytest.fixture(autouse=True)
def _tool() -> None:
    try:
        axe.source()
    except axe.UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("scheme", "locale"), LOOKS)
@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_has_no_grave_fault(site: Site, chromium: Browser, path: str, scheme: str, locale: str) -> None:
    """Contrast, names, roles, order: nothing that keeps somebody from using it."""
    with site.visitor(chromium, color_scheme=scheme, locale=locale) as visitor:
        page = visitor.open(site.address(path))
        assert page.locator("html").get_attribute("lang") == locale[:2]
        assert axe.findings(page) == []


@pytest.mark.parametrize(("scheme", "locale"), LOOKS)
@pytest.mark.parametrize("path", STRANGERS)
def test_the_way_in_has_no_grave_fault(site: Site, chromium: Browser, path: str, scheme: str, locale: str) -> None:
    """Nor have the pages that people see before anybody knows who they are."""
    with site.stranger(chromium, color_scheme=scheme, locale=locale) as visitor:
        assert axe.findings(visitor.open(path)) == []


def test_a_fault_is_found(chromium: Browser) -> None:
    """A picture without words and letters that are hardly there are both told of."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_content("<!doctype html><html lang='en'><title>x</title><main><img src='data:,'>"
                         "<p style='color: #ccc; background: #fff'>hardly there</p></main>")  # fmt: skip
        found = axe.findings(page)
    assert any("image-alt at img" in one for one in found)
    assert any("color-contrast at p" in one for one in found)
