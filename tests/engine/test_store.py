"""The conformance suite: the same promises on SQLite, PostgreSQL 18 and 15, and behind a transaction pooler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tabellion import Job, LeaseLost, Queue, Store
from tabellion.engine.settlement import Settlement
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.errors import ConfigurationError, StoreError, Unreachable, ValueRefused
from tabellion.messages import Message
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import (
    STATES,
    asynchronous,
    attempts,
    claim_one,
    outcomes,
    row,
    rows,
    run,
    tasks,
    tasks_queue,
)

Arm = Callable[[str], None]
Move = Callable[[Store, Job], Awaitable[object]]

SETTLING: dict[str, Move] = {
    "finish": lambda store, job: store.finish(job, {"result": "late"}),
    "fail": lambda store, job: store.fail(job, "late"),
    "retry": lambda store, job: store.retry(job, 5, "late"),
    "defer": lambda store, job: store.defer(job, 5, "late"),
    "release": lambda store, job: store.release(job),
}


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-15", "pooled"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on every supported database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


# -- claim -------------------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_claim_takes_ready_rows_in_order(store: Store) -> None:
    """Up to n rows, first in line first; each is running and has its own live attempt."""
    queue = await tasks(store, 5)
    jobs = await store.claim(queue, 3, "w1")
    assert [job.key for job in jobs] == [1, 2, 3]
    assert [(job.text_key, job.n, job.attempt, job.crashes, job.deferrals) for job in jobs] == [
        (str(key), 1, 1, 0, 0) for key in (1, 2, 3)
    ]
    assert len({job.token for job in jobs}) == 3
    assert {job.worker for job in jobs} == {"w1"}
    assert [r["status"] for r in await rows(store)] == ["working"] * 3 + ["new"] * 2
    assert [(a["key"], a["worker"], a["settled_at"]) for a in await attempts(store)] == [
        (str(key), "w1", None) for key in (1, 2, 3)
    ]
    assert [job.key for job in await store.claim(queue, 10, "w2")] == [4, 5]
    assert await store.claim(queue, 10, "w2") == []


@asynchronous
async def test_a_job_holds_the_row_after_the_claim(store: Store) -> None:
    """Its items are what the table holds after the claim, mirrors included."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    assert dict(job.values) == await row(store)


@asynchronous
async def test_only_ready_rows_are_claimed(store: Store) -> None:
    """Rows in another state, or in none, are ignored."""
    queue = await tasks(store)
    await run(
        store,
        "INSERT INTO tasks (id, status) VALUES (1, 'working'), (2, 'done'), (3, 'failed'), (4, 'parked'), (5, '')",
    )
    before = await rows(store)
    assert await store.claim(queue, 10, "w") == []
    assert await rows(store) == before


@asynchronous
async def test_a_state_may_be_an_empty_column(store: Store) -> None:
    """NULL is a value like any other: here done means that a time is set."""
    await run(store, "CREATE TABLE t (id integer PRIMARY KEY, status text)", "INSERT INTO t (id) VALUES (1)")
    queue = Queue("t", ready=None, running="r", done="d", failed="f")
    job = await claim_one(store, queue)
    await store.release(job)
    assert (await row(store, 1, "t"))["status"] is None
    await store.finish(await claim_one(store, queue))
    assert (await row(store, 1, "t"))["status"] == "d"


@asynchronous
async def test_a_condition_selects_among_ready_rows(store: Store) -> None:
    """Rows that do not meet `where=` are not claimed."""
    queue = await tasks(store, 3, where="kind = 'a' OR kind = 'it''s'")
    await run(store, "UPDATE tasks SET kind = 'a' WHERE id = 2", "UPDATE tasks SET kind = 'it''s' WHERE id = 3")
    assert [job.key for job in await store.claim(queue, 10, "w")] == [2, 3]
    assert (await store.counts(queue))["ready"] == 0


@asynchronous
async def test_fan_in_is_a_condition(store: Store) -> None:
    """A row waits until none of its parts is open."""
    await run(
        store, "CREATE TABLE parts (task integer, open integer)", "INSERT INTO parts VALUES (1, 0), (1, 1), (2, 0)"
    )
    queue = await tasks(store, 2, where="NOT EXISTS (SELECT 1 FROM parts AS p WHERE p.task = t.id AND p.open = 1)")
    assert [job.key for job in await store.claim(queue, 10, "w")] == [2]
    await run(store, "UPDATE parts SET open = 0")
    assert [job.key for job in await store.claim(queue, 10, "w")] == [1]


@asynchronous
async def test_priority_is_an_order(store: Store) -> None:
    """`order=` takes a direction; the key breaks ties."""
    queue = await tasks(store, 4, order="small DESC")
    await run(store, "UPDATE tasks SET small = CASE WHEN id IN (2, 4) THEN 9 ELSE 1 END")
    assert [job.key for job in await store.claim(queue, 10, "w")] == [2, 4, 1, 3]


