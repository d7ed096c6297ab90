"""Images and an orchestrator on loopback, for the tests of batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pipelines.batches.material import Images, serving_images
from tests.pipelines.documents.receiver import Receiver, receiving


@pytest.fixture
def images() -> Iterator[Images]:
    """Images on loopback."""
    with serving_images() as one:
        yield one


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An orchestrator that accepts callbacks."""
    with receiving() as one:
        yield one
