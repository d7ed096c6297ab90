"""A real Chromium and an installation to visit, or one sentence that says why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import launched, why_not
from tests.browser.installation import Installation, Visitor, open_installation

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
def installation(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with sample documents, for tests that leave it usable for others."""
    with open_installation(tmp_path_factory.mktemp("site") / "data") as one:
        one.documents = one.fill()
        yield one


@pytest.fixture
def visitor(installation: Installation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in; forbidden browser events fail the test."""
    with installation.visitor(chromium) as one:
        yield one


@pytest.fixture(scope="module")
def own_installation(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose queue no other test uses."""
    with open_installation(tmp_path_factory.mktemp("own") / "data") as one:
        yield one


@pytest.fixture
def reviewer(own_installation: Installation, chromium: Browser) -> Iterator[Visitor]:
    """A reviewer at that installation."""
    with own_installation.visitor(chromium) as one:
        yield one