@asynchronous
async def test_two_stores_never_share_a_row(store: Store, clock: Clock) -> None:
    """Concurrent claims of two connections are disjoint and together complete."""
    queue = await tasks(store, 60)
    other = Store(store.url, clock=clock)
    try:
        taken = await asyncio.gather(*(one.claim(queue, 10, "w") for one in (store, other) * 3))
    finally:
        await other.close()
    keys = [job.key for jobs in taken for job in jobs]
    assert sorted(keys) == list(range(1, 61))


@asynchronous
async def test_json_columns_arrive_as_values(store: Store) -> None:
    """A handler gets dicts and lists, not their text."""
    kind = "jsonb" if store.dialect == "postgresql" else "JSON"
    await run(store, f"CREATE TABLE t (id integer PRIMARY KEY, status text, a {kind}, b json)")
    queue = Queue("t", **STATES)
    await run(store, """INSERT INTO t VALUES (1, 'new', '{"x": [1, null, "é"]}', NULL)""")
    job = await claim_one(store, queue)
    assert job["a"] == {"x": [1, None, "é"]}
    assert job["b"] is None


# -- the fence ---------------------------------------------------------------------------------------------------------


async def zombie(store: Store, clock: Clock, finish: Move) -> tuple[Any, dict[str, Any]]:
    """A worker frozen past its lease resumes and finishes; return the verdict it got, and the row afterwards."""
    queue = await tasks(store, 1, lease=60)
    frozen = await claim_one(store, queue, "frozen")
    clock.advance(61)
    assert len(await store.sweep(queue)) == 1
    fresh = await claim_one(store, queue, "fresh")
    try:
        answer: Any = await finish(store, frozen)
    except LeaseLost as error:
        answer = error
    if (await row(store))["status"] == "working":
        await store.finish(fresh, {"result": "fresh"})
    return answer, await row(store)


@asynchronous
async def test_a_zombie_changes_nothing(store: Store, clock: Clock) -> None:
    """The late finish is refused and the second worker's result stays."""
    answer, found = await zombie(store, clock, lambda store, job: store.finish(job, {"result": "zombie"}))
    assert isinstance(answer, LeaseLost)
    assert (found["status"], found["result"]) == ("done", "fresh")
    assert await outcomes(store) == ["crashed", "done"]


@asynchronous
async def test_without_the_fence_the_zombie_wins(store: Store, clock: Clock) -> None:
    """The control: a finish by id alone, as the seeds do it, overwrites the row, so the test above can fail."""

    async def unfenced(store: Store, job: Job) -> None:
        await store.database.fetch("UPDATE tasks SET status = 'done', result = 'zombie' WHERE id = $1", job.key)

    _, found = await zombie(store, clock, unfenced)
    assert (found["status"], found["result"]) == ("done", "zombie")


@pytest.mark.parametrize("move", SETTLING)
@asynchronous
async def test_a_stale_token_changes_no_row(store: Store, clock: Clock, move: str) -> None:
    """Whatever a worker does with a claim that another one holds, row and register stay as they are."""
    queue = await tasks(store, 1, lease=60)
    stale = await claim_one(store, queue)
    clock.advance(61)
    await store.sweep(queue)
    fresh = await claim_one(store, queue)
    before = await rows(store), await attempts(store)
    with pytest.raises(LeaseLost):
        await SETTLING[move](store, stale)
    assert await store.renew([stale]) == [stale]
    assert (await rows(store), await attempts(store)) == before
    assert await store.renew([fresh]) == []
    await store.finish(fresh)


@pytest.mark.parametrize("move", SETTLING)
@asynchronous
async def test_the_owners_edit_wins(store: Store, move: str) -> None:
    """A row its owner changed meanwhile stays as the owner left it; the claim ends as superseded."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    await run(store, "UPDATE tasks SET status = 'parked', result = 'mine' WHERE id = 1")
    before = await rows(store)
    with pytest.raises(LeaseLost, match="superseded"):
        await SETTLING[move](store, job)
    assert await rows(store) == before
    assert await outcomes(store) == ["superseded"]


@pytest.mark.parametrize("move", SETTLING)
@asynchronous
async def test_a_row_set_back_to_ready_is_claimable_when_its_claim_has_ended(store: Store, move: str) -> None:
    """However the old claim ends, the row restarts at once: first attempt, no waiting."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    await run(store, "UPDATE tasks SET status = 'new' WHERE id = 1")
    assert await store.claim(queue, 1, "w2") == []
    with pytest.raises(LeaseLost):
        await SETTLING[move](store, job)
    again = await claim_one(store, queue)
    assert (again.n, again.attempt) == (2, 1)


