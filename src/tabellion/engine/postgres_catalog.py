"""What PostgreSQL's catalog says of a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tabellion.engine import sql
from tabellion.engine.table import Column, Index, Table

Fetch = Callable[..., Awaitable[list[dict[str, Any]]]]


async def describe(fetch: Fetch, name: str) -> Table | None:
    """The table with its columns, key, indexes and references; None when there is none of this name."""
    found = await fetch(_TABLE, sql.name(name))
    if not found or found[0]["oid"] is None:
        return None
    oid = found[0]["oid"]
    columns = {
        row["name"]: Column(row["name"], row["type"], not row["required"], tuple(row["labels"] or ()))
        for row in await fetch(_COLUMNS, oid)
    }
    indexes: list[Index] = []
    primary_key: tuple[str, ...] = ()
    for row in await fetch(_INDEXES, oid):
        index = Index(row["name"], tuple(row["columns"]), row["unique"], row["condition"], row["definition"])
        if row["primary"]:
            primary_key = index.columns
        indexes.append(index)
    references = {row["column"]: (row["table"], row["target"]) for row in await fetch(_REFERENCES, oid)}
    return Table(name, columns, primary_key, tuple(indexes), found[0]["row_security"], references)


_TABLE = """SELECT c.oid, c.relrowsecurity AS row_security FROM pg_class AS c WHERE c.oid = to_regclass($1)"""

_COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
  (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = a.atttypid) AS labels
FROM pg_attribute AS a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""

_INDEXES = """
SELECT c.relname AS name, i.indisunique AS unique, i.indisprimary AS primary,
  pg_get_expr(i.indpred, i.indrelid) AS condition,
  pg_get_indexdef(i.indexrelid) AS definition,
  array(SELECT coalesce(a.attname, '') FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
        LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
        WHERE k.place <= i.indnkeyatts ORDER BY k.place) AS columns
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = $1 AND i.indisvalid ORDER BY c.relname"""

_REFERENCES = """
SELECT a.attname AS column, f.confrelid::regclass::text AS table, b.attname AS target
FROM pg_constraint AS f
JOIN pg_attribute AS a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]
JOIN pg_attribute AS b ON b.attrelid = f.confrelid AND b.attnum = f.confkey[1]
WHERE f.contype = 'f' AND f.conrelid = $1 AND cardinality(f.conkey) = 1"""
