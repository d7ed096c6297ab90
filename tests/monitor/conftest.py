"""A store on each database, with a clock that only the test moves."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.testing import Clock


@pytest.fixture
def clock() -> Clock:
    """Noon of a day in 2026."""
    return Clock(1_772_366_400.0)


@pytest.fixture
def store(url: str, clock: Clock) -> Store:
    """A store on an empty SQLite file, then on an empty PostgreSQL 18 database."""
    return Store(url, clock=clock, durable=False)