@asynchronous
async def test_a_row_set_back_to_ready_is_claimable_after_a_renewal(store: Store) -> None:
    """The old claim is superseded at its next renewal, and only then can the row be claimed again."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    await run(store, "UPDATE tasks SET status = 'new' WHERE id = 1")
    assert await store.claim(queue, 1, "w2") == []
    assert await store.renew([job]) == [job]
    assert await outcomes(store) == ["superseded"]
    assert (await claim_one(store, queue)).attempt == 1


@asynchronous
async def test_a_deleted_row_stays_deleted(store: Store, clock: Clock) -> None:
    """Its claim is superseded by the next move, whichever it is; nothing is inserted again."""
    queue = await tasks(store, 4, lease=60)
    jobs = await store.claim(queue, 4, "w")
    await run(store, "DELETE FROM tasks")
    with pytest.raises(LeaseLost):
        await store.finish(jobs[0], {"result": "x"})
    assert await store.renew([jobs[1]]) == [jobs[1]]
    clock.advance(61)
    assert await store.sweep(queue) == []
    assert await outcomes(store) == ["superseded"] * 4
    assert await rows(store) == []


@asynchronous
async def test_a_batch_with_two_claims_of_one_row(store: Store, clock: Clock) -> None:
    """A stale and a fresh ending of the same row in one batch: the fresh one is accepted, the stale one is not."""
    queue = await tasks(store, 1, lease=60)
    stale = await claim_one(store, queue)
    clock.advance(61)
    await store.sweep(queue)
    fresh = await claim_one(store, queue)
    assert await store.renew([stale, fresh]) == [stale]
    verdicts = await store.settle(
        [Settlement(stale, "done", {"result": "s"}), Settlement(fresh, "done", {"result": "f"})]
    )
    assert {verdict.job: verdict.outcome for verdict in verdicts} == {stale: None, fresh: "done"}
    assert (await row(store))["result"] == "f"


# -- endings -----------------------------------------------------------------------------------------------------------


@asynchronous
async def test_finish_writes_values_with_done(store: Store) -> None:
    """The values, the state and the settled attempt are written together."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    job.cost = 0.25
    job.note("page 2 of 2")
    await store.finish(job, {"result": "żółw 🐢", "small": 7})
    found = await row(store)
    assert (found["status"], found["result"], found["small"]) == ("done", "żółw 🐢", 7)
    [attempt] = await attempts(store)
    assert (attempt["outcome"], attempt["cost"], attempt["note"], attempt["error"]) == (
        "done",
        0.25,
        "page 2 of 2",
        None,
    )
    assert attempt["settled_at"] is not None


@asynchronous
async def test_a_handler_may_name_another_ending(store: Store) -> None:
    """`{"status": "duplicate"}` wins over the done state."""
    queue = await tasks(store, 1)
    await store.finish(await claim_one(store, queue), {"status": "duplicate"})
    assert (await row(store))["status"] == "duplicate"
    assert await outcomes(store) == ["done"]
    assert await store.claim(queue, 1, "w") == []


@asynchronous
async def test_a_failed_row_is_not_claimed_again(store: Store, clock: Clock) -> None:
    """However long one waits."""
    queue = await tasks(store, 1)
    await store.fail(await claim_one(store, queue), "empty PDF")
    clock.advance(1e9)
    assert await store.claim(queue, 1, "w") == []
    assert ((await row(store))["status"], await outcomes(store)) == ("failed", ["failed"])


@asynchronous
async def test_a_retry_waits_until_it_is_due(store: Store, clock: Clock) -> None:
    """Not a moment earlier; the attempt is spent, and the job keeps the time of its first claim."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 10, "boom")
    clock.advance(9.5)
    assert await store.claim(queue, 1, "w") == []
    clock.advance(0.5)
    job = await claim_one(store, queue)
    assert (job.n, job.attempt, job.deferrals) == (2, 2, 0)
    assert job.age == pytest.approx(10)
    assert [attempt["error"] for attempt in await attempts(store)] == ["boom", None]


@asynchronous
async def test_a_waiting_row_does_not_block_the_rows_behind_it(store: Store) -> None:
    """Rows behind one that is not due yet are claimed."""
    queue = await tasks(store, 3)
    await store.retry(await claim_one(store, queue), 10, "boom")
    assert [job.key for job in await store.claim(queue, 2, "w")] == [2, 3]


@asynchronous
async def test_a_deferral_is_counted_and_spends_no_attempt(store: Store, clock: Clock) -> None:
    """Rate limited: the attempt number stays, the deferrals go up, the time of the first claim is kept."""
    queue = await tasks(store, 1)
    for number in range(3):
        job = await claim_one(store, queue)
        assert (job.n, job.attempt, job.deferrals) == (number + 1, 1, number)
        assert job.age == pytest.approx(30 * number)
        await store.defer(job, 30, "429")
        assert await store.claim(queue, 1, "w") == []
        clock.advance(30)
    job = await claim_one(store, queue)
    await store.retry(job, 0, "boom")
    job = await claim_one(store, queue)
    assert (job.attempt, job.deferrals) == (2, 3)


@asynchronous
async def test_a_release_spends_nothing_and_keeps_the_position(store: Store) -> None:
    """Ready at once, first in line as before, the attempt not spent."""
    queue = await tasks(store, 3)
    job = await claim_one(store, queue)
    await store.release(job)
    again = await claim_one(store, queue)
    assert (again.key, again.n, again.attempt) == (1, 2, 1)


@asynchronous
async def test_a_finished_row_made_ready_again_counts_from_one(store: Store) -> None:
    """Its attempts count from one; its history is continued."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 0, "boom")
    await store.finish(await claim_one(store, queue))
    await run(store, "UPDATE tasks SET status = 'new'")
    job = await claim_one(store, queue)
    assert (job.n, job.attempt, job.age) == (3, 1, 0)


