"""A table as its database describes it."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine.tables.table import Column
from tests.engine.made_tables import asynchronous, run


@pytest.mark.parametrize(
    ("type_name", "family"),
    [
        ("integer", "integer"), ("bigint", "integer"), ("SMALLINT", "integer"), ("bigserial", "integer"),
        ("numeric(10,2)", "number"), ("double precision", "number"), ("REAL", "number"),
        ("boolean", "boolean"), ("BOOL", "boolean"),
        ("text", "text"), ("character varying(20)", "text"), ("VARCHAR(20)", "text"), ("citext", "text"),
        ("timestamp with time zone", "time"), ("timestamp(3) without time zone", "time"), ("date", "time"),
        ("DATETIME", "time"), ("json", "json"), ("jsonb", "json"), ("uuid", "uuid"), ("bytea", "bytes"),
        ("BLOB", "bytes"), ("", "other"), ("inet", "other"),
        ("interval", "other"), ("interval day to second(3)", "other"), ("point", "other"), ("int4range", "other"),
        ("int8multirange", "other"), ("daterange", "other"), ("integer[]", "other"), ("text[]", "other"),
        ("character varying(20)[]", "other"), ("jsonb[]", "other"), ("geometry(Point,4326)", "other"),
        ("UNSIGNED BIG INT", "integer"), ("NVARCHAR(20)", "text"), ("timestamp_ms", "time"), ("public.citext", "text"),
    ],
)  # fmt: skip
def test_types_are_grouped_into_families(type_name: str, family: str) -> None:
    """Both databases' spellings are grouped by what they hold."""
    assert Column("c", type_name).family == family


@asynchronous
async def test_columns_key_and_indexes(store: Store) -> None:
    """Names, types, NOT NULL, the key, and each index with its columns and condition."""
    await run(
        store,
        "CREATE TABLE papers (id integer PRIMARY KEY, code varchar(20) NOT NULL UNIQUE, kind text, n integer)",
        "CREATE INDEX papers_ready ON papers (n, id) WHERE kind = 'new'",
    )
    table = await store.table("papers")
    assert table is not None
    assert list(table.columns) == ["id", "code", "kind", "n"]
    varying = "character varying(20)" if store.dialect == "postgresql" else "varchar(20)"
    assert table.columns["code"].type == varying
    assert [column.nullable for column in table.columns.values()] == [False, False, True, True]
    assert table.primary_key == ("id",)
    assert table.unique_columns() == {"id", "code"}
    [index] = [index for index in table.indexes if index.name == "papers_ready"]
    assert index.columns == ("n", "id")
    assert not index.unique
    assert "kind" in (index.condition or "")
    assert "papers_ready" in index.definition


@asynchronous
async def test_a_missing_table(store: Store) -> None:
    """There is no description of a table that does not exist."""
    assert await store.table("nowhere") is None


@asynchronous
async def test_a_key_of_two_columns(store: Store) -> None:
    """A composite key is returned in its own order, and neither column alone is unique."""
    await run(store, "CREATE TABLE pairs (a integer, b integer, PRIMARY KEY (b, a))")
    table = await store.table("pairs")
    assert table is not None
    assert table.primary_key == ("b", "a")
    assert table.unique_columns() == set()


@pytest.mark.parametrize(
    "index",
    [
        "CREATE UNIQUE INDEX u ON t (code) WHERE live = 1",
        "create unique index u on t (code) where live = 1",
        "CREATE UNIQUE INDEX u ON t (code)\nWHERE live = 1",
        "CREATE UNIQUE INDEX u ON t (lower(code))",
        "CREATE UNIQUE INDEX u ON t (code, live)",
    ],
)
@asynchronous
async def test_partial_and_multi_column_unique_indexes_do_not_identify_a_row(store: Store, index: str) -> None:
    """A partial, expression or two-column unique index does not identify a row."""
    await run(store, "CREATE TABLE t (id integer PRIMARY KEY, code text, live integer)", index)
    table = await store.table("t")
    assert table is not None
    assert "code" not in table.unique_columns()


