"""The table that worker tests use, on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.table_owner import Owner, owning


@pytest.fixture
def owner(url: str) -> Iterator[Owner]:
    """The table with its owner."""
    with owning(url) as owner:
        yield owner
