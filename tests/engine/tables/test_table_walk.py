"""Windows that cover a whole table, each row once."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine.tables import table_walk
from tabellion.engine.tables.table_walk import next_window
from tests.engine.made_tables import asynchronous, run, tasks


@asynchronous
async def test_windows_cover_the_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several steps; on PostgreSQL without reading the rest of it."""
    monkeypatch.setattr(table_walk, "ROWS", 300)
    monkeypatch.setattr(table_walk, "BLOCKS", 2)
    await tasks(store, 1000)
    position, seen, steps = None, list[int](), 0
    while True:
        window, position = await next_window(store.database, "tasks", position)
        seen += [row["id"] for row in await store.database.fetch(f"SELECT t.id FROM tasks AS t WHERE {window}")]
        steps += 1
        if position is None:
            break
    assert sorted(seen) == list(range(1, 1001))
    assert steps > 2
    if store.dialect == "postgresql":
        plan = await store.database.fetch(f"EXPLAIN SELECT t.id FROM tasks AS t WHERE {window}")
        assert "Tid Range Scan" in plan[0]["QUERY PLAN"]


@asynchronous
async def test_an_empty_table_is_one_window(store: Store) -> None:
    """Nothing is found in it, and nothing comes after it."""
    await tasks(store)
    await run(store, "DELETE FROM tasks")
    window, position = await next_window(store.database, "tasks", None)
    assert position is None
    assert await store.database.fetch(f"SELECT t.id FROM tasks AS t WHERE {window}") == []
