"""How many rows of a queue are in each state."""

from __future__ import annotations

import pytest

from tabellion import Queue, Store
from tabellion.monitor import counting
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.counting import counts
from tabellion.monitor.sla.queue_targets import measure_oldest
from tabellion.monitor.view import QueueView
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, run, tasks
from tests.monitor.settled import fail, settle


@asynchronous
async def test_every_state_is_counted(store: Store) -> None:
    """Including those that run outside the register."""
    queue = await tasks(store, 10)
    await settle(store, queue)
    await fail(store, queue, "bad", "worse")
    await claim_one(store, queue)
    await run(store, "UPDATE tasks SET status = 'working' WHERE id = 10")
    found = await counts(store, QueueView(queue), AnswerCache())
    assert (found.ready, found.running, found.done, found.failed, found.foreign) == (5, 2, 1, 2, 1)
    assert (found.more, found.oldest_at, found.problem) == ([], None, None)


@asynchronous
async def test_counting_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than are counted are reported as more."""
    monkeypatch.setattr(counting, "MOST", 3)
    queue = await tasks(store, 5)
    await settle(store, queue)
    found = await counts(store, QueueView(queue), AnswerCache())
    assert (found.ready, found.done, found.more) == (3, 1, ["ready"])


@asynchronous
async def test_the_oldest_ready_row_is_reported(store: Store, clock: Clock) -> None:
    """By `created_at`, whatever the order and the type of the column; only ready rows count."""
    types = {"sqlite": ("REAL", "TEXT", "TIMESTAMP"), "postgresql": ("timestamptz", "timestamp", "double precision")}
    await store.open()
    for number, kind in enumerate(types[store.dialect]):
        name = f"things{number}"
        await run(store, f"CREATE TABLE {name} (id integer PRIMARY KEY, status text, created_at {kind})")
        queue = Queue(name, ready="new", running="r", done="d", failed="f", order="id")
        assert (await counts(store, QueueView(queue), AnswerCache())).oldest_at is None
        moment = "'2026-03-01 12:00:00+00'" if "time" in kind.lower() or kind == "TEXT" else "1772366400"
        if store.dialect == "sqlite":
            moment = moment.replace("+00", "")
        later = moment.replace("12:00", "13:00").replace("1772366400", "1772370000")
        await run(
            store,
            f"INSERT INTO {name} VALUES (1, 'new', {later}), (2, 'new', {moment}), (3, 'd', NULL), (4, 'new', NULL)",
        )
        assert (await counts(store, QueueView(queue), AnswerCache())).oldest_at == pytest.approx(
            1_772_366_400.0, abs=1.0
        ), kind


@asynchronous
async def test_a_row_that_waits_for_its_next_try_is_not_the_oldest(store: Store, clock: Clock) -> None:
    """It is counted, but nothing that an operator adds would make it run: it is the oldest again once it is due."""
    await store.open()
    await run(store, "CREATE TABLE aged (id integer PRIMARY KEY, status text NOT NULL, created_at double precision)")
    queue = Queue("aged", ready="ready", running="running", done="done", failed="failed")
    born = [clock.at - 7200, clock.at - 60]
    await store.add_many(queue, [{"id": n, "created_at": at} for n, at in enumerate(born)])
    await settle(store, queue, "retried", error="later", after=600.0)
    found = await counts(store, QueueView(queue), AnswerCache())
    assert (found.ready, found.oldest_at) == (2, born[1])
    await settle(store, queue, "retried", error="later", after=600.0)
    found = await counts(store, QueueView(queue), AnswerCache())
    assert (found.ready, found.oldest_at) == (2, None)
    clock.advance(700)
    assert (await counts(store, QueueView(queue), AnswerCache())).oldest_at == born[0]


@asynchronous
async def test_columns_of_any_name_are_counted(store: Store, clock: Clock) -> None:
    """What is added to the query does not make a name in `where=` ambiguous."""
    await store.open()
    await run(
        store,
        "CREATE TABLE aged (id integer PRIMARY KEY, status text, created_at double precision, waiting_key integer)",
    )
    queue = Queue("aged", ready="new", running="r", done="d", failed="f", where="waiting_key > 1")
    await store.add_many(queue, [{"id": n, "waiting_key": n, "created_at": clock.at - n} for n in (1, 2, 3)])
    job = await claim_one(store, queue)
    await store.retry(job, 60, "later")
    found = await counts(store, QueueView(queue), AnswerCache())
    assert (job.key, found.ready, found.oldest_at) == (3, 2, clock.at - 2)
    assert await measure_oldest(store, QueueView(queue)) == pytest.approx(2)


@asynchronous
async def test_a_table_that_does_not_match_is_a_sentence(store: Store) -> None:
    """The other queues are still counted."""
    await store.open()
    found = await counts(store, QueueView(Queue("nowhere", ready=1, running=2, done=3, failed=4)), AnswerCache())
    assert found.problem is not None
    assert "nowhere" in found.problem


@asynchronous
async def test_a_table_that_the_role_may_not_read_is_a_problem_of_its_queue(pg_url: str, role: str) -> None:
    """The dashboard shows it, and all the others."""
    store = Store(pg_url)
    queue = await tasks(store, 1)
    await run(
        store,
        f"GRANT USAGE ON SCHEMA public TO {role}",
        f"GRANT SELECT ON tabellion_schema TO {role}",
    )
    theirs = Store(store.url.replace("postgres@", f"{role}@"))
    try:
        found = await counts(theirs, QueueView(queue), AnswerCache())
    finally:
        await theirs.close()
        await store.close()
    assert "permission denied for table tasks" in (found.problem or "")
