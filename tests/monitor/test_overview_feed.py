"""One query for all watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tabellion import Store
from tabellion.engine import controls
from tabellion.errors import Unreachable
from tabellion.monitor.overview import Overview, OverviewPicture
from tabellion.monitor.overview_feed import OverviewFeed
from tabellion.monitor.view import QueueView
from tests.engine.made_tables import asynchronous, tasks
from tests.monitor.settled import settle


class Counted(Overview):
    """Counts its queries, and fails on request."""

    looks = 0
    down: Exception | None = None

    async def look(self) -> OverviewPicture:
        """Count one more."""
        self.looks += 1
        if self.down is not None:
            raise self.down
        return await super().look()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the condition."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@asynchronous
async def test_many_watchers_share_one_query(store: Store) -> None:
    """Each starts with the current state, is told about changes, and gets nothing while nothing changes."""
    queue = await tasks(store, 3)
    overview = Counted("prod", store, [QueueView(queue)])
    lookout = OverviewFeed(overview, every=0.01)
    async with lookout.watch() as one, lookout.watch() as other:
        for watch in (one, other):
            first: Any = await watch.next(10)
            assert first is not None
            assert first["queues"][0]["done"] == 0
        looked = overview.looks
        await until(lambda: overview.looks > looked + 2)
        assert await one.next(0.01) is None
        await settle(store, queue)
        for watch in (one, other):
            result: Any = await watch.next(10)
            while result is not None and result["queues"][0]["done"] == 0:
                result = await watch.next(10)  # the claim was news already
            assert result is not None
            assert result["queues"][0]["done"] == 1
        async with lookout.watch() as late:
            assert await late.next(10) is not None
    task = lookout._task
    assert task is not None
    await until(task.done)  # nobody watches
    async with lookout.watch() as again:
        assert await again.next(10) is not None
    await lookout.close()


@asynchronous
async def test_a_request_within_a_moment_uses_the_last_query(store: Store) -> None:
    """Many requests at once cost one query; a change of one's own is visible."""
    queue = await tasks(store, 3)
    overview = Counted("prod", store, [QueueView(queue)])
    lookout = OverviewFeed(overview, every=1000.0)
    pictures = await asyncio.gather(*(lookout.picture() for _ in range(20)))
    assert overview.looks == 1
    assert all(picture is pictures[0] for picture in pictures)
    await controls.pause(store, queue, "lunch")
    assert (await lookout.picture())["queues"][0]["paused"] is False
    lookout.forget(queue.name)
    assert (await lookout.picture())["queues"][0]["paused"] is True
    assert overview.looks == 2


@asynchronous
async def test_a_change_during_a_query_is_not_hidden_by_it(store: Store) -> None:
    """A query that started before the change does not answer for after it."""
    queue = await tasks(store, 3)
    overview = Counted("prod", store, [QueueView(queue)])
    lookout = OverviewFeed(overview, every=1000.0)
    looking = asyncio.create_task(lookout.picture())
    await asyncio.sleep(0)
    lookout.forget(queue.name)
    await looking
    await lookout.picture()
    assert overview.looks == 2


@pytest.mark.parametrize("error", [Unreachable("gone"), KeyError("a mistake in a pipeline's figure")])
@asynchronous
async def test_watchers_are_told_when_the_overview_fails_and_recovers(store: Store, error: Exception) -> None:
    """The failure is an update, and so is its end, whatever the reason."""
    queue = await tasks(store, 3)
    overview = Counted("prod", store, [QueueView(queue)])
    lookout = OverviewFeed(overview, every=0.01)
    async with lookout.watch() as watch:
        assert "queues" in (await watch.next(10) or {})
        overview.down = error
        assert await watch.next(10) == {"problem": type(error).__name__}
        overview.down = None
        assert "queues" in (await watch.next(10) or {})
    await lookout.close()
