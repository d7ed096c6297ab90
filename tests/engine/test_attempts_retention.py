"""Which attempts are removed, and that claims behave the same without them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tabellion import Store
from tabellion.engine.attempts_retention import AttemptsRule, find_removable
from tabellion.engine.retention import PruneStep
from tabellion.engine.settlement import Outcome, Settlement
from tabellion.errors import Unreachable
from tabellion.testing import Clock
from tests.engine.made_tables import STATES, asynchronous, attempts, claim_one, outcomes, row, run, tasks

DAY = 86_400.0


async def prune(store: Store, rule: AttemptsRule, *, dry_run: bool = False) -> PruneStep:
    """Walk over the whole register."""
    total = await rule.step(store, None, dry_run=dry_run)
    while total.position is not None:
        total += await rule.step(store, total.position, dry_run=dry_run)
    return total


async def settle(store: Store, queue: Any, *endings: Outcome) -> None:
    """Claim the first row in line as often as there are endings, and end each claim so."""
    for ending in endings:
        job = await claim_one(store, queue)
        await store.settle([Settlement(job, ending, error="no" if ending in ("failed", "retried") else None)])


@asynchronous
async def test_attempts_of_rows_that_are_done_are_removed(store: Store, clock: Clock) -> None:
    """All of them, once they are old enough; younger ones stay."""
    queue = await tasks(store, 2)
    await settle(store, queue, "retried", "done")
    clock.advance(DAY)
    await settle(store, queue, "done")
    rule = AttemptsRule([queue], DAY / 2)
    found = await prune(store, rule, dry_run=True)
    assert found.removed == 2
    assert found.oldest == pytest.approx(DAY, abs=5)
    assert len(await attempts(store)) == 3
    assert (await prune(store, rule)).removed == 2
    assert [one["key"] for one in await attempts(store)] == ["2"]
    assert (await prune(store, rule)).removed == 0


@asynchronous
async def test_nothing_of_a_row_that_waits_or_runs_is_removed(store: Store, clock: Clock) -> None:
    """Its last attempt has its counters and its due time, and others its costs."""
    queue = await tasks(store, 2, retry_base=DAY * 1000)
    job = await claim_one(store, queue)
    await store.settle([Settlement(job, "retried", error="no", after=DAY * 900)])
    await claim_one(store, queue)
    clock.advance(100 * DAY)
    assert (await prune(store, AttemptsRule([queue], DAY))).removed == 0
    assert await outcomes(store) == ["retried", None]


@asynchronous
async def test_a_failed_row_keeps_its_last_attempt(store: Store, clock: Clock) -> None:
    """It says why the row failed, and `retry --error` looks for it."""
    queue = await tasks(store, 1)
    await settle(store, queue, "retried", "failed")
    clock.advance(DAY)
    assert (await prune(store, AttemptsRule([queue], 1.0))).removed == 1
    [left] = await attempts(store)
    assert (left["n"], left["outcome"], left["error"]) == (2, "failed", "no")


@asynchronous
async def test_a_parked_row_keeps_its_last_attempt(store: Store, clock: Clock) -> None:
    """Without it the row would seem to be left running by another program, and be taken over."""
    await store.open()
    await run(
        store,
        "CREATE TABLE tasks (id integer PRIMARY KEY, status text CHECK (status <> 'failed'))",
        "INSERT INTO tasks VALUES (1, 'new')",
    )
    from tabellion import Queue

    queue = Queue("tasks", **STATES, try_states=False)
    await settle(store, queue, "failed")
    assert await outcomes(store) == ["parked"]
    clock.advance(DAY)
    assert (await prune(store, AttemptsRule([queue], 1.0))).removed == 0


@asynchronous
async def test_a_done_row_that_was_edited_by_hand_keeps_its_counters(store: Store, clock: Clock) -> None:
    """Its owner set it to done while it waited: put back to ready, it continues where it was."""
    queue = await tasks(store, 1)
    await settle(store, queue, "retried")
    await run(store, "UPDATE tasks SET status = 'done'")
    clock.advance(DAY)
    assert (await prune(store, AttemptsRule([queue], 1.0))).removed == 0
    await run(store, "UPDATE tasks SET status = 'new'")
    assert (await claim_one(store, queue)).attempt == 2


@asynchronous
async def test_attempts_of_deleted_rows_are_removed(store: Store, clock: Clock) -> None:
    """Whatever they ended as; a new row with the same key starts anew."""
    queue = await tasks(store, 1)
    await settle(store, queue, "retried")
    await run(store, "DELETE FROM tasks")
    clock.advance(DAY)
    assert (await prune(store, AttemptsRule([queue], 1.0))).removed == 1
    await run(store, "INSERT INTO tasks (id) VALUES (1)")
    job = await claim_one(store, queue)
    assert (job.n, job.attempt) == (1, 1)


@asynchronous
async def test_a_row_without_its_history_is_claimed_as_before(store: Store, clock: Clock) -> None:
    """Put back to ready by its owner, it is attempt 1, with history and without it."""
    queue = await tasks(store, 2)
    await settle(store, queue, "retried", "done", "done")
    clock.advance(DAY)
    await prune(store, AttemptsRule([queue], 1.0))
    await run(store, "UPDATE tasks SET status = 'new'")
    jobs = await store.claim(queue, 2, "w")
    assert [(job.n, job.attempt, job.crashes) for job in jobs] == [(1, 1, 0), (1, 1, 0)]
    await store.finish(jobs[0], {"result": "again"})
    assert (await row(store))["result"] == "again"


@asynchronous
async def test_only_declared_queues_are_touched(store: Store, clock: Clock) -> None:
    """Nobody here knows the states of the others' rows; a queue whose table is gone is left alone, too."""
    queue = await tasks(store, 1)
    await settle(store, queue, "done")
    clock.advance(DAY)
    from tabellion import Queue

    assert (await prune(store, AttemptsRule([Queue("tasks", name="other", **STATES)], 1.0))).removed == 0
    assert (await prune(store, AttemptsRule([Queue("nowhere", name="tasks", **STATES)], 1.0))).removed == 0
    assert await outcomes(store) == ["done"]


