"""What operators do to queues and jobs at run time."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tabellion import DeclarationError, LeaseLost, Store
from tabellion.engine import controls, sql
from tabellion.engine.settlement import Settlement
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, attempts, claim_one, outcomes, row, rows, run, tasks, tasks_queue


@asynchronous
async def test_a_paused_queue_is_not_claimed_from(store: Store) -> None:
    """Pausing stops claims everywhere at once; running jobs continue; resuming allows claims again."""
    queue = await tasks(store, 3)
    job = await claim_one(store, queue)
    await controls.pause(store, queue, "maintenance")
    assert await store.claim(queue, 5, "w") == []
    assert await store.claim(queue, 5, "w", limited=True) == []
    assert await store.renew([job]) == []
    await store.finish(job)
    await controls.pause(store, queue)
    await controls.resume(store, queue)
    assert len(await store.claim(queue, 5, "w")) == 2


@asynchronous
async def test_a_pause_affects_one_queue_only(store: Store) -> None:
    """Another queue on the same table continues."""
    queue = await tasks(store, 1)
    other = tasks_queue(name="other", ready="parked", running="w2", done="d2", failed="f2")
    await store.add(other, id=2)
    await controls.pause(store, queue)
    assert [job.key for job in await store.claim(other, 5, "w")] == [2]


@asynchronous
async def test_a_queue_may_be_paused_before_it_ever_ran(store: Store) -> None:
    """No row is needed, and resuming a queue that was never paused is harmless."""
    queue = await tasks(store)
    await controls.resume(store, queue)
    await controls.pause(store, queue)
    await store.add(queue, id=1)
    assert await store.claim(queue, 1, "w") == []


@asynchronous
async def test_a_declared_limit_holds_for_all_workers_together(store: Store) -> None:
    """No more than `limit` jobs run at once; each ending frees one place."""
    queue = await tasks(store, 9, limit=3)
    jobs = [*await store.claim(queue, 2, "w1"), *await store.claim(queue, 5, "w2")]
    assert len(jobs) == 3
    assert await store.claim(queue, 5, "w3") == []
    await store.settle([Settlement(jobs[0], "done"), Settlement(jobs[1], "released")])
    assert len(await store.claim(queue, 5, "w3")) == 2


@asynchronous
async def test_a_limit_set_at_run_time_overrides_the_declared_one(store: Store) -> None:
    """It may be raised, lowered below what is running, and removed again."""
    queue = await tasks(store, 9, limit=3)
    await controls.limit(store, queue, 5)
    jobs = await store.claim(queue, 9, "w")
    assert len(jobs) == 5
    await controls.limit(store, queue, 1)
    assert await store.claim(queue, 9, "w") == []
    await store.settle([Settlement(job, "done") for job in jobs])
    assert len(await store.claim(queue, 9, "w")) == 1
    await controls.limit(store, queue, None)
    assert len(await store.claim(queue, 9, "w")) == 2


@asynchronous
async def test_a_limit_set_at_run_time_on_an_unlimited_queue(store: Store) -> None:
    """A worker that has read the controls claims within it."""
    queue = await tasks(store, 4)
    await controls.limit(store, queue, 2)
    assert len(await store.claim(queue, 9, "w", limited=True)) == 2
    assert await store.claim(queue, 9, "w", limited=True) == []


@asynchronous
async def test_pausing_keeps_the_limit_and_limiting_keeps_the_pause(store: Store) -> None:
    """Each control changes its own setting only."""
    queue = await tasks(store, 5)
    await controls.limit(store, queue, 2)
    await controls.pause(store, queue, "why")
    await controls.limit(store, queue, 3)
    [found] = await store.database.fetch("SELECT * FROM tabellion_queues")
    assert (found["running_limit"], found["reason"]) == (3, "why")
    assert found["paused_at"] is not None
    await controls.resume(store, queue)
    assert len(await store.claim(queue, 9, "w", limited=True)) == 3


# -- manual retry ------------------------------------------------------------------------------------------------------


@asynchronous
async def test_restarting_failed_rows(store: Store) -> None:
    """One, many or all failed rows are ready again, mirrors and counters cleared; other rows are left alone."""
    queue = await tasks(store, 6)
    jobs = await store.claim(queue, 5, "w")
    await store.settle([Settlement(job, "failed", error=f"bad {job.key}") for job in jobs[:4]])
    assert await controls.restart(store, queue, [1]) == 1
    assert await controls.restart(store, queue, [1, 2, 5, 6, 99]) == 1
    assert await controls.restart(store, queue, []) == 0
    assert await controls.restart(store, queue) == 2
    assert [r["status"] for r in await rows(store)] == ["new", "new", "new", "new", "working", "new"]
    found = await row(store)
    assert (found["worker"], found["error"], found["attempts"], found["started_at"], found["finished_at"]) == (
        None, None, 0, None, None,
    )  # fmt: skip
    job = await claim_one(store, queue)
    assert (job.key, job.attempt, job.n, job.crashes, job.deferrals, job.age) == (1, 1, 2, 0, 0, 0)


@asynchronous
async def test_restarting_all_with_the_same_error(store: Store) -> None:
    """The text may be any part of the last error; earlier errors do not count."""
    queue = await tasks(store, 4)
    one, two, three, four = await store.claim(queue, 4, "w")
    await store.fail(one, "429: quota 100% used")
    await store.fail(two, "500: broken_pipe")
    await store.retry(three, 0, "429: quota")
    await store.fail(four, "429: Quota 100% used")
    await store.fail(await claim_one(store, queue), "500: broken.pipe")
    assert await controls.restart(store, queue, error="100% used") == 2
    assert await controls.restart(store, queue, error="429: quota") == 0
    assert await controls.restart(store, queue, error="broken_pipe") == 1
    assert [r["status"] for r in await rows(store)] == ["new", "new", "failed", "new"]


@asynchronous
async def test_restarting_by_key_and_error_together(store: Store) -> None:
    """Both conditions must match."""
    queue = await tasks(store, 3)
    for job in await store.claim(queue, 3, "w"):
        await store.fail(job, "a" if job.key < 3 else "b")
    assert await controls.restart(store, queue, [2, 3], error="a") == 1
    assert (await row(store, 2))["status"] == "new"


@asynchronous
async def test_restarting_thousands_of_rows(store: Store) -> None:
    """More keys than one statement takes parameters are restarted."""
    queue = await tasks(store, 3000)
    await run(store, "UPDATE tasks SET status = 'failed'")
    assert await controls.restart(store, queue, list(range(1, 3001))) == 3000


@asynchronous
async def test_restarting_a_row_cancelled_while_it_waited(store: Store) -> None:
    """Counters are reset and the row is due at once, although its last attempt was due for a retry later."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 3600, "boom")
    assert await controls.cancel(store, queue, 1)
    assert await controls.restart(store, queue, [1]) == 1
    job = await claim_one(store, queue)
    assert (job.attempt, job.age) == (1, 0)


