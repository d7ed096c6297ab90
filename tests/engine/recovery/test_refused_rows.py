"""Rows that the database refuses to set running: they are set aside, and the others continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabellion import Job, Store
from tabellion.engine.recovery import refused_rows as refusing
from tabellion.errors import StoreError, Unreachable
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import asynchronous, attempts, row, rows, run, tasks
from tests.engine.tables.test_transitions import ILLEGAL, refuse
from tests.table_owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.workers import EventRecorder, make_worker, working


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-15", "pooled"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on every supported database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


def keys(jobs: list[Job]) -> list[int]:
    """Return the keys of jobs."""
    return [job.key for job in jobs]


@asynchronous
async def test_a_row_that_cannot_run_delays_no_other(store: Store, clock: Clock) -> None:
    """It is reported once, recorded in the register and left as it is; later it is tried again, fixed or not."""
    queue = await tasks(store, 5)
    await refuse(store, "NEW.status = 'working' AND NEW.id IN (1, 3)")
    before = await row(store, 3)
    reported: list[tuple[str, str]] = []
    store.on_refused = lambda _bound, key, error: reported.append((key, error))
    assert keys(await store.claim(queue, 10, "w")) == [2, 4, 5]
    assert [key for key, _ in reported] == ["1", "3"]
    assert all(ILLEGAL in error for _, error in reported)
    assert await row(store, 3) == before
    [attempt] = await attempts(store, 3)
    assert (attempt["outcome"], attempt["attempt"]) == ("released", 1)
    assert ILLEGAL in attempt["error"]
    assert await store.claim(queue, 10, "w") == []
    assert len(reported) == 2
    await run(store, "DROP TRIGGER guard" + (" ON tasks" if store.dialect == "postgresql" else ""))
    clock.advance(refusing.AGAIN + 1)
    again = await store.claim(queue, 10, "w")
    assert keys(again) == [1, 3]
    assert [job.attempt for job in again] == [1, 1]


@asynchronous
async def test_a_table_that_refuses_every_row_refuses_the_claim(store: Store) -> None:
    """After a few rows the claim itself is refused: the register does not fill with a million rows."""
    queue = await tasks(store, 10)
    await refuse(store, "NEW.status = 'working'")
    with pytest.raises(StoreError, match=ILLEGAL):
        await store.claim(queue, 10, "w")
    assert len(await attempts(store)) == refusing.MOST_AT_ONCE
    assert {one["status"] for one in await rows(store)} == {"new"}


@pytest.mark.parametrize("claimed", [0, 2])
@asynchronous
async def test_a_database_that_goes_down_is_not_queried_for_every_row(
    store: Store, monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    """The first call without an answer is the last, since each would wait for its deadline; claimed rows are kept."""
    queue = await tasks(store, 6)
    claim, asked = store.database.claim, 0

    async def ask(*arguments: Any) -> list[Job]:
        nonlocal asked
        asked += 1
        if asked > claimed:
            raise Unreachable("no answer")
        return await claim(*arguments)

    monkeypatch.setattr(store.database, "claim", ask)
    bound = await store.bind(queue)
    claiming = refusing.claim_one_by_one(store.database, bound, 6, "w", False, None)
    if claimed:
        assert keys(await claiming) == [1, 2]
    else:
        with pytest.raises(Unreachable):
            await claiming
    assert asked == claimed + 1


@asynchronous
async def test_a_retry_that_is_set_aside_keeps_its_count(store: Store, clock: Clock) -> None:
    """The attempt that could not start is not spent, and earlier ones are not forgotten."""
    queue = await tasks(store, 1)
    [job] = await store.claim(queue, 1, "w")
    await store.retry(job, 0.0, "odd")
    await refuse(store, "NEW.status = 'working'")
    assert await store.claim(queue, 5, "w") == []
    await run(store, "DROP TRIGGER guard" + (" ON tasks" if store.dialect == "postgresql" else ""))
    clock.advance(refusing.AGAIN + 1)
    [job] = await store.claim(queue, 5, "w")
    assert (job.n, job.attempt) == (3, 2)


@pytest.mark.usefixtures("often")
def test_a_worker_reports_the_row_and_continues(url: str, owner: Owner) -> None:
    """One event for the row, none for the queue."""
    queue, recorder = jobs_queue(), EventRecorder()
    owner.insert(1, 2, 3)
    if url.startswith("sqlite"):
        owner(f"CREATE TRIGGER guard BEFORE UPDATE ON jobs WHEN NEW.id = 2 BEGIN SELECT RAISE(ABORT, '{ILLEGAL}'); END")
    else:
        owner(f"""CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{ILLEGAL}'; END $$""")
        owner("CREATE TRIGGER guard BEFORE UPDATE ON jobs FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION guard()")

    @queue.handler
    async def work(job: Job) -> None: ...

    with working(make_worker(url, queue, listeners=[recorder])):
        eventually(lambda: owner.count("done") == 2)
        owner.insert(4)
        eventually(lambda: owner.status(4) == "done")
    [event] = recorder.of("set_aside")
    assert (event.key, event.due_in) == ("2", refusing.AGAIN)
    assert ILLEGAL in (event.error or "")
    assert "claim_refused" not in recorder.names
