"""A fake model for tests of the OCR pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabellion.models.fake.serving import Serving, serving


@pytest.fixture
def fake() -> Iterator[Serving]:
    """A fake model of the test's own, whose log is empty."""
    with serving() as running:
        yield running
