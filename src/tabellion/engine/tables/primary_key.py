"""Finds the column that identifies a row; if there is none, the SQL that adds one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tabellion.engine import sql
from tabellion.engine.queue import Queue
from tabellion.engine.sql import Dialect
from tabellion.engine.tables.table import Column, Table
from tabellion.errors import DeclarationProblem

NEW_KEY = "job_id"  # the column that recipes add
_FORMS = {
    "integer": re.compile(r"-?[0-9]{1,18}"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"),
}


def key_column(queue: Queue, table: Table) -> Column | None:
    """The column that identifies a row of this queue: the one it names, or the primary key.

    In a partitioned table every unique index includes the partition columns, so these are left out of the primary key.
    """
    primary = table.primary_key
    if len(primary) > 1:
        primary = tuple(name for name in primary if name not in table.partition_columns)
    name = queue.key or (primary[0] if len(primary) == 1 else "")
    return table.columns.get(name)


def key_problems(queue: Queue, table: Table, dialect: Dialect) -> Iterable[DeclarationProblem]:
    """Why no single column identifies a row, or why the declared one does not; each with the SQL that fixes it."""
    if table.kind in ("view", "foreign"):
        yield not_a_table(table)
        return
    key = key_column(queue, table)
    if key is None:
        if queue.key is None:  # otherwise it is an unknown column, which is reported elsewhere
            yield _in_partition(table) if table.behind else DeclarationProblem(_no_key(table), _key_sql(table, dialect))
        return
    if key.name not in table.unique_columns():
        if not _unique_in_partition(table, key):
            yield DeclarationProblem(
                f"key={key.name!r} does not identify a row: the column is not unique",
                _make_unique(table, key) if table.kind == "table" else _key_sql(table, dialect),
            )
        elif not key.numbered:
            yield DeclarationProblem(
                f"the key {key.name!r} is unique only within each partition of {table.name!r}: two rows may share it",
                _number(table, key, dialect),
            )
        elif not any(index.columns[:1] == (key.name,) for index in table.indexes):
            yield DeclarationProblem(
                f"no index of the partitions of {table.name!r} begins with the key {key.name!r}",
                f"CREATE INDEX ON {sql.name(table.name)} ({sql.column(key.name)});",
            )
    if not key.type:
        problem = f"the key {key.name!r} has no type, so that 5 and '5' are two rows"
        yield DeclarationProblem(problem, "declare it INTEGER or TEXT, or name another unique column with key=")
    if key.family == "bytes":
        problem = f"the key {key.name!r} is {key.type}, which has no plain text form"
        yield DeclarationProblem(problem, "name another unique column with key=")


def _unique_in_partition(table: Table, key: Column) -> bool:
    return table.kind == "partitioned" and any(
        index.unique and not index.condition and set(index.columns) - {key.name} <= set(table.partition_columns)
        for index in table.indexes
        if key.name in index.columns
    )


def can_be_key(column: Column, key: str) -> bool:
    """Whether a text can be a value of the key column; the database would refuse a whole statement because of one that
    cannot."""
    form = _FORMS.get(column.family)
    return "\x00" not in key and (form is None or form.fullmatch(key) is not None)


def not_a_table(table: Table) -> DeclarationProblem:
    """Why a view or a foreign table cannot be a queue, and which table can."""
    if table.kind == "foreign":
        return DeclarationProblem(
            f"{table.name!r} is a foreign table: its rows cannot be locked from here",
            "declare the queue in an environment of the database that holds the table",
        )
    behind = f" ({' or '.join(map(repr, table.behind))})" if table.behind else ""
    return DeclarationProblem(
        f"{table.name!r} is a view: nothing says which of its columns identifies a row",
        f"declare the queue on the table behind it{behind}, with the view's condition as where=",
    )


def _in_partition(table: Table) -> DeclarationProblem:
    """The problem of a partition, which cannot have columns of its own."""
    return DeclarationProblem(
        f"{table.name!r} is a partition of {table.behind[0]!r} and has no key of one column",
        f"declare the queue on {table.behind[0]!r}; where= may name the rows of this partition",
    )


def _no_key(table: Table) -> str:
    if not table.primary_key:
        return f"table {table.name!r} has no primary key"
    columns = ", ".join(table.primary_key)
    return f"table {table.name!r} has a primary key of {len(table.primary_key)} columns ({columns}); a job has one"


def _make_unique(table: Table, key: Column) -> str:
    title = sql.column(f"{table.name.rpartition('.')[2]}_{key.name}")
    return f"CREATE UNIQUE INDEX {title} ON {sql.name(table.name)} ({sql.column(key.name)});"


def _number(table: Table, key: Column, dialect: Dialect) -> str:
    """The SQL that gives new rows unique values across all partitions."""
    name, column = sql.name(table.name), sql.column(key.name)
    if key.family == "uuid":
        return f"ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT gen_random_uuid();"
    if key.family != "integer":
        return _key_sql(table, dialect)
    sequence = sql.name(f"{table.name}_{key.name}_numbers")
    quoted = sql.literal(sequence, dialect)
    return (
        f"CREATE SEQUENCE {sequence}; SELECT setval({quoted}, (SELECT max({column}) FROM {name})); "
        f"ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT nextval({quoted});"
    )


def _key_sql(table: Table, dialect: Dialect) -> str:
    """The SQL that adds a column which identifies a row; it can be run as it is."""
    known = sorted(table.unique_columns())
    if known:
        return f"name one of its unique columns: key={known[0]!r} (`adopt` takes --key {known[0]})"
    name, new = sql.name(table.name), sql.column(NEW_KEY)
    bare = table.name.rpartition(".")[2]
    index = f"CREATE UNIQUE INDEX {sql.column(f'{bare}_{NEW_KEY}')} ON {name}"
    if dialect == "postgresql" and table.kind == "partitioned":
        columns = ", ".join(map(sql.column, (NEW_KEY, *table.partition_columns)))
        steps = f"ALTER TABLE {name} ADD COLUMN {new} uuid NOT NULL DEFAULT gen_random_uuid(); {index} ({columns});"
    elif dialect == "postgresql":
        steps = f"ALTER TABLE {name} ADD COLUMN {new} bigint GENERATED ALWAYS AS IDENTITY UNIQUE;"
    elif table.primary_key:
        columns = ", ".join(map(sql.column, table.primary_key))
        steps = (
            f"ALTER TABLE {name} ADD COLUMN {new} TEXT GENERATED ALWAYS AS (json_array({columns})) VIRTUAL; "
            f"{index} ({new});"
        )
    else:
        number = "lower(hex(randomblob(16)))"
        steps = (
            f"ALTER TABLE {name} ADD COLUMN {new} TEXT; UPDATE {name} SET {new} = {number}; {index} ({new}); "
            f"CREATE TRIGGER {sql.column(f'{bare}_{NEW_KEY}_new')} AFTER INSERT ON {name} WHEN NEW.{new} IS NULL "
            f"BEGIN UPDATE {name} SET {new} = {number} WHERE rowid = NEW.rowid; END;"
        )
    return f"{steps} then use key={NEW_KEY!r} (`adopt` takes --key {NEW_KEY})"
