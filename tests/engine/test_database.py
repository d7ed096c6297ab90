"""What clients other than workers need of a database: selected rows, changes under a claim, conditional endings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.engine.moves import Terms
from tabellion.engine.settlement import Settlement
from tabellion.errors import LeaseLost, ValueRefused
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import asynchronous, claim_one, outcomes, row, rows, run, tasks

NOTE = "INSERT INTO notes (task, said) VALUES (:task, :said)"


@pytest.fixture(params=["sqlite", "postgresql", "pooled"])
def place(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on an empty database, using the test's clock; a transaction pooler included."""
    return store_on(request.param, empty_database, tmp_path, clock)


async def read_notes(store: Store) -> list[tuple[int, str]]:
    """What was written beside the moves."""
    return [(one["task"], one["said"]) for one in await rows(store, "notes", "task")]


async def notes(store: Store) -> None:
    """A table for what is written beside the moves."""
    await run(store, "CREATE TABLE notes (task integer, said text)")


@asynchronous
async def test_a_guarded_transaction_is_all_or_nothing(place: Store) -> None:
    """Unless its first statement returns a row, none of its statements counts."""
    await tasks(place, 2)
    await notes(place)
    guard = "UPDATE tasks SET kind = 'seen' WHERE id = $1 AND kind IS NULL RETURNING id"
    also: tuple[str, tuple[Any, ...]] = ("INSERT INTO notes (task, said) VALUES ($1, 'x')", (1,))
    assert await place.database.transact([(guard, (1,)), also], guarded=True) == [[{"id": 1}], []]
    assert await place.database.transact([(guard, (1,)), also], guarded=True) == []
    assert await place.database.transact([also, (guard, (2,))], guarded=True) == []
    assert await read_notes(place) == [(1, "x")]
    assert (await row(place, 2))["kind"] is None


@asynchronous
async def test_conditions_select_among_ready_rows(place: Store) -> None:
    """A condition with its own values selects among the ready rows; their order stays."""
    queue = await tasks(place, 5)
    await run(place, "UPDATE tasks SET kind = 'b' WHERE id IN (2, 4)", "UPDATE tasks SET kind = 'c' WHERE id = 5")
    terms = Terms("t.kind = :kind OR t.kind = :other", {"kind": "c", "other": "b"})
    assert [job.key for job in await place.claim(queue, 2, "w", terms=terms)] == [2, 4]
    assert [job.key for job in await place.claim(queue, 2, "w", terms=terms)] == [5]
    assert await place.claim(queue, 2, "w", terms=terms) == []
    assert [job.key for job in await place.claim(queue, 9, "w")] == [1, 3]


@asynchronous
async def test_one_row_can_be_claimed_by_its_key(place: Store) -> None:
    """It may be anywhere in the line, but must be due and not claimed."""
    queue = await tasks(place, 5)
    [job] = await place.claim(queue, 1, "w", terms=Terms(only=4))
    assert job.key == 4
    assert await place.claim(queue, 1, "w", terms=Terms(only=4)) == []
    await place.defer(job, 60, "later")
    assert await place.claim(queue, 1, "w", terms=Terms(only=4)) == []
    assert [job.key for job in await place.claim(queue, 1, "w", terms=Terms(only=4, early=True))] == [4]
    assert await place.claim(queue, 1, "w", terms=Terms("t.id < :most", {"most": 3}, only=3)) == []
    assert [job.key for job in await place.claim(queue, 1, "w", terms=Terms(only=3))] == [3]


@asynchronous
async def test_statements_commit_with_the_claim(place: Store) -> None:
    """They run for each claimed row with its values; one that fails undoes the claim."""
    queue = await tasks(place, 3)
    await notes(place)
    terms = Terms(also=lambda job: [(NOTE, {"task": job.key, "said": f"{job.worker} {job.attempt}"})])
    assert len(await place.claim(queue, 2, "w", terms=terms)) == 2
    assert await read_notes(place) == [(1, "w 1"), (2, "w 1")]
    broken = Terms(also=lambda job: [("UPDATE tasks SET small = 200 WHERE id = :id", {"id": job.key})])
    with pytest.raises(ValueRefused):
        await place.claim(queue, 1, "w", terms=broken)
    assert (await row(place, 3))["status"] == "new"
    assert len(await outcomes(place)) == 2
    limited = await place.claim(queue, 5, "w", limited=True, terms=terms)
    assert [job.key for job in limited] == [3]
    assert (await read_notes(place))[-1] == (3, "w 1")


