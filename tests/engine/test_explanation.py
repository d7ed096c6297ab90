"""Why is this row not running? Answered in sentences."""

from __future__ import annotations

import re

import pytest

from tabellion import Queue, Store
from tabellion.engine import controls
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.testing import Clock
from tests.engine.made_tables import STATES, asynchronous, claim_one, run, tasks


async def joined(store: Store, queue: Queue, key: object) -> str:
    """All sentences as one text."""
    return " ".join((await store.explain(queue, key)).sentences)


async def add_worker(store: Store, busy: int = 0) -> None:
    """Register a live worker with one slot."""
    worker = WorkerRecord("w1", "host", 1, "boot", "0", "tasks", 1, busy=busy)
    await roster.enlist(store, worker)
    await roster.beat(store, worker)


@asynchronous
async def test_a_missing_row(store: Store) -> None:
    """The table and the key are named."""
    queue = await tasks(store)
    explanation = await store.explain(queue, 7)
    assert explanation.state == "missing"
    assert explanation.sentences == ["There is no row with id = 7 in tasks."]


@asynchronous
async def test_a_queue_without_a_worker(store: Store) -> None:
    """The most common reason comes with the command that helps."""
    queue = await tasks(store, 1)
    assert "No live worker serves this queue: start one with `tabellion worker`." in await joined(store, queue, 1)


@asynchronous
async def test_next_in_line_and_further_back(store: Store) -> None:
    """With a free worker, the only thing left to explain is the position in line."""
    queue = await tasks(store, 3)
    await add_worker(store)
    assert "it is next in the queue" in await joined(store, queue, 1)
    assert "2 ready rows are ahead of it" in await joined(store, queue, 3)


@asynchronous
async def test_rows_that_cannot_be_claimed_are_not_counted_ahead(store: Store) -> None:
    """Rows that do not meet the queue's condition do not count."""
    queue = await tasks(store, 6, where="id > 4 -- the others are drafts")
    await add_worker(store)
    assert "it is next in the queue" in await joined(store, queue, 5)
    assert "1 ready rows are ahead of it" in await joined(store, queue, 6)


@asynchronous
async def test_all_workers_are_busy(store: Store) -> None:
    """The sentence says how many slots are all taken."""
    queue = await tasks(store, 1)
    await add_worker(store, busy=1)
    assert "All 1 workers of this queue are full" in await joined(store, queue, 1)


@asynchronous
async def test_a_paused_queue(store: Store, clock: Clock) -> None:
    """The sentence says since when, why, and how to resume."""
    queue = await tasks(store, 1)
    await controls.pause(store, queue, "maintenance")
    clock.advance(300)
    text = await joined(store, queue, 1)
    assert "The queue has been paused for 5 minutes (maintenance): `tabellion resume tasks`." in text


@asynchronous
async def test_a_limit_that_is_reached(store: Store) -> None:
    """The declared or current limit and the number of running jobs are given."""
    queue = await tasks(store, 3, limit=1)
    await claim_one(store, queue)
    text = await joined(store, queue, 2)
    assert "1 jobs of this queue are running and its limit for all workers together is 1." in text
    await controls.limit(store, queue, 2)
    assert "limit" not in await joined(store, queue, 2)


@asynchronous
async def test_a_condition_that_is_not_met(store: Store) -> None:
    """The condition is quoted."""
    queue = await tasks(store, 1, where="kind = 'a'")
    assert "It does not meet the queue's condition: kind = 'a'." in await joined(store, queue, 1)