@asynchronous
async def test_restarting_a_quarantined_row(store: Store, clock: Clock) -> None:
    """It may crash twice again before it is quarantined again."""
    queue = await tasks(store, 1, lease=60)
    for expected in ("crashed", "quarantined", "crashed", "quarantined"):
        await claim_one(store, queue)
        clock.advance(61)
        [swept] = await store.sweep(queue)
        assert swept.outcome == expected
        if expected == "quarantined":
            assert await controls.restart(store, queue) == 1


@asynchronous
async def test_ending_a_wait_changes_the_waiting_attempt_only(store: Store) -> None:
    """The row is due now with all of its attempts; what the register says of earlier attempts stays true."""
    queue = await tasks(store, 1)

    async def end_wait() -> None:
        await store.database.transact([sql.bind(*controls.end_wait(queue.name, "1"))])

    await store.retry(await claim_one(store, queue), 0, "boom")
    await store.retry(await claim_one(store, queue), 3600, "boom")
    await end_wait()
    assert await outcomes(store) == ["retried", "superseded"]
    job = await claim_one(store, queue)
    assert (job.attempt, job.n) == (1, 3)
    await end_wait()
    await store.retry(job, 0, "boom")
    await store.finish(await claim_one(store, queue))
    await end_wait()
    assert await outcomes(store) == ["retried", "superseded", "retried", "done"]


# -- cancel ------------------------------------------------------------------------------------------------------------


@asynchronous
async def test_cancelling_a_waiting_row(store: Store) -> None:
    """It fails at once and is not claimed."""
    queue = await tasks(store, 2)
    assert await controls.cancel(store, queue, 1, "not wanted")
    assert [job.key for job in await store.claim(queue, 5, "w")] == [2]
    found = await row(store)
    assert (found["status"], found["error"]) == ("failed", "not wanted")


@asynchronous
async def test_cancelling_a_running_job(store: Store) -> None:
    """Its claim is gone: the worker learns so at its next move, and what it does changes nothing."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    assert await controls.cancel(store, queue, 1, "not wanted")
    assert await store.renew([job]) == [job]
    with pytest.raises(LeaseLost):
        await store.finish(job, {"result": "x"})
    found = await row(store)
    assert (found["status"], found["error"], found["result"]) == ("failed", "not wanted", None)
    assert await outcomes(store) == ["cancelled"]


@asynchronous
async def test_cancelling_notifies_workers(store: Store, clock: Clock) -> None:
    """The queue's controls change, which is what running workers watch."""
    queue = await tasks(store, 1)
    await claim_one(store, queue)
    await controls.cancel(store, queue, 1)
    [before] = await store.database.fetch("SELECT updated_at FROM tabellion_queues")
    await controls.restart(store, queue)
    await claim_one(store, queue)
    clock.advance(1)
    await controls.cancel(store, queue, 1)
    [after] = await store.database.fetch("SELECT updated_at FROM tabellion_queues")
    assert after != before


