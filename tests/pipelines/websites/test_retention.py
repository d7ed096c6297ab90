"""Old website jobs are deleted with their analyses and files; files that other jobs have stay."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.engine.retention import clear_leftovers
from tabellion.errors import Unreachable
from tabellion.pipelines.websites import tables
from tabellion.pipelines.websites.files import save_bytes
from tabellion.pipelines.websites.retention import GRACE, JobsRule
from tabellion.storage.blobs import Blobs
from tests.workers import ask

DAY = 86_400.0


async def add_job(store: Store, blobs: Blobs, id: str, status: str, days: float, *texts: str) -> list[str]:  # noqa: A002
    """Insert a job of this age whose files have these contents; returns their hashes."""
    await tables.SCHEMA.prepare(store)
    hashes = [await save_bytes(blobs, text.encode()) for text in texts]
    for sha256 in hashes:
        then = time.time() - GRACE - 60
        os.utime(blobs.path(sha256), (then, then))
    info, favicon = [*hashes, None, None][:2]
    ago = f"{time.time() - days * DAY}" if store.dialect == "sqlite" else f"now() - interval '{days} days'"
    await store.database.transact(
        [
            (
                f"""INSERT INTO website_jobs (id, url, normalized_url, type, models, status, info_file, favicon_file,
  updated_at) VALUES ($1, 'u', $1, 'seo', '[]', $2, $3, $4, {ago})""",
                [id, status, info, favicon],
            ),
            ("INSERT INTO website_analyses (id, job_id, model) VALUES ($1, $2, 'm')", [f"{id}-m", id]),
        ]
    )
    return hashes


def test_old_jobs_leave_nothing_behind(url: str, tmp_path: Path) -> None:
    """Those that have ended; open ones stay however old, and so do files that another job has."""
    blobs = Blobs(tmp_path / "websites")

    async def story(store: Store) -> None:
        own, shared = await add_job(store, blobs, "old", "completed", 100, "own", "icon")
        await add_job(store, blobs, "failed", "failed", 100)
        [young, _] = await add_job(store, blobs, "young", "completed", 1, "young", "icon")
        [open_one] = await add_job(store, blobs, "open", "model-analysis", 100, "open")
        rule = JobsRule(blobs, 30 * DAY)
        assert (await rule.step(store, None, dry_run=True)).removed == 2
        result = await rule.step(store, None)
        assert (result.removed, result.position) == (2, None)
        assert result.oldest == pytest.approx(100 * DAY, abs=60)
        jobs = await store.database.fetch("SELECT id FROM website_jobs ORDER BY id")
        assert [row["id"] for row in jobs] == ["open", "young"]
        analyses = await store.database.fetch("SELECT job_id FROM website_analyses ORDER BY job_id")
        assert [row["job_id"] for row in analyses] == ["open", "young"]
        assert [await blobs.has(one) for one in (own, shared, young, open_one)] == [False, True, True, True]
        assert await store.database.fetch("SELECT * FROM tabellion_leftovers") == []

    ask(url, story)


def test_a_file_that_has_just_arrived_is_left_until_later(url: str, tmp_path: Path) -> None:
    """A job under way may have stored the same content, and its row does not have it yet."""
    blobs = Blobs(tmp_path / "websites")

    async def story(store: Store) -> None:
        [own] = await add_job(store, blobs, "old", "completed", 100, "own")
        os.utime(blobs.path(own))
        rule = JobsRule(blobs, 30 * DAY)
        assert (await rule.step(store, None)).removed == 1
        assert await blobs.has(own)
        assert len(await store.database.fetch("SELECT * FROM tabellion_leftovers")) == 1
        then = time.time() - GRACE - 60
        os.utime(blobs.path(own), (then, then))
        await let_pass(store)
        assert await clear_leftovers(store, [rule]) == 1
        assert not await blobs.has(own)

    ask(url, story)


async def let_pass(store: Store) -> None:
    """Make every leftover due."""
    past = "0.0" if store.dialect == "sqlite" else "to_timestamp(0)"
    await store.database.fetch(f"UPDATE tabellion_leftovers SET due_at = {past}")


@pytest.mark.parametrize("place", ["prune.pre_commit", "prune.post_commit", "prune.mid_files"])
def test_a_crash_finishes_later(url: str, tmp_path: Path, arm: Callable[[str], None], place: str) -> None:
    """Wherever it happens."""
    blobs = Blobs(tmp_path / "websites")
    rule = JobsRule(blobs, 30 * DAY)

    async def story(store: Store) -> None:
        hashes = await add_job(store, blobs, "old", "completed", 100, "own", "icon")
        [young] = await add_job(store, blobs, "young", "completed", 1, "young")
        arm(f"{place}:raise")
        with pytest.raises(Unreachable):
            await rule.step(store, None)
        arm("")
        await let_pass(store)
        await rule.step(store, None)
        await clear_leftovers(store, [rule])
        assert [row["id"] for row in await store.database.fetch("SELECT id FROM website_jobs")] == ["young"]
        assert [await blobs.has(one) for one in (*hashes, young)] == [False, False, True]
        assert await store.database.fetch("SELECT * FROM tabellion_leftovers") == []

    ask(url, story)
