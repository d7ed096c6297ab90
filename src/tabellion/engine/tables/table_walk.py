"""Walks over a whole table in windows, without an index: by its blocks on PostgreSQL, by its rowids on SQLite."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.failpoints import failpoint
from tabellion.engine.retention import PruneStep
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store

BLOCKS = 32  #: of a PostgreSQL table in one window: 256 kB, some hundred to two thousand rows
ROWS = 1000  #: of a SQLite table in one window


async def next_window(database: Database, table: str, position: str | None) -> tuple[str, str | None]:
    """The condition on `t` that selects the window at `position`, and the position after it; None: it is the last.

    A row that moves during the walk may be missed, or met twice; the next walk finds it.
    """
    if database.dialect == "postgresql":
        [row] = await database.fetch(
            "SELECT pg_relation_size(to_regclass($1)) / current_setting('block_size')::int AS blocks", sql.name(table)
        )
        first, blocks = int(position or 0), int(row["blocks"])
        end = first + BLOCKS
        window = f"(t.ctid >= '({first},0)'::tid AND t.ctid < '({end},0)'::tid)"
        return window, str(end) if end < blocks else None
    last = int(position) if position is not None else None
    after = "" if last is None else f"WHERE rowid > {last}"
    rows = await database.fetch(
        f"SELECT rowid AS row FROM {sql.name(table)} {after} ORDER BY rowid LIMIT 1 OFFSET {ROWS - 1}"
    )
    conditions = [f"t.rowid > {last}"] if last is not None else []
    conditions += [f"t.rowid <= {rows[0]['row']}"] if rows else []
    return " AND ".join(conditions) or "1 = 1", str(rows[0]["row"]) if rows else None


async def prune_window(
    store: Store, table: str, position: str | None, condition: str, time: str, *, dry_run: bool = False
) -> PruneStep:
    """Deletes the rows `t` of one window that meet the condition, or counts them; `time` is what their age is from."""
    d = store.dialect
    window, next_position = await next_window(store.database, table, position)
    where = f"{window} AND ({condition})"
    age = f"{sql.epoch(NOW, d)} - {sql.epoch(time, d)}"
    name = sql.name(table)
    if dry_run:
        rows = await store.database.fetch(f"SELECT {age} AS age FROM {name} AS t WHERE {where}")
    else:
        failpoint("prune.pre_commit")
        # SQLite's RETURNING does not know the alias.
        returned = age if d == "postgresql" else age.replace("t.", "")
        rows = await store.database.fetch(f"DELETE FROM {name} AS t WHERE {where} RETURNING {returned} AS age")
        failpoint("prune.post_commit")
    return PruneStep(next_position, len(rows), max((row["age"] for row in rows), default=None))
