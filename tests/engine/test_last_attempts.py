"""The last attempts at rows, from the register."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine.last_attempts import last_attempts
from tabellion.engine.sql import NOW
from tests.engine.made_tables import asynchronous, claim_one, run, tasks, tasks_queue


def past_attempts(store: Store, queue: str, rows: int, each: int) -> str:
    """Return the statement that records attempts at rows of a queue, all settled."""
    token = "gen_random_uuid()" if store.dialect == "postgresql" else "lower(hex(randomblob(16)))"
    return f"""WITH RECURSIVE k(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM k WHERE value < {rows}),
  n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {each})
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at,
  lease_until, settled_at, outcome, error)
SELECT '{queue}', CAST(k.value AS text), n.value, {token}, n.value, 0, 0, 'w', {NOW}, {NOW}, {NOW}, {NOW}, 'retried',
  'error ' || CAST(n.value AS text) FROM k CROSS JOIN n"""


@asynchronous
async def test_only_the_last_attempt_of_each_row_counts(store: Store) -> None:
    """By queue and key; a running one is the last, and rows that were never claimed have none."""
    queue, other = await tasks(store, 2), tasks_queue(name="other", ready="o", running="p", done="q", failed="r")
    await store.add(other, id=3)
    await store.retry(await claim_one(store, queue), 0, "first")
    await store.fail(await claim_one(store, queue), "second")
    await claim_one(store, other, "w2")
    found = await last_attempts(store.database, ["tasks", "other", "none"], ["1", "2", "3", "4"])
    assert set(found) == {("tasks", "1"), ("other", "3")}
    failed, running = found["tasks", "1"], found["other", "3"]
    assert (failed["n"], failed["outcome"], failed["error"]) == (2, "failed", "second")
    assert (running["worker"], running["outcome"], running["settled_at"]) == ("w2", None, None)
    assert (failed["settled_at"] or 0) >= failed["claimed_at"] >= 1e9
    assert await last_attempts(store.database, ["tasks"], []) == {}
    assert await last_attempts(store.database, [], ["1"]) == {}


@pytest.mark.parametrize("is_analyzed", [False, True])
@asynchronous
async def test_it_reads_one_row_of_the_primary_key_for_each(store: Store, is_analyzed: bool) -> None:
    """However many attempts the register has, and with or without statistics."""
    await store.open()
    await run(store, past_attempts(store, "a", 400, 5), past_attempts(store, "b", 4, 500))
    if is_analyzed:
        await run(store, "ANALYZE tabellion_attempts")
    database, plans = store.database, list[str]()
    fetch = database.fetch

    async def explain(text: str, *values: object) -> list[dict[str, object]]:
        how = "EXPLAIN" if store.dialect == "postgresql" else "EXPLAIN QUERY PLAN"
        plans.append("\n".join(str(dict(row)) for row in await fetch(f"{how} {text}", *values)))
        return await fetch(text, *values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "fetch", explain)
        found = await last_attempts(database, ["a", "b"], [str(number) for number in range(1, 201)])
    assert len(found) == 204
    assert {attempt["error"] for attempt in found.values()} == {"error 5", "error 500"}
    [plan] = plans
    if store.dialect == "postgresql":
        assert "Index Scan Backward using tabellion_attempts_pkey" in plan
        assert "Seq Scan" not in plan
    else:
        assert "SEARCH a USING PRIMARY KEY (queue=? AND key=? AND n=?)" in plan
