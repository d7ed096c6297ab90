"""Reads the description of a table from PostgreSQL's catalog."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.database import FetchRows
from tabellion.engine.tables.table import CheckConstraint, Column, Table, TableIndex, TableKind


async def describe(fetch: FetchRows, name: str) -> Table | None:
    """The table with its columns, key, indexes and references; None if there is no such table."""
    tables = await fetch(_TABLE, sql.name(name))
    if not tables or tables[0]["oid"] is None:
        return None
    oid = tables[0]["oid"]
    columns = {
        row["name"]: Column(
            row["name"],
            row["type"],
            nullable=not row["required"],
            labels=tuple(row["labels"] or ()),
            default=None if row["generated"] else row["default"],
            generated=row["generated"],
            base=row["base"] or "",
            numbered=row["numbered"],
        )
        for row in await fetch(_COLUMNS, oid)
    }
    indexes: list[TableIndex] = []
    primary_key: tuple[str, ...] = ()
    for row in await fetch(_INDEXES, oid):
        index = TableIndex(row["name"], tuple(row["columns"]), row["unique"], row["condition"], row["definition"])
        if row["primary"]:
            primary_key = index.columns
        indexes.append(index)
    references = {row["column"]: (row["table"], row["target"]) for row in await fetch(_REFERENCES, oid)}
    checks = [
        CheckConstraint(row["name"], row["expression"], frozenset(row["columns"] or ()))
        for row in await fetch(_CHECKS, oid)
    ]
    return Table(
        name,
        columns,
        primary_key,
        tuple(indexes),
        tables[0]["row_security"],
        references,
        _KINDS.get(tables[0]["kind"], "table"),
        tuple(tables[0]["partition_columns"]),
        tuple(checks),
        tuple(tables[0]["behind"]),
    )


_KINDS: dict[str, TableKind] = {"p": "partitioned", "v": "view", "m": "view", "f": "foreign"}

_TABLE = """SELECT c.oid, c.relrowsecurity AS row_security, c.relkind::text AS kind,
  array(SELECT a.attname::text FROM pg_partitioned_table AS p, unnest(p.partattrs::smallint[]) AS number
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = number WHERE p.partrelid = c.oid)
    AS partition_columns,
  array(SELECT DISTINCT CASE WHEN pg_table_is_visible(b.oid) THEN '' ELSE n.nspname || '.' END || b.relname
        FROM pg_class AS b JOIN pg_namespace AS n ON n.oid = b.relnamespace
        WHERE b.oid IN (SELECT i.inhparent FROM pg_inherits AS i WHERE i.inhrelid = c.oid AND c.relispartition
          UNION ALL SELECT d.refobjid FROM pg_rewrite AS r JOIN pg_depend AS d ON d.objid = r.oid
            AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
          WHERE r.ev_class = c.oid AND c.relkind IN ('v', 'm') AND d.refobjid <> c.oid)) AS behind
FROM pg_class AS c WHERE c.oid = to_regclass($1)"""

#: A domain is resolved to its base type, so that its refusals are reported like any other.
_COLUMNS = """
WITH RECURSIVE below (number, type, modifier, required, preset, depth) AS (
  SELECT a.attnum, a.atttypid, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid), 0
  FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.number, t.typbasetype, t.typtypmod, b.required OR t.typnotnull, coalesce(b.preset, t.typdefault), b.depth + 1
  FROM below AS b JOIN pg_type AS t ON t.oid = b.type AND t.typtype = 'd'
)
SELECT DISTINCT ON (a.attnum) a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, b.required,
  CASE WHEN b.depth > 0 THEN format_type(b.type, b.modifier) END AS base, b.preset AS default,
  a.attgenerated <> '' OR a.attidentity = 'a' AS generated,
  a.attidentity <> '' OR coalesce(b.preset ~ '^(nextval|gen_random_uuid|uuid_generate_v|uuidv)', false) AS numbered,
  (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = b.type) AS labels
FROM pg_attribute AS a JOIN below AS b ON b.number = a.attnum AND a.attrelid = $1
ORDER BY a.attnum, b.depth DESC"""

_CHECKS = """
SELECT c.conname AS name, pg_get_expr(c.conbin, c.conrelid) AS expression,
  array(SELECT coalesce(a.attname::text, '') FROM unnest(c.conkey) AS number
        LEFT JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = number) AS columns
FROM pg_constraint AS c WHERE c.contype = 'c' AND c.conrelid = $1
  AND coalesce((to_jsonb(c) ->> 'conenforced')::boolean, true) ORDER BY c.conname"""

_INDEXES = """
SELECT c.relname AS name, i.indisunique AS unique, i.indisprimary AS primary,
  pg_get_expr(i.indpred, i.indrelid) AS condition,
  pg_get_indexdef(i.indexrelid) AS definition,
  array(SELECT coalesce(a.attname::text, '') FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
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