# -- leases and sweeps -------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_renewed_claim_is_kept(store: Store, clock: Clock) -> None:
    """A renewed lease is not swept; one that was not renewed is."""
    queue = await tasks(store, 2, lease=60)
    kept, left = await store.claim(queue, 2, "w")
    clock.advance(40)
    assert await store.renew([kept]) == []
    clock.advance(40)
    assert [swept.job.key for swept in await store.sweep(queue)] == [left.key]
    await store.finish(kept)
    with pytest.raises(LeaseLost):
        await store.finish(left)


@asynchronous
async def test_an_expired_lease_that_was_not_swept_still_holds(store: Store, clock: Clock) -> None:
    """No other worker has the row: its worker may renew or finish."""
    queue = await tasks(store, 2, lease=60)
    one, other = await store.claim(queue, 2, "w")
    clock.advance(100)
    assert await store.claim(queue, 2, "w2") == []
    assert await store.renew([one]) == []
    await store.finish(other)
    assert await store.sweep(queue) == []


@asynchronous
async def test_renewal_writes_notes(store: Store) -> None:
    """Progress is in the register while the job runs, and an empty note does not erase it."""
    queue = await tasks(store, 2)
    jobs = await store.claim(queue, 2, "w")
    jobs[0].note("page 12 of 40")
    await store.renew(jobs)
    assert [attempt["note"] for attempt in await attempts(store)] == ["page 12 of 40", None]
    jobs[0]._note = None
    await store.renew(jobs)
    assert (await attempts(store, 1))[0]["note"] == "page 12 of 40"


@asynchronous
async def test_renewal_writes_the_code_of_a_note(store: Store) -> None:
    """A note that is a message can be translated while its job runs; a plain text after it has no code."""
    queue = await tasks(store, 2)
    jobs = await store.claim(queue, 2, "w")
    for job in jobs:
        job.note(Message("attempt.timed_out", n=5.0))
    await store.renew(jobs)
    jobs[1].note("plain")
    await store.renew(jobs)
    first, second = await attempts(store)
    assert (first["note"], json.loads(first["note_form"])["code"]) == ("timed out after 5 s", "attempt.timed_out")
    assert (second["note"], second["note_form"]) == ("plain", None)


@asynchronous
async def test_a_crash_spends_an_attempt_and_keeps_the_position(store: Store, clock: Clock) -> None:
    """An expired claim goes back to the front of the line with its attempt spent."""
    queue = await tasks(store, 3, lease=60)
    await claim_one(store, queue)
    clock.advance(59)
    assert await store.sweep(queue) == []
    clock.advance(2)
    [swept] = await store.sweep(queue)
    assert (swept.outcome, swept.job.key) == ("crashed", 1)
    assert (await row(store))["status"] == "new"
    job = await claim_one(store, queue)
    assert (job.key, job.n, job.attempt, job.crashes) == (1, 2, 2, 1)


@asynchronous
async def test_two_crashes_in_a_row_quarantine_the_row_with_evidence(store: Store, clock: Clock) -> None:
    """The row fails with the worker, the place, how it ended and its last note."""
    queue = await tasks(store, 1, lease=60)
    await roster.enlist(store, WorkerRecord("w7", "host-9", 4711, "boot", "0", "tasks", 1))
    for _ in range(2):
        job = await claim_one(store, queue, "w7")
        job.note("page 3 of 9")
        await store.renew([job])
        clock.advance(61)
        [swept] = await store.sweep(queue)
    assert swept.outcome == "quarantined"
    found = await row(store)
    assert found["status"] == "failed"
    for evidence in ("2 crashes in a row", "w7", "host-9", "4711", "page 3 of 9"):
        assert evidence in found["error"]
    assert await outcomes(store) == ["crashed", "quarantined"]


@asynchronous
async def test_a_retry_between_two_crashes_resets_the_count(store: Store, clock: Clock) -> None:
    """Only crashes in a row count: an attempt that ended by itself restarts the count."""
    queue = await tasks(store, 1, lease=60, max_attempts=9)
    await claim_one(store, queue)
    clock.advance(61)
    await store.sweep(queue)
    await store.retry(await claim_one(store, queue), 0, "boom")
    assert (await claim_one(store, queue)).crashes == 0
    clock.advance(61)
    [swept] = await store.sweep(queue)
    assert swept.outcome == "crashed"


@asynchronous
async def test_crashes_may_be_counted_separately(store: Store, clock: Clock) -> None:
    """They spend no attempt, the row shows each, and the queue's limit of crashes in a row ends the job."""
    queue = await tasks(store, 1, lease=60, max_attempts=1, max_crashes=3, attempts="attempts", error="error")
    for crashes in (0, 1, 2):
        job = await claim_one(store, queue)
        assert (job.attempt, job.crashes, (await row(store))["attempts"]) == (1, crashes, 1)
        clock.advance(61)
        [swept] = await store.sweep(queue)
        assert "stopped renewing its lease" in (await row(store))["error"]
    assert swept.outcome == "quarantined"
    assert "3 crashes in a row" in (await row(store))["error"]


