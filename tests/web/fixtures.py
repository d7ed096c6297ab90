"""Running applications for tests: one per module, one per test, one on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.live import Live, live


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One application on SQLite for all tests of a module."""
    folder = tmp_path_factory.mktemp("web")
    with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}) as one:
        yield one


@pytest.fixture
def web_any(tmp_path: Path, url: str) -> Iterator[Live]:
    """An application of its own for each test, once on SQLite and once on PostgreSQL."""
    with live(tmp_path, {"prod": url}) as one:
        yield one