@asynchronous
async def test_cancelling_a_row_that_cannot_be_cancelled(store: Store) -> None:
    """A finished, failed, parked or missing row is left as it is, and the call returns False."""
    queue = await tasks(store, 3)
    await store.finish(await claim_one(store, queue))
    await store.fail(await claim_one(store, queue), "bad")
    await run(store, "UPDATE tasks SET status = 'parked' WHERE id = 3")
    before = await rows(store)
    for key in (1, 2, 3, 99):
        assert not await controls.cancel(store, queue, key)
    assert await rows(store) == before


@asynchronous
async def test_cancelling_a_row_its_owner_set_back(store: Store) -> None:
    """A row set back to ready while its old claim is live counts as waiting: it fails at once."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    await run(store, "UPDATE tasks SET status = 'new'")
    assert await controls.cancel(store, queue, 1, "not wanted")
    assert (await row(store))["status"] == "failed"
    with pytest.raises(LeaseLost):
        await store.finish(job)
    assert await store.claim(queue, 1, "w") == []


@asynchronous
async def test_a_cancelled_row_is_recorded(store: Store) -> None:
    """For a waiting row that was never tried, the register and `explain` say who cancelled it, why and when."""
    queue = await tasks(store, 1)
    assert await controls.cancel(store, queue, 1, "wrong file", by="anna")
    [attempt] = await attempts(store, 1)
    assert (attempt["outcome"], attempt["worker"], attempt["attempt"]) == ("cancelled", "anna", 0)
    assert attempt["error"] == "wrong file (by anna)"
    assert attempt["settled_at"] is not None
    found = await store.explain(queue, 1)
    assert "It was cancelled 0 s ago: wrong file (by anna)." in found.sentences
    assert [one["outcome"] for one in found.history] == ["cancelled"]
    assert await controls.restart(store, queue, [1]) == 1
    job = await claim_one(store, queue)
    assert (job.attempt, job.n) == (1, 2)


@asynchronous
async def test_cancelling_keeps_the_record_of_earlier_attempts(store: Store) -> None:
    """The attempt that waited for a retry keeps its own error, and is no longer due."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 3600, "boom")
    assert await controls.cancel(store, queue, 1, "not wanted")
    tried, cancelled = await attempts(store, 1)
    assert (tried["outcome"], tried["error"], tried["retry_at"]) == ("retried", "boom", None)
    assert (cancelled["outcome"], cancelled["error"], cancelled["worker"]) == ("cancelled", "not wanted", "cancel")


@asynchronous
async def test_cancelling_twice_changes_nothing_more(store: Store) -> None:
    """The second call finds nothing to cancel and adds no record."""
    queue = await tasks(store, 1)
    assert [await controls.cancel(store, queue, 1), await controls.cancel(store, queue, 1)] == [True, False]
    assert await outcomes(store) == ["cancelled"]


@asynchronous
async def test_cancelling_while_others_claim(store: Store) -> None:
    """Each row is either cancelled or claimed, never both, and no call is refused."""
    queue = await tasks(store, 40)
    other = Store(store.url)

    async def claim_all() -> list[int]:
        taken: list[int] = []
        while jobs := await other.claim(queue, 3, "w"):
            taken += [job.key for job in jobs]
            for job in jobs:
                with contextlib.suppress(LeaseLost):
                    await other.finish(job)
        return taken

    async def cancel_all() -> list[int]:
        return [key for key in range(1, 41) if await controls.cancel(store, queue, key)]

    try:
        taken, cancelled = await asyncio.gather(claim_all(), cancel_all())
    finally:
        await other.close()
    states = {found["id"]: found["status"] for found in await rows(store)}
    assert {key for key, state in states.items() if state == "failed"} == set(cancelled)
    assert set(taken) | set(cancelled) == set(range(1, 41))
    assert set(await outcomes(store)) <= {"done", "cancelled"}


@asynchronous
async def test_two_queues_with_one_failed_state_keep_their_failures_apart(store: Store) -> None:
    """Each queue counts and restarts its own failures, not those of the other."""
    await tasks(store, 2)
    failed = tasks_queue().changes["failed"]["status"]
    await run(store, f"UPDATE tasks SET status = '{failed}', error = CASE id WHEN 1 THEN 'no file' END")
    first = tasks_queue(failed_where="t.error IS NULL")
    second = tasks_queue(name="second", failed_where="t.error IS NOT NULL")
    assert (await store.counts(first))["failed"] == (await store.counts(second))["failed"] == 1
    assert await controls.restart(store, first, [1]) == 0
    assert await controls.restart(store, first) == 1
    assert (await row(store, 1))["status"] == failed
    assert (await row(store, 2))["status"] != failed
    with pytest.raises(DeclarationError, match="rejects failed_where"):
        await store.counts(tasks_queue(failed_where="t.nothing IS NULL"))