@pytest.mark.parametrize("move", ["release", "defer"])
@asynchronous
async def test_a_release_between_two_crashes_does_not_reset_the_count(store: Store, clock: Clock, move: str) -> None:
    """A worker that stopped or was rate limited in between says nothing about the job: it is still two in a row."""
    queue = await tasks(store, 1, lease=60)
    await claim_one(store, queue)
    clock.advance(61)
    await store.sweep(queue)
    job = await claim_one(store, queue)
    await (store.release(job) if move == "release" else store.defer(job, 0, "429"))
    assert (await claim_one(store, queue)).crashes == 1
    clock.advance(61)
    [swept] = await store.sweep(queue)
    assert swept.outcome == "quarantined"


@asynchronous
async def test_a_crash_on_the_last_attempt_fails(store: Store, clock: Clock) -> None:
    """Attempts are limited, crashes included."""
    queue = await tasks(store, 1, lease=60, max_attempts=1)
    await claim_one(store, queue)
    clock.advance(61)
    [swept] = await store.sweep(queue)
    assert swept.outcome == "failed"
    assert "last attempt" in (await row(store))["error"]


@asynchronous
async def test_a_sweep_reads_the_rows_own_max_attempts(store: Store, clock: Clock) -> None:
    """`max_attempts="column"` applies to crashes too."""
    queue = await tasks(store, 3, lease=60, max_attempts="most")
    await run(store, "UPDATE tasks SET most = id WHERE id < 3")
    await store.claim(queue, 3, "w")
    clock.advance(61)
    swept = await store.sweep(queue)
    assert {one.job.key: one.outcome for one in swept} == {1: "failed", 2: "crashed", 3: "crashed"}


@asynchronous
async def test_concurrent_sweeps_count_each_crash_once(store: Store, clock: Clock) -> None:
    """Any worker sweeps; several sweeping at once have the same effect as one."""
    queue = await tasks(store, 120, lease=60)
    await store.claim(queue, 120, "w")
    clock.advance(61)
    others = [Store(store.url, clock=clock) for _ in range(3)]
    try:
        for other in others:
            await other.bind(queue)
        swept = await asyncio.gather(*(one.sweep(queue) for one in (store, *others)))
    finally:
        for other in others:
            await other.close()
    keys = [one.job.key for each in swept for one in each]
    assert sorted(keys) == list(range(1, 121))
    assert await outcomes(store) == ["crashed"] * 120


@asynchronous
async def test_a_sweep_does_not_undo_a_renewal_it_raced_with(store: Store, clock: Clock) -> None:
    """A claim renewed after the sweep read it is left alone."""
    queue = await tasks(store, 1, lease=60)
    job = await claim_one(store, queue)
    clock.advance(61)
    seen = Settlement(job, "crashed", error="expired", expired_only=True)
    await store.renew([job])
    [verdict] = await store.settle([seen])
    assert not verdict.is_accepted
    await store.finish(job)


# -- batches -----------------------------------------------------------------------------------------------------------


@asynchronous
async def test_many_endings_in_one_call(store: Store) -> None:
    """Each job gets its own ending and its own verdict, however they are grouped internally."""
    queue = await tasks(store, 8)
    jobs = await store.claim(queue, 8, "w")
    verdicts = await store.settle(
        [
            Settlement(jobs[0], "done", {"result": "a"}),
            Settlement(jobs[1], "done", {"small": 1, "result": "b"}),
            Settlement(jobs[2], "failed", error="bad"),
            Settlement(jobs[3], "retried", error="boom", after=5),
            Settlement(jobs[4], "limited", error="429", after=5),
            Settlement(jobs[5], "released"),
            Settlement(jobs[6], "done"),
            Settlement(jobs[7], "done", {"result": "c"}),
        ]
    )
    assert {verdict.job.key: verdict.outcome for verdict in verdicts} == {
        1: "done", 2: "done", 3: "failed", 4: "retried", 5: "limited", 6: "released", 7: "done", 8: "done",
    }  # fmt: skip
    assert all(verdict.is_accepted for verdict in verdicts)
    found = [(r["status"], r["result"], r["small"]) for r in await rows(store)]
    assert found == [
        ("done", "a", None), ("done", "b", 1), ("failed", None, None), ("new", None, None), ("new", None, None),
        ("new", None, None), ("done", None, None), ("done", "c", None),
    ]  # fmt: skip


@asynchronous
async def test_jobs_of_two_queues_in_one_call(store: Store) -> None:
    """Jobs of two queues on one table are settled together."""
    first = await tasks(store, 2)
    second = tasks_queue(name="second", ready="done", running="w2", done="end", failed="bad")
    await store.finish((await store.claim(first, 1, "w"))[0])
    jobs = [*await store.claim(first, 1, "w"), *await store.claim(second, 1, "w")]
    assert await store.renew(jobs) == []
    verdicts = await store.settle([Settlement(job, "done") for job in jobs])
    assert [verdict.outcome for verdict in verdicts] == ["done", "done"]
    assert [r["status"] for r in await rows(store)] == ["end", "done"]


