"""What tests of visits share."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.robots import ROBOTS


@pytest.fixture(autouse=True)
def fresh_robots() -> None:
    """Forgets robots.txt files of earlier tests: a port of loopback may belong to another site now."""
    ROBOTS.clear()
