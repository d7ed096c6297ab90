"""What `verify` finds in website jobs: analyses without a job, damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion import Store
from tabellion.pipelines.websites.verification import verify_websites
from tabellion.storage.blobs import Blobs
from tests.pipelines.websites.test_retention import add_job
from tests.workers import ask

pytestmark = pytest.mark.usefixtures("at_once")


def test_jobs_and_their_files(url: str, tmp_path: Path) -> None:
    """A sound one is clean; a damaged file, a missing one and an analysis without its job are found."""
    blobs = Blobs(tmp_path)

    async def story(store: Store) -> None:
        hashes = await add_job(store, blobs, "one", "completed", 1, "info", "icon")
        await add_job(store, blobs, "open", "prompt-forming", 1)
        for files in (0, 5, None):
            assert await verify_websites(store, blobs, files=files) == []
        blobs.path(hashes[0]).write_bytes(b"other")
        blobs.path(hashes[1]).unlink()
        found = await verify_websites(store, blobs, files=None)
        assert [(one.kind, one.where) for one in found] == [("file_damaged", "website-analysis/one")] * 2
        assert {"missing" in one.what for one in found} == {True, False}
        await store.database.fetch("DELETE FROM website_jobs WHERE id = 'one'")
        found = await verify_websites(store, blobs)
        assert [(one.kind, one.where) for one in found] == [("job_lost", "website-models/one-m")]

    ask(url, story)
