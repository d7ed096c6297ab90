"""One sandbox for all tests of reading, so that the engines are loaded once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabellion.reading.sandbox import Sandbox
from tests import forking


@pytest.fixture(scope="package", autouse=True)
def real_children() -> Iterator[None]:
    """Start the children of sandboxes as outside tests: these tests are about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forking.Popen, "forks_readers", False)
        yield


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A pool of one child that may also run the tasks of the tests."""
    with Sandbox(size=1, allowed=("tabellion.reading.", "tests.reading.")) as pool:
        yield pool
