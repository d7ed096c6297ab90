"""Mirrors in columns that may not be NULL: emptied to their default, '' or 0, or refused at declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabellion import DeclarationError, Queue, Store
from tabellion.engine import controls
from tabellion.testing import Clock
from tests.engine.conftest import Emptied, store_on
from tests.engine.tables import STATES, asynchronous, claim_one, outcomes, row, run

DJANGO = """CREATE TABLE jobs (
  id integer PRIMARY KEY,
  status varchar(20) NOT NULL DEFAULT 'new',
  error_message text NOT NULL,
  worker_id varchar(8) NOT NULL,
  started_at timestamp with time zone NOT NULL,
  finished_at timestamp with time zone NOT NULL,
  attempts smallint NOT NULL
)"""
MIRRORS: dict[str, Any] = {
    "worker": "worker_id", "error": "error_message", "started_at": "started_at", "finished_at": "finished_at",
    "attempts": "attempts",
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-15", "pooled"])
def store(request: pytest.FixtureRequest, emptied: Emptied, tmp_path: Path, clock: Clock) -> Store:
    """A store on everything we support, by the test's clock."""
    return store_on(request.param, emptied, tmp_path, clock)


async def django(store: Store) -> Queue:
    """A table as Django makes it: NOT NULL everywhere, its defaults only in Python."""
    await store.open()
    await run(
        store,
        DJANGO,
        "INSERT INTO jobs VALUES (1, 'new', '', '', '2020-01-01 00:00:00+00:00', '2020-01-01 00:00:00+00:00', 0)",
    )
    return Queue("jobs", **STATES, **MIRRORS)


@asynchronous
async def test_a_success_empties_an_error_that_may_not_be_null(store: Store) -> None:
    """The result is accepted and the error is an empty text."""
    queue = await django(store)
    job = await claim_one(store, queue)
    await store.retry(job, 0, "boom")
    assert (await row(store, table="jobs"))["error_message"] == "boom"
    await store.finish(await claim_one(store, queue))
    found = await row(store, table="jobs")
    assert (found["status"], found["error_message"], found["attempts"]) == ("done", "", 2)


@asynchronous
async def test_every_move_of_a_table_that_has_no_nulls(store: Store, clock: Clock) -> None:
    """Release, deferral, crash, cancel, restart and takeover all leave values that the columns take."""
    queue = await django(store)
    await store.release(await claim_one(store, queue))
    await store.defer(await claim_one(store, queue), 0, "429")
    assert (await row(store, table="jobs"))["worker_id"] == ""
    await claim_one(store, queue)
    clock.advance(queue.lease + 1)
    [swept] = await store.sweep(queue)
    assert swept.outcome == "crashed"
    await store.fail(await claim_one(store, queue), "bad")
    assert await controls.restart(store, queue) == 1
    assert (await row(store, table="jobs"))["error_message"] == ""
    assert await controls.cancel(store, queue, 1)
    assert await controls.restart(store, queue) == 1
    await run(store, "UPDATE jobs SET status = 'working', started_at = '1969-01-01 00:00:00+00:00'")
    old = Queue("jobs", **STATES, **MIRRORS, stale_after=60)
    assert await store.take_over(old) == 1
    await store.finish(await claim_one(store, queue))
    assert (await outcomes(store, 1))[-1] == "done"


@asynchronous
async def test_a_time_that_may_not_be_null_keeps_its_last_value(store: Store) -> None:
    """There is no empty time: the row says ready, and its old time stays."""
    queue = await django(store)
    job = await claim_one(store, queue)
    claimed = (await row(store, table="jobs"))["started_at"]
    await store.release(job)
    assert (await row(store, table="jobs"))["started_at"] == claimed


@asynchronous
async def test_a_mirror_goes_back_to_its_own_default(store: Store) -> None:
    """A text, a number, an expression and a keyword: the column's DEFAULT is what empty means to its owner."""
    await store.open()
    now = "CURRENT_TIMESTAMP"
    await run(
        store,
        f"""CREATE TABLE jobs (id integer PRIMARY KEY, status text NOT NULL,
  error text NOT NULL DEFAULT 'it''s $1 fine', worker text NOT NULL DEFAULT (lower('NOBODY')),
  started_at timestamp with time zone NOT NULL DEFAULT {now})""",
        "INSERT INTO jobs (id, status) VALUES (1, 'new')",
    )
    queue = Queue("jobs", **STATES, worker="worker", error="error", started_at="started_at")
    await store.retry(await claim_one(store, queue), 0, "boom")
    assert (await row(store, table="jobs"))["worker"] == "nobody"
    await store.finish(await claim_one(store, queue))
    assert (await row(store, table="jobs"))["error"] == "it's $1 fine"


