"""The moves on PostgreSQL walk indexes: EXPLAIN guards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.engine.postgres import moves
from tabellion.engine.postgres.database import PostgreSQL
from tabellion.engine.settlement import Settlement
from tabellion.engine.tables.declaration import bind
from tabellion.engine.tables.table import Column, Table
from tests.engine.conftest import EmptyDatabases
from tests.engine.made_tables import asynchronous, run, tasks

READY, FINISHED = 10_000, 10_000


@pytest.fixture(params=["postgresql", "postgresql-15"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases) -> Store:
    """A store on PostgreSQL 18, then 15, using the database's clock."""
    return Store(empty_database(request.param))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


class Plans:
    """Observes a store's moves: each statement is explained on a connection of the moves before it runs."""

    def __init__(self, store: Store, patch: pytest.MonkeyPatch) -> None:
        assert isinstance(store.database, PostgreSQL)
        self._database = store.database
        self._fetch = store.database._fetch
        self.whole: dict[str, Any] = {}
        self.nodes: list[dict[str, Any]] = []
        patch.setattr(store.database, "_fetch", self._explained)

    async def _explained(self, text: str, values: Sequence[Any], *, pinned: bool = True) -> list[Any]:
        if pinned:
            async with self._database.connection(pinned=True) as connection:
                transaction = connection.transaction()
                await transaction.start()
                [row] = await connection.fetch("EXPLAIN (ANALYZE, FORMAT JSON) " + self._database._text(text), *values)
                await transaction.rollback()
            [self.whole] = json.loads(row[0])
            self.nodes = list(nodes(self.whole["Plan"]))
        return await self._fetch(text, values, pinned=pinned)

    def assert_narrow(self, at_most: int) -> None:
        """Assert that no table was scanned, only the few rows in hand were sorted, and nothing was JIT-compiled."""
        for node in self.nodes:
            if node.get("Relation Name", "") in ("tasks", "tabellion_attempts"):
                assert node["Node Type"] in ("Index Scan", "Index Only Scan", "ModifyTable"), node
                read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
                assert read <= at_most, node
            assert "Sort" not in node["Node Type"] or node["Actual Rows"] <= at_most, node
        assert "JIT" not in self.whole, "the planner's costs made PostgreSQL compile the statement"


async def busy_table(store: Store, *, analyzed: bool) -> Queue:
    """Ten thousand ready rows behind ten thousand finished ones, the printed index, a long register."""
    queue = await tasks(store, order="kind, id")
    await run(store, "ALTER TABLE tasks SET (autovacuum_enabled = off)")
    await store.add_many(
        queue,
        [
            {"id": number, "kind": f"k{number % 7}", "status": "done" if number <= FINISHED else "new"}
            for number in range(1, FINISHED + READY + 1)
        ],
    )
    await run(
        store,
        """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
claimed_at, lease_until, settled_at, outcome)
SELECT 'tasks', id::text, 1, gen_random_uuid(), 1, 0, 0, 'w', now(), now(), now(), now(),
CASE WHEN status = 'done' THEN 'done' ELSE 'retried' END FROM tasks WHERE id % 2 = 0""",
    )
    await store.database.fetch((await store.bind(queue)).index_ddl())
    if analyzed:
        await run(store, "ANALYZE tasks", "ANALYZE tabellion_attempts")
    return queue


@pytest.mark.parametrize("analyzed", [True, False], ids=["fresh statistics", "no statistics"])
@asynchronous
async def test_a_claim_walks_the_printed_index(store: Store, monkeypatch: pytest.MonkeyPatch, analyzed: bool) -> None:
    """The claim reads its few rows through the partial index, in order, and looks up attempts by key."""
    queue = await busy_table(store, analyzed=analyzed)
    plans = Plans(store, monkeypatch)
    assert len(await store.claim(queue, 10, "w")) == 10
    plans.assert_narrow(at_most=20)
    [walk] = [node for node in plans.nodes if node.get("Index Name") == "tasks_tasks_ready"]
    assert walk["Actual Rows"] == 10


@pytest.mark.parametrize("analyzed", [True, False], ids=["fresh statistics", "no statistics"])
@asynchronous
async def test_settling_and_renewing_look_up_by_key(
    store: Store, monkeypatch: pytest.MonkeyPatch, analyzed: bool
) -> None:
    """Endings and renewals of a batch touch only that batch, whatever the outcome."""
    queue = await busy_table(store, analyzed=analyzed)
    jobs = await store.claim(queue, 250, "w")
    plans = Plans(store, monkeypatch)
    assert await store.renew(jobs[:50]) == []
    plans.assert_narrow(at_most=300)
    for number, ending in enumerate(({"result": "x"}, {}, "retried", "failed", "released")):
        batch = jobs[number * 50 : number * 50 + 50]
        if isinstance(ending, dict):
            verdicts = await store.settle([Settlement(job, "done", ending) for job in batch])
        else:
            verdicts = await store.settle([Settlement(job, ending, error="e", after=1) for job in batch])  # type: ignore[arg-type]
        assert all(verdict.is_accepted for verdict in verdicts)
        plans.assert_narrow(at_most=300)


@asynchronous
async def test_a_claim_does_not_read_finished_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing ready, a claim touches no row, however many are finished."""
    queue = await busy_table(store, analyzed=True)
    await run(store, "DELETE FROM tasks WHERE status = 'new'")
    plans = Plans(store, monkeypatch)
    assert await store.claim(queue, 10, "w") == []
    plans.assert_narrow(at_most=0)


def test_every_ending_checks_the_fencing_token() -> None:
    """A statement that ends or extends a claim requires the token and an attempt that is not settled yet."""
    table = Table("t", {"id": Column("id", "integer"), "status": Column("status", "integer")}, ("id",))
    bound = bind(Queue("t", ready=1, running=2, done=3, failed=4), table, "postgresql")
    assert "token" in moves.renew(bound)
    assert "settled_at IS NULL" in moves.renew(bound)
    assert "SKIP LOCKED" in moves.claim(bound)
