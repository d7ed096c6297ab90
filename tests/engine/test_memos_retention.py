"""Old memos are removed; those of calls that are under way, and of jobs that may ask again, stay."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine.memo import Asker, Memos
from tabellion.engine.memos_retention import MemosRule
from tabellion.engine.settlement import Settlement
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, rows, tasks

DAY = 86_400.0


async def keys(store: Store) -> list[str]:
    """Return the keys of all memos."""
    return [row["key"] for row in await rows(store, "tabellion_memos", "key")]


@asynchronous
async def test_old_answers_are_removed(store: Store, clock: Clock) -> None:
    """Counted from when they were asked for; a question without an answer goes, too, once nobody waits for it."""
    memos = Memos(store)
    for key in ("answered", "given up"):
        await memos.recall(key, Asker("", "", key), "m", 60)
    await memos.remember("answered", Asker("", "", "answered"), "yes", 0.5)
    await memos.give_up("given up", Asker("", "", "given up"))
    clock.advance(2 * DAY)
    await memos.recall("young", Asker("", "", "y"), "m", 60)
    rule = MemosRule(DAY)
    found = await rule.step(store, None, dry_run=True)
    assert found.removed == 2
    assert found.oldest == pytest.approx(2 * DAY)
    assert len(await keys(store)) == 3
    assert (await rule.step(store, None)).removed == 2
    assert await keys(store) == ["young"]


@asynchronous
async def test_a_call_under_way_keeps_its_memo(store: Store, clock: Clock) -> None:
    """Until its lease has ended."""
    memos = Memos(store)
    await memos.recall("slow", Asker("", "", "t"), "m", 3 * DAY)
    clock.advance(2 * DAY)
    assert (await MemosRule(DAY).step(store, None)).removed == 0
    clock.advance(2 * DAY)
    assert (await MemosRule(DAY).step(store, None)).removed == 1


@asynchronous
async def test_a_job_that_is_not_over_keeps_its_answers(store: Store, clock: Clock) -> None:
    """It would have to pay again, now or at its next attempt."""
    queue, memos = await tasks(store, 1), Memos(store)
    job = await claim_one(store, queue)
    asker = Asker("tasks", "1", job.token)
    await memos.recall("page", asker, "m", 60)
    await memos.remember("page", asker, "text", 0.5)
    clock.advance(2 * DAY)
    assert (await MemosRule(DAY).step(store, None)).removed == 0
    await store.settle([Settlement(job, "retried", error="no")])
    assert (await MemosRule(DAY).step(store, None)).removed == 0
    await store.finish(await claim_one(store, queue))
    assert (await MemosRule(DAY).step(store, None)).removed == 1
