"""Submitting websites: one open job for each URL and type, and a backlog that ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.net.guard import Blocked
from tabellion.pipelines.websites.settings import UnknownName
from tabellion.pipelines.websites.submit import AlreadyOpen, BacklogFull, submit
from tests.engine.made_tables import asynchronous
from tests.pipelines.websites.sites import prepared, rows, settings_in, work

URL = "https://birch.example/"


async def set_state(store: Store, status: str, *, in_progress: bool) -> None:
    yes = "TRUE" if in_progress else "FALSE"
    await store.database.fetch(f"UPDATE website_jobs SET status = '{status}', \"inProgress\" = {yes}")


@asynchronous
async def test_a_second_submission_is_refused_with_the_first(url: str, tmp_path: Path) -> None:
    """By URL and type, in any spelling; the reason says where the first one is; an ended one is in nobody's way."""
    store, settings = await prepared(url), settings_in(tmp_path)
    first = await submit(store, settings, URL)
    other = await submit(store, settings, URL, type="seo")
    assert other != first
    for status, in_progress, reason in (
        ("not-started", False, "already_queued"),
        ("not-started", True, "already_processing"),
        ("prompt-forming", False, "in_another_phase"),
        ("model-analysis", True, "already_processing"),
        ("model-analysis", False, "in_another_phase"),
    ):
        await set_state(store, status, in_progress=in_progress)
        with pytest.raises(AlreadyOpen) as refused:
            await submit(store, settings, "BIRCH.example")
        assert refused.value.job.id == first
        assert refused.value.job.reason == reason
        assert first in str(refused.value)
    await set_state(store, "completed", in_progress=False)
    assert await submit(store, settings, URL) not in (first, other)
    await store.close()


def test_of_many_submissions_at_once_one_is_taken(url: str, tmp_path: Path) -> None:
    """Twenty callers with the same website: one row, nineteen refusals that name it."""

    async def go() -> tuple[set[str], set[str]]:
        settings = settings_in(tmp_path)
        stores = [await prepared(url) for _ in range(5)]

        async def one(number: int) -> str | AlreadyOpen:
            try:
                return await submit(stores[number % 5], settings, URL)
            except AlreadyOpen as refused:
                return refused

        results = await asyncio.gather(*map(one, range(20)))
        for store in stores:
            await store.close()
        taken = {result for result in results if isinstance(result, str)}
        return taken, {result.job.id for result in results if isinstance(result, AlreadyOpen)}

    taken, named = asyncio.run(go())
    assert len(taken) == 1
    assert named == taken
    assert len(rows(url)) == 1


def test_a_full_backlog_is_refused_until_it_is_worked_off(url: str, tmp_path: Path) -> None:
    """The limit counts jobs that wait for their visit; the refusal says when to come back."""
    settings = settings_in(tmp_path, backlog=20)

    async def fill(start: int) -> BacklogFull:
        store = await prepared(url)
        try:
            for number in range(start, start + 20):
                await submit(store, settings, f"https://site{number}.example/")
            with pytest.raises(BacklogFull) as refused:
                await submit(store, settings, URL)
            return refused.value
        finally:
            await store.close()

    first = asyncio.run(fill(0))
    assert (first.limit, first.retry_after) == (20, 300)
    work(url, settings)
    assert asyncio.run(fill(20)).retry_after < 300, "estimated from what was worked off"


@pytest.mark.parametrize(
    ("options", "field"),
    [({"type": "nonsense"}, "type"), ({"models": ["gpt-9"]}, "models"), ({"models": ["local", "gpt-9"]}, "models")],
)
def test_what_does_not_exist_is_named(
    sqlite_url: str, tmp_path: Path, options: dict[str, list[str]], field: str
) -> None:
    """An unknown type or model is refused at once, with the known ones."""

    async def go() -> None:
        store = await prepared(sqlite_url)
        with pytest.raises(UnknownName) as refused:
            await submit(store, settings_in(tmp_path), URL, **options)  # type: ignore[arg-type]
        assert refused.value.field == field
        assert refused.value.known
        with pytest.raises(Blocked):
            await submit(store, settings_in(tmp_path), "ftp://birch.example")
        await store.close()

    asyncio.run(go())
    assert rows(sqlite_url) == []
