"""The fake model for every test of a real SDK, and an environment without real keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabellion.models.fake.serving import Serving, serving


@pytest.fixture(scope="session")
def fake() -> Iterator[Serving]:
    """A fake model that speaks both protocols, in its own process."""
    with serving() as running:
        yield running