@asynchronous
async def test_a_default_of_null_is_none(store: Store) -> None:
    """NOT NULL DEFAULT NULL has no default: the text is emptied."""
    await store.open()
    await run(
        store,
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, error text DEFAULT NULL NOT NULL)",
        "INSERT INTO jobs VALUES (1, 'new', 'old')",
    )
    queue = Queue("jobs", **STATES, error="error")
    await store.finish(await claim_one(store, queue))
    assert (await row(store, table="jobs"))["error"] == ""


@asynchronous
async def test_a_failure_without_words_fits_too(store: Store) -> None:
    """An ending that brings no error text writes an empty one."""
    queue = await django(store)
    job = await claim_one(store, queue)
    await store.fail(job, None)  # type: ignore[arg-type]
    found = await row(store, table="jobs")
    assert (found["status"], found["error_message"]) == ("failed", "")


@asynchronous
async def test_a_domain_is_known_by_the_type_below_it(pg_store: Store) -> None:
    """PostgreSQL: a domain may forbid NULL, carry the default and limit the length."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE DOMAIN short_name AS varchar(6) NOT NULL DEFAULT 'none'",
        "CREATE DOMAIN moment AS timestamp NOT NULL",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, worker short_name, at moment)",
        "INSERT INTO jobs VALUES (1, 'new', 'x', now())",
    )
    queue = Queue("jobs", **STATES, worker="worker", started_at="at")
    job = await claim_one(store, queue, "a-long-worker")
    assert (await row(store, table="jobs"))["worker"] == "a-long"
    await store.release(job)
    assert (await row(store, table="jobs"))["worker"] == "none"


@asynchronous
async def test_what_cannot_be_emptied_is_refused_with_its_fix(pg_store: Store) -> None:
    """PostgreSQL: no default and no empty value of its type; the statement that is offered mends it."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE TYPE who AS ENUM ('w1', 'w2')",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, worker who NOT NULL)",
    )
    queue = Queue("jobs", **STATES, worker="worker")
    with pytest.raises(DeclarationError) as caught:
        await store.bind(queue)
    [problem] = caught.value.problems
    assert "worker='worker' is who NOT NULL without a default, so it cannot be cleared" in problem.what
    await run(store, problem.fix.partition(";")[0])
    await store.bind(queue)


@asynchronous
async def test_a_computed_column_is_no_mirror_and_no_state_of_its_own(store: Store) -> None:
    """What the database computes cannot be written; beside a column that can be, it may tell a state."""
    await store.open()
    await run(
        store,
        """CREATE TABLE jobs (id integer PRIMARY KEY, step text NOT NULL, kind text,
  is_pdf boolean GENERATED ALWAYS AS (kind = 'pdf') STORED, shown text GENERATED ALWAYS AS (step || '!') STORED)""",
        "INSERT INTO jobs (id, step, kind) VALUES (1, 'new', 'pdf'), (2, 'new', 'png')",
    )
    with pytest.raises(DeclarationError) as caught:
        await store.bind(Queue("jobs", ready="new!", running="r!", done="d!", failed="f!", status="shown"))
    assert "running says shown = 'r!', but the database computes this column" in str(caught.value)
    with pytest.raises(DeclarationError) as caught:
        await store.bind(Queue("jobs", **STATES, status="step", error="shown"))
    assert "error='shown' is computed by the database and cannot be written" in str(caught.value)
    queue = Queue("jobs", status="step", **STATES | {"ready": {"step": "new", "is_pdf": True}})
    await store.release(await claim_one(store, queue))
    await store.fail(await claim_one(store, queue), "bad")
    assert await controls.restart(store, queue) == 1
    assert [job.key for job in await store.claim(queue, 5, "w")] == [1]