@asynchronous
async def test_a_refused_value_fails_its_own_job_only(store: Store) -> None:
    """One result violates a constraint: that job fails with the database's reason, the rest are accepted."""
    queue = await tasks(store, 5)
    jobs = await store.claim(queue, 5, "w")
    verdicts = await store.settle(
        [Settlement(job, "done", {"small": 500 if job.key == 3 else job.key}) for job in jobs]
    )
    assert {verdict.job.key: verdict.outcome for verdict in verdicts} == {
        1: "done", 2: "done", 3: "failed", 4: "done", 5: "done",
    }  # fmt: skip
    found = await row(store, 3)
    assert (found["status"], found["small"]) == ("failed", None)
    assert "the result could not be written" in found["error"]
    assert "check constraint" in found["error"].lower()
    [refused] = [verdict for verdict in verdicts if verdict.job.key == 3]
    assert "check constraint" in (refused.error or "").lower()


@asynchronous
async def test_an_unknown_column_in_a_result(store: Store) -> None:
    """The job fails with the column's name and the closest existing one; others continue."""
    queue = await tasks(store, 2)
    jobs = await store.claim(queue, 2, "w")
    verdicts = await store.settle(
        [Settlement(jobs[0], "done", {"resullt": "x"}), Settlement(jobs[1], "done", {"result": "x"})]
    )
    assert sorted((verdict.job.key, verdict.outcome) for verdict in verdicts) == [(1, "failed"), (2, "done")]
    assert "has no column 'resullt'; did you mean 'result'?" in (await row(store))["error"]


