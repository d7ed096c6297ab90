"""What `tabellion verify` finds in batches: each violation is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.pipelines.batches.settings import BatchSettings
from tabellion.pipelines.batches.verification import verify_batches
from tests.pipelines.batches.material import (
    Images,
    chunk_of,
    rows,
    settings_in,
    stage,
    submit,
    work,
)
from tests.workers import ask


@pytest.fixture
def worked(url: str, tmp_path: Path, images: Images) -> BatchSettings:
    """Two chunks that have published two versions of the same entities."""
    settings = settings_in(tmp_path)
    for chunk in ("0", "1"):
        request = chunk_of(images.url, images.url, chunk=chunk)
        stage(settings, request["pis"])
        submit(url, settings, request)
    work(url, settings, deliver=False)
    return settings


def kinds(url: str, settings: BatchSettings) -> list[str]:
    """Return the kinds of violations, files included."""
    return [found.kind for found in ask(url, lambda store: verify_batches(store, settings.content, files=None))]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("history_forked", "UPDATE batch_versions SET previous = 'other' WHERE pi = 'pi0' AND version = 2"),
        ("tip_lost", "UPDATE batch_entities SET tip = 'other' WHERE pi = 'pi1'"),
        ("refs_open", "UPDATE batch_refs SET status = 'pending' WHERE filename = '0-0.png.ref.json'"),
        ("content_lost", "UPDATE batch_refs SET result_cid = 'bafkother' WHERE filename = '1-1.png.ref.json'"),
    ],
)
def test_a_violation_is_found(url: str, worked: BatchSettings, kind: str, change: str) -> None:
    """Nothing before it was planted, and only its kind afterwards."""
    assert kinds(url, worked) == []
    rows(url, change)
    assert set(kinds(url, worked)) == {kind}