@asynchronous
async def test_a_walk_over_many_windows(store: Store, clock: Clock) -> None:
    """Every attempt is met, whatever the window; a walk takes several steps, and a dry run counts each attempt once."""
    queue = await tasks(store)
    await store.open()
    many = "SELECT i FROM generate_series(0, 4999) AS i"  # two of each row, far from each other
    if store.dialect == "sqlite":
        many = "WITH RECURSIVE s (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 4999) SELECT i FROM s"
    token = "gen_random_uuid()" if store.dialect == "postgresql" else "'t'"
    when = str(clock() - 9 * DAY) if store.dialect == "sqlite" else f"to_timestamp({clock() - 9 * DAY})"
    await run(
        store,
        f"""INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
  claimed_at, lease_until, settled_at, outcome)
SELECT 'tasks', CAST(i % 2500 AS text), 1 + i / 2500, {token}, 1, 0, 0, 'w', {when}, {when}, {when}, {when}, 'done'
FROM ({many}) AS m""",
    )
    rule = AttemptsRule([queue], DAY)
    assert (await prune(store, rule, dry_run=True)).removed == 5000
    first = await rule.step(store, None)
    assert 0 < first.removed < 5000
    assert first.position is not None
    assert (await prune(store, rule)).removed == 5000 - first.removed
    assert await attempts(store) == []


@asynchronous
async def test_a_crash_between_two_deletions_loses_nothing_else(
    store: Store, clock: Clock, arm: Callable[[str], None]
) -> None:
    """What was committed is gone, the rest goes at the next step; a step before its commit changes nothing."""
    queue = await tasks(store, 3)
    await settle(store, queue, "retried", "done", "failed")
    clock.advance(DAY)
    for place, left in (("prune.pre_commit", 3), ("prune.post_commit", 1)):
        arm(f"{place}:raise")
        with pytest.raises(Unreachable):
            await prune(store, AttemptsRule([queue], 1.0))
        arm("")
        assert len(await attempts(store)) == left
    assert (await prune(store, AttemptsRule([queue], 1.0))).removed == 0
    assert await outcomes(store) == ["failed"]


@asynchronous
async def test_claims_beside_pruning(store: Store, clock: Clock) -> None:
    """Rows that are claimed, finished and put back while others prune: every claim is whole and alone."""
    queue = await tasks(store, 20)
    rule = AttemptsRule([queue], 0.001)
    running = True

    async def prune_on() -> int:
        removed = 0
        while running:
            removed += (await prune(store, rule)).removed
            await asyncio.sleep(0)
        return removed

    pruning = asyncio.gather(prune_on(), prune_on())
    for _ in range(30):
        jobs = await store.claim(queue, 20, "w")
        assert len({job.text_key for job in jobs}) == 20
        assert {job.attempt for job in jobs} == {1}
        assert all(verdict.outcome == "done" for verdict in await store.settle([Settlement(j, "done") for j in jobs]))
        clock.advance(1.0)
        await run(store, "UPDATE tasks SET status = 'new'")
    running = False
    assert sum(await pruning) > 0


def history(*endings: str | None, old: int = 99) -> list[dict[str, Any]]:
    """Return attempts of one row with these outcomes, the first `old` of them old."""
    return [{"n": n, "outcome": one, "old": int(n <= old), "age": 1.0} for n, one in enumerate(endings, 1)]


@pytest.mark.parametrize(
    ("attempts", "state", "removable"),
    [
        (history("retried", "done"), "done", 2),
        (history("retried", "done"), "other", 2),
        (history("retried", "done"), "ready", 0),
        (history("retried", "done"), "running", 0),
        (history("retried", None), "done", 0),
        (history("done", "retried"), "done", 1),
        (history("done", "crashed"), "other", 1),
        (history("done", "released"), "gone", 2),
        (history("retried", "failed"), "failed", 1),
        (history("retried", "failed"), "done", 2),
        (history("retried", "parked"), "other", 1),
        (history("done", "done", "done", old=1), "done", 1),
        (history("done", old=0), "done", 0),
        ([], "done", 0),
    ],
)
def test_what_is_removable(attempts: list[dict[str, Any]], state: str, removable: int) -> None:
    """Old attempts from the first on, without what the next claim, or a person, needs."""
    assert len(find_removable(attempts, state)) == removable
