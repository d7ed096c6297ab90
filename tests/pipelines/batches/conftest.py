"""Images on loopback and an application, for the tests of batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.batches.live import LiveBatches, live_batches
from tests.pipelines.batches.material import Images, serving_images


@pytest.fixture
def images() -> Iterator[Images]:
    """Images on loopback."""
    with serving_images() as one:
        yield one


@pytest.fixture
def web(tmp_path: Path, url: str) -> Iterator[LiveBatches]:
    """An application for each test."""
    with live_batches(tmp_path, {"prod": url}) as one:
        yield one