@asynchronous
async def test_a_single_refused_finish_says_why(store: Store) -> None:
    """A single finish with a bad value raises, and the claim still holds."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    with pytest.raises(ValueRefused, match="did you mean 'result'"):
        await store.finish(job, {"resullt": 1})
    with pytest.raises(ValueRefused, match=r"(?i)check constraint"):
        await store.finish(job, {"small": 1000})
    await store.finish(job, {"small": 10})


@asynchronous
async def test_strange_texts_in_notes_and_errors(store: Store) -> None:
    """NULs and lone surrogates, as file names contain them, cost no job its renewal or its retry."""
    queue = await tasks(store, 3)
    jobs = await store.claim(queue, 3, "w")
    strange = "caf\udce9 \x00 end"
    jobs[0].note(strange)
    assert await store.renew(jobs) == []
    verdicts = await store.settle([Settlement(job, "retried", error=f"no file {strange}", after=0) for job in jobs])
    assert [verdict.outcome for verdict in verdicts] == ["retried"] * 3
    assert all("no file caf" in attempt["error"] for attempt in await attempts(store))


# -- job.also ----------------------------------------------------------------------------------------------------------


async def with_pages(store: Store, n: int = 1) -> Queue:
    """Create the table, and another one for extra statements."""
    queue = await tasks(store, n)
    await run(store, "CREATE TABLE pages (task integer, n integer CHECK (n < 100), UNIQUE (task, n))")
    return queue


@asynchronous
async def test_extra_statements_commit_with_the_finish(store: Store) -> None:
    """In order, with their values, in the same transaction."""
    queue = await with_pages(store, 2)
    jobs = await store.claim(queue, 2, "w")
    for job in jobs:
        job.also("INSERT INTO pages (task, n) VALUES (:task, :n)", task=job.key, n=1)
        job.also("UPDATE pages SET n = n + :more WHERE task = :task", task=job.key, more=4)
    verdicts = await store.settle([Settlement(job, "done", {"result": "x"}) for job in jobs])
    assert [verdict.outcome for verdict in verdicts] == ["done", "done"]
    assert await rows(store, "pages", "task") == [{"task": 1, "n": 5}, {"task": 2, "n": 5}]


@asynchronous
async def test_extra_statements_of_a_lost_claim_do_not_run(store: Store, clock: Clock) -> None:
    """Neither a stale token nor a superseded claim writes anything anywhere."""
    queue = await with_pages(store, 2)
    stale, superseded = await store.claim(queue, 2, "w")
    for job in (stale, superseded):
        job.also("INSERT INTO pages VALUES (:task, 1)", task=job.key)
    await run(store, "UPDATE tasks SET status = 'parked' WHERE id = 2")
    clock.advance(1000)
    await store.sweep(queue)
    for job in (stale, superseded):
        with pytest.raises(LeaseLost):
            await store.finish(job)
    assert await rows(store, "pages", "task") == []


@asynchronous
async def test_extra_statements_run_only_when_done(store: Store) -> None:
    """A job that failed or is retried leaves nothing behind."""
    queue = await with_pages(store, 2)
    jobs = await store.claim(queue, 2, "w")
    for job in jobs:
        job.also("INSERT INTO pages VALUES (:task, 1)", task=job.key)
    await store.fail(jobs[0], "bad")
    await store.retry(jobs[1], 0, "boom")
    assert await rows(store, "pages", "task") == []


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("INSERT INTO pages VALUES (:task, 500)", {"task": 1}),
        ("INSERT INTO nowhere VALUES (1)", {}),
        ("INSERT INTO pages VALUES (:task, :n)", {"task": 1}),
        ("UPDATE pages SET locked_until = 1", {}),
        ("UPDATE pages SET full_disk = 1", {}),
        ("THIS IS NOT SQL", {}),
    ],
)
@asynchronous
async def test_a_failing_extra_statement_fails_its_job(store: Store, statement: str, values: dict[str, Any]) -> None:
    """None of its statements stay, and the other jobs of the batch are accepted."""
    queue = await with_pages(store, 3)
    jobs = await store.claim(queue, 3, "w")
    jobs[1].also("INSERT INTO pages VALUES (2, 1)")
    jobs[1].also(statement, **values)
    verdicts = await store.settle([Settlement(job, "done", {"result": "x"}) for job in jobs])
    assert sorted((verdict.job.key, verdict.outcome) for verdict in verdicts) == [
        (1, "done"),
        (2, "failed"),
        (3, "done"),
    ]
    assert await rows(store, "pages", "task") == []
    found = await row(store, 2)
    assert (found["status"], found["result"]) == ("failed", None)


@asynchronous
async def test_a_single_finish_with_a_failing_statement_leaves_the_claim(store: Store) -> None:
    """`finish` raises, the row is still running, and a corrected finish is accepted."""
    queue = await with_pages(store)
    job = await claim_one(store, queue)
    job.also("INSERT INTO pages VALUES (1, 500)")
    with pytest.raises(StoreError):
        await store.finish(job, {"result": "x"})
    found = await row(store)
    assert (found["status"], found["result"]) == ("working", None)
    job._also.clear()
    await store.finish(job, {"result": "y"})


# -- lost answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["done", "failed", "retried", "limited", "released"])
@asynchronous
async def test_a_settlement_whose_answer_was_lost(store: Store, arm: Arm, outcome: Any) -> None:
    """Repeating it is accepted, and nothing happens twice."""
    queue = await with_pages(store, 2)
    jobs = await store.claim(queue, 2, "w")
    jobs[0].also("INSERT INTO pages VALUES (1, 1)")
    endings = [Settlement(job, outcome, {"result": "x"} if outcome == "done" else {}, "e", 5) for job in jobs]
    arm("settle.drop_ack:raise@1")
    with pytest.raises(Unreachable):
        await store.settle(endings)
    arm("")
    verdicts = await store.settle(endings)
    assert [verdict.outcome for verdict in verdicts] == [outcome] * 2
    after = await rows(store), await attempts(store), await rows(store, "pages", "task")
    assert await outcomes(store) == [outcome] * 2
    assert len(after[2]) == (1 if outcome == "done" else 0)
    assert [verdict.outcome for verdict in await store.settle(endings)] == [outcome] * 2
    assert (await rows(store), await attempts(store), await rows(store, "pages", "task")) == after


@asynchronous
async def test_a_settlement_that_never_arrived(store: Store, arm: Arm) -> None:
    """Nothing was written, the claim holds, and repeating it is accepted."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    arm("settle.pre_commit:raise@1")
    with pytest.raises(Unreachable):
        await store.finish(job, {"result": "x"})
    assert (await row(store))["status"] == "working"
    await store.finish(job, {"result": "x"})


