"""A real Chromium and an installation to visit, or one sentence that says why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import launched, why_not
from tests.browser.site import Site, Visitor, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

expect.set_options(timeout=20_000)  # milliseconds: of a machine that has other things to do as well


# Of this folder only: while the browser is there, this thread has a running loop, which other tests need for their own.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The browser, started once."""
    if sentence := why_not():
        pytest.skip(sentence)
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation with sample documents, for tests that leave it as others can use it."""
    with opened(tmp_path_factory.mktemp("site") / "data") as one:
        one.documents = one.fill()
        yield one


@pytest.fixture
def visitor(site: Site, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in; what no page may do fails the test."""
    with site.visitor(chromium) as one:
        yield one


@pytest.fixture(scope="module")
def own(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation whose queue nobody else works on."""
    with opened(tmp_path_factory.mktemp("own") / "data") as one:
        yield one


@pytest.fixture
def reviewer(own: Site, chromium: Browser) -> Iterator[Visitor]:
    """Somebody at it."""
    with own.visitor(chromium) as one:
        yield one
