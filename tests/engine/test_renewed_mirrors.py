"""Times in the row that are renewed with the lease: a monitor that judges rows by age leaves live jobs alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion import Queue, Store
from tabellion.engine.postgres import moves as postgres_moves
from tabellion.engine.postgres.database import PostgreSQL
from tabellion.engine.sqlite import moves as sqlite_moves
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import STATES, asynchronous, claim_one, row, rows, run, tasks

TABLE = """CREATE TABLE jobs (
  id integer PRIMARY KEY, status text NOT NULL, worker text, started_at timestamp with time zone,
  updated_at timestamp with time zone NOT NULL DEFAULT CURRENT_TIMESTAMP
)"""
MINUTES = 60.0


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-15", "pooled"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on every supported database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


async def jobs(store: Store) -> Queue:
    """Create a table with one ready row, and a queue on it that renews both times."""
    await store.open()
    await run(store, TABLE, "INSERT INTO jobs (id, status) VALUES (1, 'new')")
    return Queue(
        "jobs", **STATES, worker="worker", started_at="started_at", updated_at="updated_at", renew_mirrors=True
    )


async def run_old_monitor(store: Store, now: float) -> int:
    """Run what another monitor would: every running row that started ten minutes ago is ready again."""
    epoch = "extract(epoch FROM started_at)" if store.dialect == "postgresql" else "unixepoch(started_at)"
    stolen = await store.database.fetch(
        f"UPDATE jobs SET status = 'new', worker = NULL WHERE status = 'working' AND {epoch} < {now - 10 * MINUTES!r}"
        " RETURNING id"
    )
    return len(stolen)


@asynchronous
async def test_a_monitor_by_age_takes_no_renewed_row(store: Store, clock: Clock) -> None:
    """During an hour of renewals the monitor finds nothing; once they stop it does."""
    queue = await jobs(store)
    job = await claim_one(store, queue)
    for _ in range(12):
        clock.advance(5 * MINUTES)
        assert await store.renew([job]) == []
        assert await run_old_monitor(store, clock.at) == 0
    found = await row(store, table="jobs")
    assert found["started_at"] == found["updated_at"]
    clock.advance(11 * MINUTES)
    assert await run_old_monitor(store, clock.at) == 1


@asynchronous
async def test_a_lost_claim_renews_nothing(store: Store, clock: Clock) -> None:
    """The row of its new owner is not touched by the former holder."""
    queue = await jobs(store)
    old = await claim_one(store, queue)
    clock.advance(queue.lease + 1)
    await store.sweep(queue)
    await claim_one(store, queue, "w2")
    before = await row(store, table="jobs")
    clock.advance(5)
    assert await store.renew([old]) == [old]
    await store.database.renew_mirrors(await store.bind(queue), [old])  # lost between the two statements
    assert await row(store, table="jobs") == before


@asynchronous
async def test_a_locked_row_keeps_its_lease(pg_store: Store, clock: Clock) -> None:
    """PostgreSQL: the owner's long transaction blocks the write of the time, not the renewal of the lease."""
    store = pg_store
    queue = await jobs(store)
    await run(store, "INSERT INTO jobs (id, status) VALUES (2, 'new')")
    held = await store.claim(queue, 2, "w1")
    before = await rows(store, "jobs")
    assert isinstance(store.database, PostgreSQL)
    async with store.database.connection() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM jobs WHERE id = 1 FOR UPDATE")
        clock.advance(20)
        assert await store.renew(held) == []
    after = await rows(store, "jobs")
    assert after[0] == before[0]
    assert after[1]["started_at"] > before[1]["started_at"]
    clock.advance(queue.lease - 10)
    assert await store.sweep(queue) == []
    for job in held:
        await store.finish(job)


@asynchronous
async def test_a_row_whose_time_is_refused_keeps_its_lease(store: Store, clock: Clock) -> None:
    """A table rule that refuses the renewal is found at the start; one added later costs no lease."""
    queue = await jobs(store)
    job = await claim_one(store, queue)
    if store.dialect == "postgresql":
        await run(
            store,
            """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF new.status = old.status THEN RAISE EXCEPTION 'a running row is closed'; END IF; RETURN new; END $$""",
            "CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
    else:
        await run(
            store,
            """CREATE TRIGGER refuse BEFORE UPDATE ON jobs WHEN new.status = old.status
BEGIN SELECT RAISE(ABORT, 'a running row is closed'); END""",
        )
    assert await store.renew([job]) == []
    await store.finish(job)
    await run(store, "INSERT INTO jobs (id, status) VALUES (2, 'new')")
    with pytest.raises(Exception, match="running → running is refused: a running row is closed"):
        await store.check([Queue("jobs", **STATES, started_at="started_at", renew_mirrors=True)])


@asynchronous
async def test_without_the_option_a_renewal_writes_no_row(store: Store, clock: Clock) -> None:
    """The renewal writes to the register only, and the row stays as the claim left it."""
    queue = await tasks(store, 1)
    bound = await store.bind(queue)
    moves = postgres_moves if store.dialect == "postgresql" else sqlite_moves
    assert 'UPDATE "tasks"' not in moves.renew(bound)
    job = await claim_one(store, queue)
    before = await row(store)
    clock.advance(5)
    assert await store.renew([job]) == []
    assert await row(store) == before
