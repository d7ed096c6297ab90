"""Running rows without a claim in the register: recognised by age, and released."""

from __future__ import annotations

import datetime

import pytest

from tabellion import DeclarationError, Queue, Store
from tabellion.testing import Clock
from tests.engine.made_tables import STATES, asynchronous, claim_one, rows, run

TABLE = """CREATE TABLE jobs (
  id integer PRIMARY KEY, status text NOT NULL, started_at timestamp with time zone,
  updated_at timestamp with time zone NOT NULL
)"""


def moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S+00:00")


async def left_running(store: Store, clock: Clock) -> None:
    """Rows left by old workers: 1 long ago, 2 just now, 3 long ago with a fresh start, 4 the other way round."""
    await store.open()
    long_ago, now = moment(clock.at - 3600), moment(clock.at)
    await run(
        store,
        TABLE,
        f"INSERT INTO jobs VALUES (1, 'working', NULL, '{long_ago}'), (2, 'working', NULL, '{now}')",
        f"INSERT INTO jobs VALUES (3, 'working', '{now}', '{long_ago}'), (4, 'working', '{long_ago}', '{now}')",
    )


async def ready(store: Store) -> list[int]:
    return [row["id"] for row in await rows(store, "jobs") if row["status"] == "new"]


@asynchronous
async def test_updated_at_gives_the_age_where_there_is_no_start(store: Store, clock: Clock) -> None:
    """Rows unchanged for longer than `stale_after` are ready again."""
    await left_running(store, clock)
    queue = Queue("jobs", **STATES, updated_at="updated_at", stale_after=600)
    assert await store.take_over(queue) == 2
    assert await ready(store) == [1, 3]
    assert await store.take_over(queue) == 0


@asynchronous
async def test_the_start_gives_the_age_where_there_is_one(store: Store, clock: Clock) -> None:
    """With both columns a row is judged by its start, and by its last change only where the start is empty."""
    await left_running(store, clock)
    queue = Queue("jobs", **STATES, started_at="started_at", updated_at="updated_at", stale_after=600)
    assert await store.take_over(queue) == 2
    assert await ready(store) == [1, 4]


@asynchronous
async def test_a_live_claim_is_not_an_orphan_whatever_its_times(store: Store, clock: Clock) -> None:
    """The register decides: a claim that is renewed is not taken over."""
    await store.open()
    await run(store, TABLE, f"INSERT INTO jobs VALUES (1, 'new', NULL, '{moment(clock.at)}')")
    queue = Queue("jobs", **STATES, updated_at="updated_at", stale_after=60)
    job = await claim_one(store, queue)
    for _ in range(5):
        clock.advance(50)
        assert await store.renew([job]) == []
        assert await store.take_over(queue) == 0
    await store.finish(job)


def test_each_option_names_the_column_it_requires() -> None:
    """All missing columns are reported at once."""
    with pytest.raises(DeclarationError) as caught:
        Queue("jobs", **STATES, stale_after=60, renew_mirrors=True, keep_error=True)
    assert [(one.what, one.fix) for one in caught.value.problems] == [
        (
            "stale_after= requires the time at which a row was started or last changed",
            "name the column: started_at='started_at' or updated_at='updated_at'",
        ),
        (
            "renew_mirrors= requires a time to renew",
            "name the column: started_at='started_at' or updated_at='updated_at'",
        ),
        ("keep_error= requires an error to keep", "name the column: error='error'"),
    ]
