"""Jobs whose row the database lets nobody change: parked once, reported correctly, and back once the table is fixed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion import Environment, Queue, Store, Worker
from tabellion.engine import controls
from tabellion.engine.events import Event
from tabellion.engine.settlement import Settlement
from tabellion.errors import StoreError
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import asynchronous, attempts, claim_one, outcomes, row, run, tasks
from tests.engine.tables.test_transitions import ILLEGAL, refuse
from tests.table_owner import Owner, jobs_queue


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-15", "pooled"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on every supported database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


async def stuck(store: Store, *outcomes_refused: str, n: int = 1) -> Queue:
    """Create a table that refuses these states."""
    queue = await tasks(store, n, lease=60, stale_after=600)
    await refuse(store, " OR ".join(f"NEW.status = '{one}'" for one in outcomes_refused))
    return queue


async def release_trigger(store: Store) -> None:
    """Fix the table, as its owner."""
    await run(store, "DROP TRIGGER guard" + (" ON tasks" if store.dialect == "postgresql" else ""))


@asynchronous
async def test_a_failure_that_cannot_be_written_is_parked(store: Store) -> None:
    """The attempt ends with the job's own error and the database's message; the row stays as it is."""
    queue = await stuck(store, "failed", n=2)
    job, other = await store.claim(queue, 2, "w")
    before = await row(store)
    verdicts = await store.settle([Settlement(job, "failed", error="no such file"), Settlement(other, "done")])
    assert {verdict.job.key: verdict.outcome for verdict in verdicts} == {1: "parked", 2: "done"}
    [parked] = [verdict for verdict in verdicts if verdict.outcome == "parked"]
    [attempt] = await attempts(store, 1)
    assert attempt["outcome"] == "parked"
    assert attempt["settled_at"] is not None
    assert attempt["error"] == parked.error
    for words in ("the database rejects the state failed (status = 'failed')", ILLEGAL, "no such file"):
        assert words in attempt["error"]
    assert await row(store) == before


@asynchronous
async def test_a_result_whose_failure_is_refused_too(store: Store) -> None:
    """Both refusals are reported."""
    queue = await stuck(store, "failed")
    job = await claim_one(store, queue)
    [verdict] = await store.settle([Settlement(job, "done", {"small": 500})])
    assert verdict.outcome == "parked"
    assert "the result could not be written" in (verdict.error or "")
    assert ILLEGAL in (verdict.error or "")


@asynchronous
async def test_a_refused_retry_fails_with_the_right_reason(store: Store) -> None:
    """Where only ready is refused, the job fails, and the message is not about a result."""
    queue = await stuck(store, "new")
    job = await claim_one(store, queue)
    [verdict] = await store.settle([Settlement(job, "retried", error="boom", after=5)])
    assert verdict.outcome == "failed"
    found = await row(store)
    assert found["status"] == "failed"
    assert found["error"].startswith("boom; the row could not be put back to ready: ")
    assert ILLEGAL in found["error"]


@pytest.mark.parametrize("refused", [("new", "failed"), ("failed",)], ids=["crashed", "quarantined"])
@asynchronous
async def test_a_refused_sweep_is_reported_once(store: Store, clock: Clock, refused: tuple[str, ...]) -> None:
    """The claim of a dead worker is parked: later sweeps report nothing."""
    queue = await tasks(store, 1, lease=60)
    if refused == ("failed",):
        await claim_one(store, queue)
        clock.advance(61)
        await store.sweep(queue)
    await claim_one(store, queue)
    await refuse(store, " OR ".join(f"NEW.status = '{one}'" for one in refused))
    clock.advance(61)
    [swept] = await store.sweep(queue)
    assert swept.outcome == "parked"
    assert ILLEGAL in (swept.error or "")
    assert "w1" in (swept.error or "")
    clock.advance(61)
    assert await store.sweep(queue) == []
    assert (await outcomes(store))[-1] == "parked"


@asynchronous
async def test_a_sweep_reports_what_was_written(store: Store, clock: Clock) -> None:
    """A crash whose row cannot go back to ready is a failure, and is reported as one."""
    queue = await stuck(store, "new")
    await claim_one(store, queue)
    clock.advance(61)
    [swept] = await store.sweep(queue)
    assert (swept.outcome, (await row(store))["status"]) == ("failed", "failed")
    assert ILLEGAL in (swept.error or "")


@asynchronous
async def test_a_live_claim_is_not_failed_by_a_sweep(store: Store, clock: Clock) -> None:
    """The second try of a refused sweep keeps the condition of the first: the lease has expired."""
    queue = await stuck(store, "new")
    job = await claim_one(store, queue)
    [verdict] = await store.settle([Settlement(job, "crashed", error="late", expired_only=True)])
    assert verdict.outcome is None
    assert await store.renew([job]) == []


@asynchronous
async def test_a_parked_row_is_left_alone(store: Store, clock: Clock) -> None:
    """It is not claimed, not taken over, and not attributed to another worker."""
    queue = await stuck(store, "failed")
    await store.settle([Settlement(await claim_one(store, queue), "failed", error="bad")])
    clock.advance(10_000)
    assert await store.claim(queue, 5, "w") == []
    assert await store.foreign(queue) == 0
    assert await store.take_over(queue) == 0
    assert not await store.has_work(queue)


@asynchronous
async def test_explain_names_the_refusal(store: Store) -> None:
    """The state is parked; the sentences name the refusal and the way out."""
    queue = await stuck(store, "failed")
    await store.settle([Settlement(await claim_one(store, queue), "failed", error="no such file")])
    found = await store.explain(queue, 1)
    assert found.state == "parked"
    text = " ".join(found.sentences)
    for words in (ILLEGAL, "no such file", "tabellion retry tasks 1", "tabellion cancel tasks 1"):
        assert words in text
    assert "a worker outside tabellion" not in text


@asynchronous
async def test_a_parked_row_is_restarted(store: Store) -> None:
    """By key or by error text; its next claim starts with fresh counters."""
    queue = await stuck(store, "failed")
    for terms in ({"keys": [1]}, {"error": "bad"}, {}):
        await store.settle([Settlement(await claim_one(store, queue), "failed", error="bad")])
        assert await controls.restart(store, queue, [2]) == 0
        assert await controls.restart(store, queue, **terms) == 1
    job = await claim_one(store, queue)
    assert (job.attempt, job.crashes, job.n) == (1, 0, 4)
    await store.finish(job)


@asynchronous
async def test_a_parked_row_is_cancelled_once_the_table_is_fixed(store: Store) -> None:
    """Until then the database refuses, and so does cancel."""
    queue = await stuck(store, "failed")
    await store.settle([Settlement(await claim_one(store, queue), "failed", error="bad")])
    with pytest.raises(StoreError, match=ILLEGAL):
        await controls.cancel(store, queue, 1, "not wanted")
    await release_trigger(store)
    assert await controls.cancel(store, queue, 1, "not wanted")
    assert (await row(store))["status"] == "failed"
    assert await outcomes(store) == ["parked", "cancelled"]


@asynchronous
async def test_its_owner_can_set_it_to_ready(store: Store) -> None:
    """A row set to ready by its owner is claimed like any other."""
    queue = await stuck(store, "failed")
    await store.settle([Settlement(await claim_one(store, queue), "failed", error="bad")])
    await run(store, "UPDATE tasks SET status = 'new'")
    job = await claim_one(store, queue)
    assert job.attempt == 1
    await store.finish(job)
    assert await outcomes(store) == ["parked", "done"]


@asynchronous
async def test_cancelling_a_running_job_that_cannot_fail(store: Store) -> None:
    """Its claim ends, its row stays, and the refusal is reported instead of a success."""
    queue = await stuck(store, "failed")
    job = await claim_one(store, queue)
    with pytest.raises(StoreError, match=ILLEGAL):
        await controls.cancel(store, queue, 1, "not wanted")
    assert await store.renew([job]) == [job]
    assert await outcomes(store) == ["parked"]


def test_a_worker_reports_it_once_and_stops_when_idle(url: str, owner: Owner, often: None) -> None:
    """One event for the parked job; a worker that stops when idle does not wait for it."""
    owner.insert(*range(1, 6))
    if owner.dialect == "sqlite":
        owner(
            "CREATE TRIGGER guard BEFORE UPDATE ON jobs WHEN NEW.status = 'failed' AND NEW.id = 4 "
            f"BEGIN SELECT RAISE(ABORT, '{ILLEGAL}'); END"
        )
    else:
        owner(
            "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.status = 'failed' AND "
            f"NEW.id = 4 THEN RAISE EXCEPTION '{ILLEGAL}'; END IF; RETURN NEW; END $$"
        )
        owner("CREATE TRIGGER guard BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION guard()")
    queue = jobs_queue(max_attempts=1)

    @queue.handler
    async def work(job: object) -> None:
        raise ValueError("bad file")

    events: list[Event] = []
    worker = Worker([Environment("here", url)], [queue], listeners=[events.append], concurrency=2)
    asyncio.run(asyncio.wait_for(worker.serve(until_idle=True), 30))
    assert [(event.key, event.name) for event in events if event.name in ("parked", "lease_lost")] == [("4", "parked")]
    assert sorted(event.key for event in events if event.name == "failed") == ["1", "2", "3", "5"]
    assert owner.row(4)["status"] == "running"
    counted = owner("SELECT sum(failed) AS failed FROM tabellion_counts")
    assert owner("SELECT failed FROM tabellion_workers") == counted == [{"failed": 5}]


@asynchronous
async def test_an_orphan_that_cannot_be_released(store: Store) -> None:
    """The other rows are taken over all the same."""
    queue = await tasks(store, 3, stale_after=60)
    await run(store, "UPDATE tasks SET status = 'working', started_at = '1969-01-01 00:00:00+00:00'")
    await refuse(store, "NEW.id = 2 AND NEW.status = 'new'")
    assert await store.take_over(queue) == 2
    assert await store.foreign(queue) == 1
