"""Mirrors: in NOT NULL columns they are emptied to the default, '' or 0; some are touched or kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabellion import DeclarationError, Queue, Store
from tabellion.engine import controls
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import STATES, asynchronous, claim_one, outcomes, row, run

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
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on every supported database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


async def django(store: Store) -> Queue:
    """A table as Django creates it: NOT NULL everywhere, defaults only in Python."""
    await store.open()
    await run(
        store,
        DJANGO,
        "INSERT INTO jobs VALUES (1, 'new', '', '', '2020-01-01 00:00:00+00:00', '2020-01-01 00:00:00+00:00', 0)",
    )
    return Queue("jobs", **STATES, **MIRRORS)


@asynchronous
async def test_a_success_empties_a_not_null_error(store: Store) -> None:
    """The result is accepted and the error is an empty text."""
    queue = await django(store)
    job = await claim_one(store, queue)
    await store.retry(job, 0, "boom")
    assert (await row(store, table="jobs"))["error_message"] == "boom"
    await store.finish(await claim_one(store, queue))
    found = await row(store, table="jobs")
    assert (found["status"], found["error_message"], found["attempts"]) == ("done", "", 2)


@asynchronous
async def test_every_move_works_on_a_table_without_nulls(store: Store, clock: Clock) -> None:
    """Release, deferral, crash, cancel, restart and takeover all write values the columns accept."""
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
async def test_a_not_null_time_keeps_its_last_value(store: Store) -> None:
    """There is no empty time: the row is ready, and its old time stays."""
    queue = await django(store)
    job = await claim_one(store, queue)
    claimed = (await row(store, table="jobs"))["started_at"]
    await store.release(job)
    assert (await row(store, table="jobs"))["started_at"] == claimed


@asynchronous
async def test_a_mirror_is_reset_to_its_default(store: Store) -> None:
    """For a text, a number, an expression and a keyword, the column's DEFAULT is what empty means."""
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
async def test_a_default_of_null_is_no_default(store: Store) -> None:
    """A NOT NULL DEFAULT NULL column is emptied like one without a default."""
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
async def test_a_failure_without_a_message_is_written_too(store: Store) -> None:
    """An ending without an error text writes an empty one."""
    queue = await django(store)
    job = await claim_one(store, queue)
    await store.fail(job, None)  # type: ignore[arg-type]
    found = await row(store, table="jobs")
    assert (found["status"], found["error_message"]) == ("failed", "")


@asynchronous
async def test_a_domain_is_treated_as_its_base_type(pg_store: Store) -> None:
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
async def test_a_mirror_that_cannot_be_emptied_is_rejected_with_its_fix(pg_store: Store) -> None:
    """PostgreSQL: no default and no empty value of its type; the offered statement fixes it."""
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
async def test_a_computed_column_cannot_be_a_mirror_or_the_only_state(store: Store) -> None:
    """Generated columns cannot be written; beside a writable column, one may tell a state."""
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


SESSIONS = """CREATE TABLE jobs (
  id integer PRIMARY KEY,
  status text NOT NULL,
  error text,
  ocr_error text,
  updated_at timestamp with time zone NOT NULL
)"""
LONG_AGO = "2020-01-01 00:00:00.000"


async def touched(store: Store, move: str) -> None:
    """Return whether the last move wrote the clock's time, and reset it to an old one."""
    [found] = await store.database.fetch(f"SELECT count(*) AS n FROM jobs WHERE updated_at > '{LONG_AGO}+00:00'")
    assert found["n"] == 1, f"{move} left updated_at as it was"
    await run(store, f"UPDATE jobs SET updated_at = '{LONG_AGO}'")


