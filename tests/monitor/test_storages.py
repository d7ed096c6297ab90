"""Buckets of files as `tabellion doctor` sees them."""

from __future__ import annotations

import socket

import pytest

from tabellion.monitor import storages
from tabellion.monitor.storages import examine_storages
from tests.bucket import BUCKET, VARIABLES


def test_a_bucket_that_exists_can_be_reached(s3_url: str) -> None:
    """Folders are checked elsewhere; a bucket that does not exist is not one without the requested file."""
    found = examine_storages({"blobs": s3_url, "lake": "/srv/lake"})
    assert [(one.level, one.where) for one in found] == [("ok", "blobs")]
    [missing] = examine_storages({"lake": s3_url.replace(BUCKET, "nobucket", 1)})
    assert (missing.level, missing.where) == ("error", "lake")
    assert "there is no such bucket" in missing.what


def test_a_bucket_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the command does not wait for the end of the request."""
    monkeypatch.setattr(storages, "SECONDS", 0.1)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        [finding] = examine_storages({"blobs": "s3://bkt/x"})
    assert (finding.level, finding.where) == ("error", "blobs")
    assert "has not answered" in finding.what