@asynchronous
async def test_references(store: Store) -> None:
    """Foreign keys are known, so that `adopt` can show them."""
    await run(
        store,
        "CREATE TABLE parents (id integer PRIMARY KEY)",
        "CREATE TABLE children (id integer PRIMARY KEY, parent integer REFERENCES parents (id))",
    )
    table = await store.table("children")
    assert table is not None
    assert table.references == {"parent": ("parents", "id")}


@asynchronous
async def test_unusual_names_are_found(store: Store) -> None:
    """Spaces, capitals and quotes are part of a name."""
    await run(store, 'CREATE TABLE "My ""Jobs""" ("Key Of" integer PRIMARY KEY, "statusId" integer)')
    table = await store.table('My "Jobs"')
    assert table is not None
    assert list(table.columns) == ["Key Of", "statusId"]


@asynchronous
async def test_enum_labels_and_row_security(pg_store: Store) -> None:
    """PostgreSQL: an enum's labels in order, schemas, row security, dropped columns gone."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE SCHEMA work",
        "CREATE TYPE work.mood AS ENUM ('new', 'busy')",
        "CREATE TABLE work.t (id uuid PRIMARY KEY, gone text, status work.mood NOT NULL, tags text[])",
        "ALTER TABLE work.t DROP COLUMN gone",
        "ALTER TABLE work.t ENABLE ROW LEVEL SECURITY",
    )
    table = await store.table("work.t")
    assert table is not None
    assert list(table.columns) == ["id", "status", "tags"]
    assert table.columns["status"].labels == ("new", "busy")
    assert table.row_security
    assert await store.table("t") is None


@asynchronous
async def test_a_reference_that_names_only_its_table(store: Store) -> None:
    """It points to the primary key, whatever that is called; a reference of two columns is not one of each."""
    await run(
        store,
        "CREATE TABLE states (code text PRIMARY KEY)",
        "CREATE TABLE kinds (a text, b text, PRIMARY KEY (a, b))",
        """CREATE TABLE jobs (id integer PRIMARY KEY, status text REFERENCES states, a text, b text,
  FOREIGN KEY (a, b) REFERENCES kinds)""",
    )
    table = await store.table("jobs")
    assert table is not None
    assert table.references == {"status": ("states", "code")}


@asynchronous
async def test_defaults_computed_columns_and_checks(store: Store) -> None:
    """A column's default, what the database computes, and which columns a CHECK is about."""
    await run(
        store,
        """CREATE TABLE jobs (id integer PRIMARY KEY, status text NOT NULL DEFAULT 'it''s',
  kind text /* CHECK (no) */ CHECK (kind IN ('a)', 'b')), "Odd Name" integer,
  twice integer GENERATED ALWAYS AS ("Odd Name" * 2) STORED,
  CONSTRAINT pair CHECK (status <> 'kind' OR "Odd Name" > 0))""",
    )
    table = await store.table("jobs")
    assert table is not None
    assert (table.columns["status"].default or "").startswith("'it''s'")
    assert [name for name, column in table.columns.items() if column.generated] == ["twice"]
    assert table.columns["twice"].family == "integer"
    assert {check.columns for check in table.checks} == {frozenset({"kind"}), frozenset({"status", "Odd Name"})}
    assert "pair" in {check.name for check in table.checks}


@asynchronous
async def test_kinds_partitions_and_domains(pg_store: Store) -> None:
    """PostgreSQL: what is a view, which column decides the partition, and the base type of a domain."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE DOMAIN word AS varchar(9) NOT NULL DEFAULT 'x'",
        "CREATE DOMAIN update_date AS word",
        "CREATE TABLE parts (id bigserial, w update_date, made date, PRIMARY KEY (id, made)) PARTITION BY LIST (made)",
        "CREATE VIEW seen AS SELECT * FROM parts",
    )
    parts, seen = await store.table("parts"), await store.table("seen")
    assert parts is not None
    assert seen is not None
    assert (parts.kind, parts.partition_columns, seen.kind) == ("partitioned", ("made",), "view")
    word = parts.columns["w"]
    assert (word.family, word.length, word.nullable, word.default) == ("text", 9, False, "'x'::character varying")
    assert parts.columns["id"].numbered
