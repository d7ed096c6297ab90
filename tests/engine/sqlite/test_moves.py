"""The moves on SQLite walk indexes: EXPLAIN guards."""

from __future__ import annotations

import pytest

from tabellion import Queue, Store
from tabellion.engine.sqlite import moves
from tabellion.engine.tables.declaration import bind
from tabellion.engine.tables.table import Column, Table
from tests.engine.made_tables import asynchronous, run, tasks

ROWS = 10_000


async def plan(store: Store, text: str) -> list[str]:
    """The steps SQLite takes for a move's statement."""
    return [row["detail"] for row in await store.database.fetch(f"EXPLAIN QUERY PLAN {text}", *[None] * _count(text))]


def _count(text: str) -> int:
    return max(number for number in range(12) if number == 0 or f"${number}" in text)


async def busy_table(store: Store, order: str, *, analyzed: bool) -> Queue:
    """Ten thousand ready rows, as many finished ones, the printed index, a long register."""
    queue = await tasks(store, order=order)
    await store.add_many(
        queue,
        [
            {"id": number, "kind": f"k{number % 7}", "status": "done" if number <= ROWS else "new"}
            for number in range(1, 2 * ROWS + 1)
        ],
    )
    await run(
        store,
        """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
claimed_at, lease_until, settled_at, outcome)
SELECT 'tasks', id, 1, hex(randomblob(16)), 1, 0, 0, 'w', 0, 0, 0, 0, 'retried' FROM tasks WHERE id % 2 = 0""",
        (await store.bind(queue)).index_ddl(),
    )
    if analyzed:
        await run(store, "ANALYZE")
    return queue


@pytest.mark.parametrize("order", ["id", "kind, id", "kind DESC"])
@pytest.mark.parametrize("analyzed", [True, False], ids=["fresh statistics", "no statistics"])
@asynchronous
async def test_a_claim_walks_the_printed_index(sqlite_store: Store, order: str, analyzed: bool) -> None:
    """The claim walks the partial index in order, sorts nothing, and looks up attempts by key."""
    queue = await busy_table(sqlite_store, order, analyzed=analyzed)
    steps = await plan(sqlite_store, moves.claim(await sqlite_store.bind(queue)))
    assert any("USING INDEX tasks_tasks_ready" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps
    others = [step for step in steps if step.startswith("SCAN") and "tasks_tasks_ready" not in step]
    assert not any("attempts" in step or step.startswith(("SCAN l", "SCAN m", "SCAN t")) for step in others), steps
    assert len(await sqlite_store.claim(queue, 10, "w")) == 10


@asynchronous
async def test_settling_and_renewing_look_up_by_key(sqlite_store: Store) -> None:
    """No ending and no renewal scans a table."""
    queue = await busy_table(sqlite_store, "id", analyzed=True)
    bound = await sqlite_store.bind(queue)
    texts = [
        moves.settle_attempt(bound, "done", False),
        moves.settle_attempt(bound, "crashed", True),
        moves.settle_row(bound, "done", ["result"]),
        moves.settle_row(bound, "retried", []),
        moves.renew(bound),
        moves.supersede_unheld(bound),
        moves.start(bound),
    ]
    for text in texts:
        steps = await plan(sqlite_store, text)
        assert steps
        assert not any(step.startswith("SCAN") for step in steps), (text, steps)


@asynchronous
async def test_counting_live_claims_walks_the_live_index(sqlite_store: Store) -> None:
    """A fleet-wide limit is checked without scanning the history."""
    await busy_table(sqlite_store, "id", analyzed=True)
    steps = await plan(sqlite_store, moves.RUNNING)
    assert any("tabellion_attempts_live" in step for step in steps), steps


def test_register_statements_take_their_keys_as_parameters() -> None:
    """A statement that ends a claim names queue, key, n and token; with less it would not be fenced."""
    queue = Queue("t", ready=1, running=2, done=3, failed=4)
    table = Table("t", {"id": Column("id", "integer"), "status": Column("status", "integer")}, ("id",))
    bound = bind(queue, table, "sqlite")
    for text in (moves.settle_attempt(bound, "done", False), moves.renew(bound), moves.supersede_unheld(bound)):
        assert "queue = 't' AND key = $1 AND n = $2 AND token = $3 AND settled_at IS NULL" in text