@asynchronous
async def test_every_move_touches_updated_at(store: Store, clock: Clock) -> None:
    """In a NOT NULL column: claim, retry, deferral, release, crash, failure, restart, cancel, takeover."""
    await store.open()
    clock.advance(3e9)  # past the year 2020, whatever the test's clock starts with
    await run(store, SESSIONS, f"INSERT INTO jobs VALUES (1, 'new', NULL, NULL, '{LONG_AGO}')")
    queue = Queue("jobs", **STATES, updated_at="updated_at", error="error", max_attempts=9)
    job = await claim_one(store, queue)
    assert job["updated_at"] == (await row(store, table="jobs"))["updated_at"]
    await touched(store, "claim")
    await store.retry(job, 0, "ConnectionError: reset")
    assert (await row(store, table="jobs"))["status"] == "new", "a transient error is not final"
    await touched(store, "retry")
    await store.defer(await claim_one(store, queue), 0, "429")
    await touched(store, "defer")
    await store.release(await claim_one(store, queue))
    await touched(store, "release")
    await claim_one(store, queue)
    await touched(store, "claim")
    clock.advance(queue.lease + 1)
    assert [swept.outcome for swept in await store.sweep(queue)] == ["crashed"]
    await touched(store, "sweep")
    await store.fail(await claim_one(store, queue), "bad")
    await touched(store, "fail")
    assert await controls.restart(store, queue) == 1
    await touched(store, "restart")
    assert await controls.cancel(store, queue, 1)
    await touched(store, "cancel")
    await run(store, "UPDATE jobs SET status = 'working'")
    assert await store.take_over(Queue("jobs", **STATES, updated_at="updated_at", stale_after=60)) == 1
    await touched(store, "takeover")
    job = await claim_one(store, queue)
    await touched(store, "claim")
    await store.renew([job])
    assert str((await row(store, table="jobs"))["updated_at"]).startswith("2020"), "a renewal writes only if asked to"
    await store.finish(job)
    await touched(store, "finish")


@asynchronous
async def test_a_returned_updated_at_wins(store: Store) -> None:
    """A result that names the column is written as it is."""
    await store.open()
    await run(store, SESSIONS, f"INSERT INTO jobs VALUES (1, 'new', NULL, NULL, '{LONG_AGO}')")
    queue = Queue("jobs", **STATES, updated_at="updated_at")
    await store.finish(await claim_one(store, queue), {"updated_at": "2021-02-03 00:00:00+00:00"})
    assert str((await row(store, table="jobs"))["updated_at"]).startswith("2021-02-03")


@asynchronous
async def test_a_kept_error_stays_beside_the_next_stages_error(store: Store) -> None:
    """Extraction failed once and succeeded later, then OCR failed: each error is in its own column."""
    await store.open()
    await run(store, SESSIONS, f"INSERT INTO jobs VALUES (1, 'new', NULL, NULL, '{LONG_AGO}')")
    extraction = Queue("jobs", name="extraction", **STATES, error="error", keep_error=True)
    ocr = Queue("jobs", name="ocr", ready="done", running="reading", done="read", failed="failed", error="ocr_error")
    await store.retry(await claim_one(store, extraction), 0, "Failed to login to registre")
    job = await claim_one(store, extraction)
    assert job["error"] == "Failed to login to registre"
    await store.finish(job)
    await store.fail(await claim_one(store, ocr), "OCR processing failed: Invalid PDF")
    found = await row(store, table="jobs")
    assert (found["error"], found["ocr_error"]) == (
        "Failed to login to registre",
        "OCR processing failed: Invalid PDF",
    )
    assert await controls.restart(store, ocr) == 1
    found = await row(store, table="jobs")
    assert (found["status"], found["error"], found["ocr_error"]) == ("done", "Failed to login to registre", None)


@asynchronous
async def test_a_kept_error_survives_a_restart_until_the_next_error(store: Store) -> None:
    """Only another error replaces it."""
    await store.open()
    await run(store, SESSIONS, f"INSERT INTO jobs VALUES (1, 'new', NULL, NULL, '{LONG_AGO}')")
    queue = Queue("jobs", **STATES, error="error", keep_error=True)
    await store.fail(await claim_one(store, queue), "first")
    assert await controls.restart(store, queue) == 1
    await store.release(await claim_one(store, queue))
    assert (await row(store, table="jobs"))["error"] == "first"
    await store.fail(await claim_one(store, queue), "second")
    assert (await row(store, table="jobs"))["error"] == "second"
