"""A fake model for the duration of a block."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.testing import serving
from tests.models.fake.samples import generate


def test_it_runs_within_the_block(tmp_path: Path) -> None:
    """Its log stays where it was requested."""
    with serving(log=tmp_path / "log", knobs="latency=0") as fake:
        assert generate(fake.url, "hello").status == 200
        assert fake.environment["OPENAI_BASE_URL"] == f"{fake.url}/v1"
    with pytest.raises(ConnectionError):
        generate(fake.url, "hello")
    assert len(fake.lines()) == 1


def test_a_server_that_cannot_start_says_so() -> None:
    """The reason is on standard error."""
    with pytest.raises(RuntimeError, match="did not start"), serving(knobs="nonsense"):
        pass
