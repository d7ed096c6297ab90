"""The rows of a queue in one state, page by page."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.engine.timestamps import iso
from tabellion.messages import Message
from tabellion.monitor import failures
from tabellion.monitor.rows import RowGone, RowPlace, rows
from tabellion.monitor.view import QueueView
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, run, tasks
from tests.monitor.settled import fail, settle


async def paged(store: Store, queue: Queue, place: RowPlace, limit: int = 2) -> list[str]:
    """Return the keys of all pages."""
    found, after = [], None
    while True:
        page, after = await rows(store, QueueView(queue), place, after, limit)
        found += [row["key"] for row in page]
        if after is None:
            return found
        assert len(page) == limit


@asynchronous
async def test_each_state_is_listed_completely(store: Store, clock: Clock) -> None:
    """Ready rows in claim order, running ones by key, done and failed ones latest first, each once."""
    queue = await tasks(store, 20, order="id")
    for _ in range(5):
        await settle(store, queue)
    await fail(store, queue, *["bad"] * 5)
    for _ in range(5):
        await claim_one(store, queue)
    assert await paged(store, queue, "done") == ["5", "4", "3", "2", "1"]
    assert await paged(store, queue, "failed") == ["10", "9", "8", "7", "6"]
    assert await paged(store, queue, "running") == ["11", "12", "13", "14", "15"]
    assert await paged(store, queue, "ready") == ["16", "17", "18", "19", "20"]
    assert await paged(store, queue, "waiting") == []


@pytest.mark.parametrize("order", ["kind, id", "kind DESC, id", "small DESC, kind, id DESC"])
@asynchronous
async def test_ready_rows_are_listed_in_claim_order(store: Store, order: str) -> None:
    """With equal and empty values in the order columns, in either direction, no row is lost or repeated."""
    queue = await tasks(store, order=order)
    kinds: list[Any] = ["b", None, "a", "a", None, "c", "b"]
    await store.add_many(
        queue, [{"id": number, "kind": kinds[number % 7], "small": [1, None][number % 2]} for number in range(1, 15)]
    )
    whole, _ = await rows(store, QueueView(queue), "ready", None, 100)
    assert [row["key"] for row in whole] == [job.text_key for job in await store.claim(queue, 100, "w")]
    await run(store, "UPDATE tasks SET status = 'new'")
    for limit in (1, 2, 3):
        assert await paged(store, queue, "ready", limit) == [row["key"] for row in whole]


@asynchronous
async def test_waiting_rows_are_listed_by_due_time(store: Store, clock: Clock) -> None:
    """The next one first; rows already due do not wait."""
    queue = await tasks(store, 6, order="id")
    for seconds in (50.0, 10.0, 30.0, 30.0):
        await settle(store, queue, "retried", error="later", after=seconds)
    assert await paged(store, queue, "waiting") == ["2", "3", "4", "1"]
    clock.advance(20.0)
    assert await paged(store, queue, "waiting", 1) == ["3", "4", "1"]
    first: Any = (await rows(store, QueueView(queue), "waiting", None, 10))[0][0]
    assert first["attempt"]["retry_at"] == iso(clock.at + 10.0)


@asynchronous
async def test_a_row_has_its_mirrors_and_its_last_attempt(store: Store, clock: Clock) -> None:
    """Times as timestamps, the error as people read it, the fingerprint of that error."""
    queue = await tasks(store, 1)
    await settle(store, queue, "retried", error="first", after=1.0, cost=0.5)
    clock.advance(2.0)
    await fail(store, queue, '{"code": "timed_out", "message": "page 3"}')
    row: Any = (await rows(store, QueueView(queue), "failed", None, 10))[0][0]
    assert row["key"] == "1"
    assert row["error"] == "timed_out: page 3"
    assert (row["attempt"]["n"], row["attempt"]["attempt"], row["attempt"]["outcome"]) == (2, 2, "failed")
    assert row["attempt"]["settled_at"] == iso(clock.at)
    assert datetime.fromisoformat(row["mirrors"]["finished_at"]).timestamp() == pytest.approx(clock.at, abs=0.01)
    assert row["mirrors"]["worker"] == "w1"
    assert len(row["fingerprint"]) == 16


@asynchronous
async def test_a_running_row_has_the_form_of_its_note(store: Store) -> None:
    """For translation; after the end, the form may be that of an earlier note and is not given."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    job.note(Message("progress.page", n=1, total=2))
    await store.renew([job])
    [row], _ = await rows(store, QueueView(queue), "running", None, 10)
    assert row["attempt"] is not None
    assert row["attempt"]["translatable"] == {"note": {"code": "progress.page", "params": {"n": 1, "total": 2}}}
    assert row["translatable"] is None
    job.note("almost")
    await store.finish(job)
    [row], _ = await rows(store, QueueView(queue), "done", None, 10)
    assert row["attempt"] is not None
    assert (row["attempt"]["note"], row["attempt"]["translatable"]) == ("almost", None)


@asynchronous
async def test_rows_unknown_to_the_register_are_listed(store: Store) -> None:
    """Another program may have put them into the state."""
    queue = await tasks(store)
    await run(store, "INSERT INTO tasks (id, status, error) VALUES (7, 'failed', 'by hand')")
    [row], _ = await rows(store, QueueView(queue), "failed", None, 10)
    assert (row["key"], row["attempt"], row["error"]) == ("7", None, "by hand")


@asynchronous
async def test_a_row_is_shown_by_its_name(store: Store) -> None:
    """The first of name, title and file_name that its table has; a table without them has none."""
    queue = await tasks(store, 1)
    await fail(store, queue, "bad")
    [row], _ = await rows(store, QueueView(queue), "failed", None, 10)
    assert row["name"] is None
    for column, said in (("file_name", "a.pdf"), ("title", "An A")):
        await run(store, f"ALTER TABLE tasks ADD COLUMN {column} text")
        await run(store, f"UPDATE tasks SET {column} = '{said}'")
        fresh = copy.copy(queue)  # a table is looked at once for each queue
        [row], _ = await rows(store, QueueView(fresh), "failed", None, 10)
        assert row["name"] == said
    [group] = (await failures.groups(store, fresh))["groups"]
    assert (group["key"], group["name"]) == ("1", "An A")


@asynchronous
async def test_a_page_after_a_deleted_row_says_so(store: Store) -> None:
    """Its position in line is no longer known."""
    queue = await tasks(store, 3, order="kind, id")
    _, after = await rows(store, QueueView(queue), "ready", None, 1)
    await run(store, "DELETE FROM tasks WHERE id = 1")
    with pytest.raises(RowGone):
        await rows(store, QueueView(queue), "ready", after, 1)