@asynchronous
async def test_a_retry_that_is_not_due(store: Store, clock: Clock) -> None:
    """The sentence says when it failed, with which error, and when it is due."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 600, "boom")
    clock.advance(60)
    text = await joined(store, queue, 1)
    assert "Attempt 1 failed 60 s ago (boom); it is due again in 9 minutes." in text
    clock.advance(541)
    assert "due again" not in await joined(store, queue, 1)


@asynchronous
async def test_a_rate_limit_and_a_release(store: Store) -> None:
    """A deferral is called a deferral."""
    queue = await tasks(store, 1)
    await store.defer(await claim_one(store, queue), 600, "429")
    assert "Attempt 1 was rate limited 0 s ago (429)" in await joined(store, queue, 1)


@asynchronous
async def test_a_row_its_owner_set_back(store: Store) -> None:
    """The old claim still blocks the row, and the sentence says until when."""
    queue = await tasks(store, 1)
    await claim_one(store, queue, "w7")
    await run(store, "UPDATE tasks SET status = 'new'")
    text = await joined(store, queue, 1)
    assert "It was set to ready by its owner while w7" in text
    assert "only then can the row be claimed again" in text


@asynchronous
async def test_a_running_job(store: Store, clock: Clock) -> None:
    """The sentences give worker, start, progress and how long the lease lasts."""
    queue = await tasks(store, 1, lease=600)
    job = await claim_one(store, queue, "w7")
    job.note("page 12 of 40")
    await store.renew([job])
    clock.advance(30)
    explanation = await store.explain(queue, 1)
    assert explanation.state == "running"
    assert explanation.sentences == [
        "It is running: w7 claimed it 30 s ago, attempt 1.",
        "Last note: page 12 of 40.",
        "Its lease is valid for another 10 minutes.",
    ]
    clock.advance(600)
    assert "Its lease expired 30 s ago" in await joined(store, queue, 1)


@asynchronous
async def test_a_row_run_by_another_program(store: Store) -> None:
    """The register has no claim: the sentences say what that means and what to declare."""
    queue = await tasks(store, 1)
    await run(store, "UPDATE tasks SET status = 'working'")
    text = await joined(store, queue, 1)
    assert "no claim of it is in the register" in text
    assert "stale_after=" in text


@asynchronous
async def test_a_done_row(store: Store, clock: Clock) -> None:
    """The sentence says who finished it, when, and on which attempt."""
    queue = await tasks(store, 1)
    await store.finish(await claim_one(store, queue, "w7"))
    clock.advance(10)
    explanation = await store.explain(queue, 1)
    assert explanation.state == "done"
    assert "w7 finished it 10 s ago, on attempt 1." in explanation.sentences


@asynchronous
async def test_a_failed_row(store: Store) -> None:
    """The sentences give the error and the command that retries it."""
    queue = await tasks(store, 1)
    await store.fail(await claim_one(store, queue), "empty PDF")
    text = await joined(store, queue, 1)
    assert "It has failed: status = 'failed'." in text
    assert "empty PDF" in text
    assert "tabellion retry tasks" in text


@asynchronous
async def test_a_row_failed_by_another_program(store: Store) -> None:
    """The register has no attempt and the sentence says so."""
    queue = await tasks(store, 1)
    await run(store, "UPDATE tasks SET status = 'failed'")
    assert "this state was not set by tabellion" in await joined(store, queue, 1)


@asynchronous
async def test_a_row_in_no_known_state(store: Store) -> None:
    """The sentences give its values, and what they would have to be."""
    queue = await tasks(store, 1)
    await run(store, "UPDATE tasks SET status = 'parked'")
    explanation = await store.explain(queue, 1)
    assert explanation.state == "elsewhere"
    assert explanation.sentences == [
        "It is in none of this queue's states: status = 'parked'.",
        "To be claimed, it must be status = 'new'.",
    ]


@asynchronous
async def test_the_history_is_newest_first(store: Store) -> None:
    """Every attempt is listed with its outcome and error."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 0, "boom")
    await store.fail(await claim_one(store, queue), "bad")
    history = (await store.explain(queue, 1)).history
    assert [(each["n"], each["outcome"], each["error"]) for each in history] == [
        (2, "failed", "bad"),
        (1, "retried", "boom"),
    ]


@pytest.mark.parametrize("column", ["timestamp", "text", "double precision"])
@asynchronous
async def test_the_position_in_line_for_any_order_column(store: Store, column: str) -> None:
    """The position is found whatever the order's first column holds, NULLs included."""
    await run(
        store,
        f"CREATE TABLE t (id integer PRIMARY KEY, status text, rank {column})",
        *(f"INSERT INTO t VALUES ({key}, 'new', {rank})" for key, rank in ((1, "'2024-01-01'"), (2, "NULL"))
          if column != "double precision"),
        *(["INSERT INTO t VALUES (1, 'new', 1.5), (2, 'new', NULL)"] if column == "double precision" else []),
    )  # fmt: skip
    queue = Queue("t", name="tasks", order="rank DESC", **STATES)
    await add_worker(store)
    for key in (1, 2):
        assert re.search("next in the queue|ahead of it", await joined(store, queue, key))
