"""What tests of registries share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.registries.visiting import LocalInstallation, Visiting, visiting


@pytest.fixture(scope="module")
def shared() -> Iterator[Visiting]:
    """One portal and one browser for a module."""
    with visiting() as one:
        yield one


@pytest.fixture
def visits(shared: Visiting) -> Visiting:
    """The same, with a portal that has nothing wrong with it."""
    shared.reset()
    return shared


@pytest.fixture
def installation(visits: Visiting, tmp_path: Path) -> LocalInstallation:
    """An installation on SQLite."""
    return LocalInstallation.open(visits, tmp_path / "data")
