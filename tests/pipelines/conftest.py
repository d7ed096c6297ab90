"""Lakes for tests: a folder, and a bucket of a real S3 server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.pipelines.documents.lake import Lake
from tests.pipelines.bucket import BUCKET, VARIABLES, CannotRun, seaweed

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """A real S3 server for the whole run, where it can run."""
    try:
        with seaweed() as url:
            yield url
    except CannotRun as why:
        pytest.skip(str(why))


@pytest.fixture
def s3_url(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of this test's own in a bucket, with the variables that lead to it."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    return f"s3://{BUCKET}/test{next(_numbers)}"


@pytest.fixture(params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """An empty lake of this test's own, once in a folder and once in a bucket."""
    if request.param == "folder":
        return Lake(tmp_path / "lake")
    return Lake(str(request.getfixturevalue("s3_url")))