@asynchronous
async def test_a_holder_changes_data_under_its_claim(place: Store, clock: Clock) -> None:
    """The statements and the extended lease are one transaction; nothing happens where the first returns no row."""
    queue = await tasks(place, 2, lease=60)
    await notes(place)
    job = await claim_one(place, queue)
    held = await place.find_claim(queue, 1)
    assert held is not None
    assert (held.token, held.worker, held.n) == (job.token, "w1", job.n)
    assert await place.held(queue, 2) is None  # the former name of find_claim
    change = "UPDATE tasks SET kind = $2 WHERE id = $1 AND kind IS NULL RETURNING kind"
    note: tuple[str, list[Any]] = ("INSERT INTO notes (task, said) VALUES ($1, 'x')", [1])
    clock.advance(50)
    assert await place.amend(held, [(change, [1, "first"]), note]) == [[{"kind": "first"}], []]
    clock.advance(50)
    assert await place.amend(held, [(change, [1, "second"]), note]) == []
    assert await place.sweep(queue) == []
    clock.advance(20)
    assert len(await place.sweep(queue)) == 1
    with pytest.raises(LeaseLost):
        await place.amend(held, [("UPDATE tasks SET kind = 'x' WHERE id = 1 RETURNING id", []), note])
    assert await read_notes(place) == [(1, "x")]
    assert (await row(place, 1))["kind"] == "first"


@asynchronous
async def test_a_claim_whose_row_was_changed_by_its_owner_amends_nothing(place: Store) -> None:
    """The owner's change wins: the claim is superseded."""
    queue = await tasks(place, 1)
    job = await claim_one(place, queue)
    await run(place, "UPDATE tasks SET status = 'cancelled' WHERE id = 1")
    with pytest.raises(LeaseLost):
        await place.amend(job, [("UPDATE tasks SET kind = 'x' WHERE id = 1 RETURNING id", [])])
    assert (await row(place, 1))["kind"] is None
    assert await outcomes(place) == ["superseded"]


@pytest.mark.parametrize("outcome", ["done", "released", "limited"])
@asynchronous
async def test_any_ending_may_carry_statements(place: Store, outcome: Any) -> None:
    """They commit with it; the job's own only when it finishes; a guard that returns no row undoes everything."""
    queue = await tasks(place, 2)
    await notes(place)
    job = await claim_one(place, queue)
    job.also(NOTE, task=0, said="own")
    asked = ("SELECT 1 AS one FROM tasks WHERE id = :id AND kind = :kind", {"id": 1, "kind": "k"})
    also = [(NOTE, {"task": 1, "said": outcome})]
    after = 60.0 if outcome == "limited" else None
    with pytest.raises(LeaseLost):
        await place.end(Settlement(job, outcome, after=after, also=also, guard=asked))
    assert (await row(place, 1))["status"] == "working"
    assert await outcomes(place) == [None]
    assert await read_notes(place) == []
    await run(place, "UPDATE tasks SET kind = 'k' WHERE id = 1")
    await place.end(Settlement(job, outcome, after=after, also=also, guard=asked))
    assert await outcomes(place) == [outcome]
    assert await read_notes(place) == ([(0, "own")] if outcome == "done" else []) + [(1, outcome)]
    for again in (outcome, "failed"):
        with pytest.raises(LeaseLost):
            await place.end(Settlement(job, again, error="x", also=also))
    assert len(await read_notes(place)) == (2 if outcome == "done" else 1)


@asynchronous
async def test_endings_with_statements_are_separate_in_a_batch(place: Store) -> None:
    """They are settled beside plain ones, each with its own statements."""
    queue = await tasks(place, 4)
    await notes(place)
    jobs = await place.claim(queue, 4, "w")
    endings = [
        Settlement(job, "released", also=[(NOTE, {"task": job.key, "said": "x"})] if job.key > 2 else ())
        for job in jobs
    ]
    assert all(verdict.is_accepted for verdict in await place.settle(endings))
    assert await read_notes(place) == [(3, "x"), (4, "x")]


@asynchronous
async def test_attached_statements_get_the_time(store: Store, clock: Clock) -> None:
    """It comes from the database's clock, or the test's."""
    queue = await tasks(store, 1)
    kind = "timestamp with time zone" if store.dialect == "postgresql" else "REAL"
    await run(store, f"CREATE TABLE times (at {kind})")
    job = await claim_one(store, queue)
    job.also("INSERT INTO times (at) VALUES (@now@)")
    await store.finish(job)
    at = "extract(epoch FROM at)" if store.dialect == "postgresql" else "at"
    [found] = await store.database.fetch(f"SELECT {at} AS at FROM times")
    assert float(found["at"]) == pytest.approx(clock())