@asynchronous
async def test_another_ending_after_a_lost_answer_is_refused(store: Store, arm: Arm) -> None:
    """The accepted ending stays: a later different ending of the same claim changes nothing."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    arm("settle.drop_ack:raise@1")
    with pytest.raises(Unreachable):
        await store.finish(job, {"result": "x"})
    with pytest.raises(LeaseLost):
        await store.retry(job, 0, "boom")
    assert (await row(store))["status"] == "done"


@asynchronous
async def test_a_claim_whose_answer_was_lost_is_recovered(store: Store, clock: Clock, arm: Arm) -> None:
    """The row is running without a worker until its lease ends; then any worker gets it."""
    queue = await tasks(store, 1, lease=60)
    arm("claim.drop_ack:raise@1")
    with pytest.raises(Unreachable):
        await store.claim(queue, 1, "w")
    assert (await row(store))["status"] == "working"
    [stray] = await roster.find_unknown_claims(store, "w", clock.at, set())
    assert stray["key"] == "1"
    clock.advance(61)
    assert len(await store.sweep(queue)) == 1
    assert (await claim_one(store, queue)).attempt == 2


# -- rows of other programs --------------------------------------------------------------------------------------------


@asynchronous
async def test_rows_left_running_by_other_programs(store: Store, clock: Clock) -> None:
    """They are counted, and taken over only past `stale_after` by their own start column; ours are not touched."""
    queue = await tasks(store, 4, stale_after=100)
    ours = await claim_one(store, queue)
    await run(store, "UPDATE tasks SET status = 'working', worker = 'legacy' WHERE id IN (2, 3)")
    await store.database.fetch(
        "UPDATE tasks SET started_at = (SELECT t.started_at FROM tasks AS t WHERE t.id = 1) WHERE id = 2"
    )
    assert await store.foreign(queue) == 2
    clock.advance(99)
    assert await store.take_over(queue) == 0
    clock.advance(2)
    assert await store.take_over(queue) == 1
    found = await row(store, 2)
    assert (found["status"], found["worker"], found["started_at"]) == ("new", None, None)
    assert (await row(store, 3))["status"] == "working"
    assert await store.foreign(queue) == 1
    assert await store.renew([ours]) == []
    assert [job.key for job in await store.claim(queue, 9, "w")] == [2, 4]


@asynchronous
async def test_rows_of_other_programs_are_left_alone_unless_declared(store: Store, clock: Clock) -> None:
    """Without `stale_after=` nothing is taken over, however old."""
    queue = await tasks(store, 1)
    await run(store, "UPDATE tasks SET status = 'working', started_at = '2000-01-01 00:00:00'")
    assert await store.take_over(queue) == 0
    assert await store.foreign(queue) == 1
    assert (await row(store))["status"] == "working"


# -- the rest ----------------------------------------------------------------------------------------------------------


@asynchronous
async def test_counts(store: Store) -> None:
    """Returns how many rows are in each state, up to a cap."""
    queue = await tasks(store, 6)
    jobs = await store.claim(queue, 3, "w")
    await store.finish(jobs[0])
    await store.fail(jobs[1], "bad")
    assert await store.counts(queue) == {"ready": 3, "running": 1, "done": 1, "failed": 1}
    assert await store.counts(queue, cap=2) == {"ready": 2, "running": 1, "done": 1, "failed": 1}


@asynchronous
async def test_adding_rows(store: Store) -> None:
    """Rows arrive ready, with their values; an empty list is allowed."""
    queue = await tasks(store)
    await store.add_many(queue, [])
    await store.add_many(queue, [{"id": number, "kind": f"k{number}"} for number in range(1, 4)])
    await store.add(queue, id=4, status="parked")
    found = await rows(store)
    assert [(r["status"], r["kind"]) for r in found] == [("new", "k1"), ("new", "k2"), ("new", "k3"), ("parked", None)]


@asynchronous
async def test_adding_rows_that_do_not_fit(store: Store) -> None:
    """An unknown column, uneven rows or a refused value add nothing and say why."""
    queue = await tasks(store)
    with pytest.raises(ValueRefused, match="did you mean 'kind'"):
        await store.add(queue, id=1, kindd="x")
    with pytest.raises(ValueRefused, match="all have the same columns"):
        await store.add_many(queue, [{"id": 1}, {"id": 2, "kind": "x"}])
    with pytest.raises(ValueRefused, match=r"(?i)check constraint"):
        await store.add_many(queue, [{"id": 1, "small": 1}, {"id": 2, "small": 1000}])
    assert await rows(store) == []


@asynchronous
async def test_adding_json(store: Store) -> None:
    """Dicts and lists go into JSON columns as they are."""
    await run(store, "CREATE TABLE t (id integer PRIMARY KEY, status text, body json)")
    queue = Queue("t", **STATES)
    await store.add_many(queue, [{"id": 1, "body": {"a": [1, "é"]}}, {"id": 2, "body": None}])
    assert [job["body"] for job in await store.claim(queue, 2, "w")] == [{"a": [1, "é"]}, None]


@asynchronous
async def test_the_database_provides_the_clock(store: Store, clock: Clock) -> None:
    """Tests set a clock instead; without one the database's own is used."""
    assert await store.now() == clock.at
    clock.advance(5.5)
    assert await store.now() == clock.at
    real = Store(store.url)
    try:
        assert await real.now() > 1_600_000_000
    finally:
        await real.close()


@asynchronous
async def test_a_store_may_be_closed_and_used_again(store: Store) -> None:
    """Closing returns the connections; the next move opens them."""
    queue = await tasks(store, 2)
    await claim_one(store, queue)
    await store.close()
    assert (await claim_one(store, queue)).key == 2


@pytest.mark.parametrize("url", ["mysql://host/db", "work.db", ""])
def test_an_unsupported_url_is_rejected(url: str) -> None:
    """The error shows an example of a valid database URL."""
    with pytest.raises(ConfigurationError, match=r"use sqlite:///file\.db or postgresql://"):
        Store(url)


def test_a_rejected_url_does_not_reveal_its_password() -> None:
    """Secrets stay out of messages."""
    with pytest.raises(ConfigurationError) as caught:
        Store("mysql://me:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


@asynchronous
async def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    """It is unreachable, which may pass; this is not an error of the job."""
    (tmp_path / "file").write_text("")
    for url in ("postgresql://nobody@127.0.0.1:1/x", f"sqlite:///{tmp_path}"):
        store = Store(url, deadline=5)
        with pytest.raises(Unreachable):
            await store.open()
        await store.close()
