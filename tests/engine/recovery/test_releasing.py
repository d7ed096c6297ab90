"""Running rows set back to ready by hand: orphans at once, claimed ones only with force."""

from __future__ import annotations

import pytest

from tabellion import LeaseLost, Store
from tabellion.engine.recovery import orphans
from tabellion.engine.recovery.releasing import KeptRow, release_orphans, release_rows
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, attempts, claim_one, outcomes, row, rows, run, tasks
from tests.engine.tables.test_transitions import refuse

OLD = "UPDATE tasks SET status = 'working', worker = 'old' WHERE id = {}"


async def statuses(store: Store) -> list[str]:
    return [one["status"] for one in await rows(store)]


@asynchronous
async def test_orphans_are_ready_again(store: Store) -> None:
    """Each key that is not released is reported with its reason."""
    queue = await tasks(store, 4)
    await run(store, OLD.format(3), OLD.format(4))
    held = await claim_one(store, queue)
    held.note("page 12 of 40")
    await store.renew([held])
    answer = await release_rows(store, queue, [1, 2, 3, 4, 99])
    assert answer.released == ["3", "4"]
    assert answer.kept == [
        KeptRow("1", "held", "w1", "page 12 of 40"),
        KeptRow("2", "not_running"),
        KeptRow("99", "missing"),
    ]
    assert await statuses(store) == ["working", "new", "new", "new"]
    assert (await row(store, 3))["worker"] is None
    await store.finish(held)


@asynchronous
async def test_force_ends_the_claim_and_the_fence_refuses_its_result(store: Store) -> None:
    """The attempt is not spent, the register says who did it, and the next worker takes over."""
    queue = await tasks(store, 1)
    old = await claim_one(store, queue)
    answer = await release_rows(store, queue, [1], force=True, by="anne")
    assert (answer.released, answer.kept) == (["1"], [])
    with pytest.raises(LeaseLost):
        await store.finish(old, {"result": "late"})
    assert await store.renew([old]) == [old]
    [attempt] = await attempts(store, 1)
    assert (attempt["outcome"], attempt["error"]) == ("released", "released by anne")
    job = await claim_one(store, queue, "w2")
    assert job.attempt == 1
    await store.finish(job)
    assert (await row(store))["result"] is None


@asynchronous
async def test_an_expired_claim_is_released_without_force(store: Store, clock: Clock) -> None:
    """Its worker is dead, and no other one is there to sweep."""
    queue = await tasks(store, 2)
    await store.claim(queue, 2, "dead")
    clock.advance(queue.lease + 1)
    assert (await release_rows(store, queue, ["1"])).released == ["1"]
    assert (await release_orphans(store, queue)).released == ["2"]
    assert await statuses(store) == ["new", "new"]
    assert await outcomes(store) == ["released", "released"]


@asynchronous
async def test_all_orphans_and_nothing_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run changes nothing, and lists all that would be released; live claims are left alone."""
    monkeypatch.setattr(orphans, "MOST_COUNTED", 1)
    queue = await tasks(store, 3)
    await run(store, OLD.format(2), OLD.format(3))
    held = await claim_one(store, queue)
    before = await rows(store)
    assert sorted((await release_orphans(store, queue, dry_run=True)).released) == ["2", "3"]
    assert await rows(store) == before
    assert sorted((await release_orphans(store, queue)).released) == ["2", "3"]
    assert await statuses(store) == ["working", "new", "new"]
    assert (await release_orphans(store, queue)).released == []
    await store.finish(held)


@asynchronous
async def test_a_row_that_the_table_refuses_is_reported(store: Store) -> None:
    """The others are released; the one refused by a rule of the table stays."""
    queue = await tasks(store, 2)
    await run(store, OLD.format(1), OLD.format(2))
    await refuse(store, "NEW.id = 1")
    answer = await release_orphans(store, queue)
    assert (answer.released, answer.kept) == (["2"], [KeptRow("1", "rejected")])
    assert (await release_rows(store, queue, [1])).kept == [KeptRow("1", "rejected")]


@asynchronous
async def test_every_orphan_is_tried_after_a_refusal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused row blocks no other, however many there are."""
    monkeypatch.setattr(orphans, "MOST_COUNTED", 3)
    queue = await tasks(store, 8)
    await run(store, "UPDATE tasks SET status = 'working'")
    await refuse(store, "NEW.id = 1")
    answer = await release_orphans(store, queue)
    assert (sorted(answer.released), answer.kept) == (list("2345678"), [KeptRow("1", "rejected")])
