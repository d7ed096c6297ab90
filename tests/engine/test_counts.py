"""Counts of settled jobs: written with the settlement, added up as they age."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.engine import counts
from tabellion.engine.register_tables import SCHEMA
from tabellion.engine.settlement import Settlement
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, tasks
from tests.monitor.settled import fail, settle


async def sums(store: Store, since: float = 0) -> dict[str, float]:
    """Everything that was counted, whatever the period."""
    rows = await counts.read(store.database, since)
    return {name: float(sum(row[name] for row in rows)) for name in (*counts.NUMBERS, "cost")}


async def periods(store: Store) -> list[int]:
    """The period of every row."""
    rows = await store.database.fetch("SELECT period FROM tabellion_counts ORDER BY period")
    return [row["period"] for row in rows]


@asynchronous
async def test_every_ending_is_counted_once(store: Store, clock: Clock) -> None:
    """In batches or alone, with attached statements or without; a deferral counts only its cost, a release nothing."""
    queue = await tasks(store, 20)
    jobs = await store.claim(queue, 5, "w")
    await store.settle([Settlement(job, "done") for job in jobs])
    await fail(store, queue, "bad", "worse")
    await settle(store, queue, "retried", error="again", after=60.0, cost=0.5)
    await settle(store, queue, "limited", error="wait", after=60.0, cost=0.25)
    await settle(store, queue, "released")
    job = await claim_one(store, queue)
    job.cost = 0.125
    job.also("UPDATE tasks SET kind = :kind WHERE id = :id", kind="seen", id=job.key)
    await store.finish(job)
    assert await sums(store) == {"done": 6, "failed": 2, "retried": 1, "cost": 0.875}


@asynchronous
async def test_endings_that_were_not_accepted_are_not_counted(store: Store, clock: Clock) -> None:
    """This applies to a row its owner changed meanwhile and to a claim that is gone."""
    queue = await tasks(store, 3)
    [taken, mine, late] = await store.claim(queue, 3, "w")
    await store.database.fetch("UPDATE tasks SET status = 'new' WHERE id = $1", taken.key)
    await store.settle([Settlement(job, "done") for job in (taken, mine, late)])
    await store.settle([Settlement(late, "done")])
    assert (await sums(store))["done"] == 2


@asynchronous
async def test_a_result_that_fails_to_be_written_is_counted_as_failed(store: Store, clock: Clock) -> None:
    """The transaction that was rolled back counts nothing."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    await store.settle([Settlement(job, "done", {"small": 1000})])
    assert await sums(store) == {"done": 0, "failed": 1, "retried": 0, "cost": 0}


@asynchronous
async def test_old_counts_are_added_up(store: Store, clock: Clock) -> None:
    """Seconds become minutes, minutes hours, hours days; nothing is lost or counted twice."""
    queue = await tasks(store, 40)
    for _ in range(10):
        await settle(store, queue, cost=0.5)
        clock.advance(7.0)
    assert len(await periods(store)) == 10
    expected = {"done": 10, "failed": 0, "retried": 0, "cost": 5.0}
    for age, period in ((counts.STEPS[0][2] + 120, counts.MINUTE), (counts.STEPS[1][2], counts.HOUR),
                        (counts.STEPS[2][2], counts.DAY)):  # fmt: skip
        clock.advance(age)
        await counts.roll_up(store.database)
        assert set(await periods(store)) == {period}
        assert await sums(store) == expected
    await settle(store, queue, cost=0.5)
    await counts.roll_up(store.database)
    assert await sums(store) == {"done": 11, "failed": 0, "retried": 0, "cost": 5.5}
    clock.advance(counts.KEPT + counts.DAY)
    await counts.roll_up(store.database)
    assert await periods(store) == []


@asynchronous
async def test_concurrent_workers_lose_no_count(store: Store, clock: Clock) -> None:
    """Workers that settle and add up concurrently neither wait long for each other nor lose a count."""
    queue = await tasks(store, 60)
    others = [Store(store.url, clock=clock) for _ in range(3)]

    async def work(one: Store) -> None:
        for _ in range(10):
            await one.settle([Settlement(job, "done") for job in await one.claim(queue, 1, "w")])
            clock.advance(40.0)
            await counts.roll_up(one.database)

    try:
        await asyncio.gather(*(work(one) for one in others))
    finally:
        for one in others:
            await one.close()
    assert (await sums(store))["done"] == 30


def without_counts() -> tuple[str, ...]:
    """The statements that take a register back to its version before there were counts."""
    return (
        *(f"DROP TABLE tabellion_{name}" for name in ("counts", "retention", "leftovers", "snapshots", "sla")),
        "DELETE FROM tabellion_schema WHERE version >= 4",
        *(f"ALTER TABLE tabellion_attempts DROP COLUMN {name}" for name in ("error_code", "error_params", "note_form")),
    )  # fmt: skip


@asynchronous
async def test_migrating_an_older_register_counts_its_history(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs settled before there were counts are counted by the migration."""
    queue: Queue = await tasks(store, 3)
    [job, _, _] = await store.claim(queue, 3, "w")
    job.cost = 0.5
    await store.settle([Settlement(job, "failed", error="bad")])
    for statement in (*without_counts(), SCHEMA.steps(store.dialect, 3)[0]):
        await store.database.fetch(statement)
    instant: Any = "now()" if store.dialect == "postgresql" else "(julianday('now') - 2440587.5) * 86400.0"
    await store.database.fetch(f"UPDATE tabellion_attempts SET settled_at = {instant} WHERE settled_at IS NOT NULL")
    await store.migrate()
    assert await sums(store) == {"done": 0, "failed": 1, "retried": 0, "cost": 0.5}


@asynchronous
async def test_grants_on_the_attempts_are_carried_over(pg_store: Store) -> None:
    """A role that could settle before the migration can settle afterwards."""
    await pg_store.open()
    role = "counting_clerk"
    for statement in (
        f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role}",
        f"GRANT SELECT, INSERT, UPDATE ON tabellion_attempts TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON tabellion_memos TO {role}",
        *without_counts(),
    ):  # fmt: skip
        await pg_store.database.fetch(statement)
    await pg_store.migrate()
    [row] = await pg_store.database.fetch(
        f"""SELECT has_table_privilege('{role}', 'tabellion_counts', 'INSERT, UPDATE')
  AND has_table_privilege('{role}', 'tabellion_retention', 'INSERT, UPDATE')
  AND has_table_privilege('{role}', 'tabellion_leftovers', 'INSERT, DELETE')
  AND has_table_privilege('{role}', 'tabellion_snapshots', 'INSERT, DELETE')
  AND has_table_privilege('{role}', 'tabellion_sla', 'INSERT, UPDATE') AS may"""
    )
    await pg_store.database.fetch(f"DROP OWNED BY {role}")
    await pg_store.database.fetch(f"DROP ROLE {role}")
    assert row["may"]
