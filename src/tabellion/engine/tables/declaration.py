"""Checks a queue against its table: reports every problem at once, each with its fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.job import Job
from tabellion.engine.queue import AGES, STATES, Queue, format_state
from tabellion.engine.sql import Dialect, Scalar
from tabellion.engine.tables.index_condition import requires_value
from tabellion.engine.tables.primary_key import key_column, key_problems
from tabellion.engine.tables.table import Column, Table
from tabellion.errors import DeclarationError, DeclarationProblem


@dataclass(frozen=True, slots=True)
class Bound:
    """A queue bound to a table that fits its declaration: key, order and column types are known."""

    queue: Queue
    table: Table
    key: Column
    order: tuple[tuple[str, bool], ...]
    dialect: Dialect

    @property
    def mirrors(self) -> dict[str, str]:
        """The mirrors that this table has."""
        return self.queue.mirrors_in(self.table.columns)

    def age_columns(self) -> list[str]:
        """The columns that show how long a row has been running, the most accurate first."""
        return [self.mirrors[mirror] for mirror in AGES if mirror in self.mirrors]

    def column(self, name: str) -> Column:
        """The column of this name."""
        return self.table.columns[name]

    def describe_unknown(self, name: object) -> str:
        """The error for a column that the table does not have, with the most similar name."""
        near = difflib.get_close_matches(str(name), self.table.columns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"table {self.table.name!r} has no column {name!r}{hint}"

    def job(self, row: Mapping[str, Any]) -> Job:
        """A claim as the register knows it, without the row's values: enough to settle it."""
        return Job(
            self.queue,
            int(row["key"]) if self.key.family == "integer" else row["key"],
            row["key"],
            {},
            n=row["n"],
            token=row["token"],
            attempt=row["attempt"],
            worker=row["worker"],
            crashes=row["crashes"],
        )

    def order_by(self) -> str:
        """The ORDER BY items of a claim of rows `t`."""
        return ", ".join(f"t.{sql.column(column)}{' DESC' if descending else ''}" for column, descending in self.order)

    def has_index(self) -> bool:
        """Whether an index finds the ready rows in the order in which they are claimed."""
        ready, first = self.queue.states["ready"], self.order[0][0]
        for index in self.table.indexes:
            condition = index.condition or ""
            fixed = {name for name, value in ready.items() if requires_value(condition, name, value, self.dialect)}
            # Columns that the index's condition does not fix must come before those of the order. A condition that
            # fixes no column of the ready state is about other rows.
            lead = len(ready) - len(fixed)
            covered = fixed | set(index.columns[:lead]) == set(ready) and (fixed or index.condition is None)
            if covered and index.columns[lead : lead + 1] == (first,):
                return True
        return False

    def index_ddl(self) -> str:
        """The DDL of a partial index that keeps claims fast however many finished rows there are."""
        columns = ", ".join(f"{sql.column(column)}{' DESC' if down else ''}" for column, down in self.order)
        condition = " AND ".join(
            f"{sql.column(column)} IS NULL"
            if value is None
            else f"{sql.column(column)} = {sql.literal(value, self.dialect)}"
            for column, value in self.queue.states["ready"].items()
        )
        # PostgreSQL cannot create an index of a partitioned table concurrently.
        beside = self.dialect == "postgresql" and self.table.kind != "partitioned"
        create = "CREATE INDEX CONCURRENTLY" if beside else "CREATE INDEX"
        title = f"{self.table.name.rpartition('.')[2]}_{self.queue.name}_ready"
        return f"{create} {sql.column(title)} ON {sql.name(self.table.name)} ({columns}) WHERE {condition};"


def bind(queue: Queue, table: Table | None, dialect: Dialect) -> Bound:
    """The queue bound to its table; raises a DeclarationError that lists every problem."""
    if table is None:
        raise DeclarationError(
            f"queue {queue.name!r}",
            [
                DeclarationProblem(
                    f"there is no table {queue.table!r}",
                    "correct the first argument of Queue(), or create the table",
                )
            ],
        )
    problems = [
        *_unknown_columns(queue, table),
        *key_problems(queue, table, dialect),
        *_type_problems(queue, table, dialect),
        *_unwritable(queue, table, dialect),
    ]
    key = key_column(queue, table)
    if problems or key is None:
        raise DeclarationError(f"queue {queue.name!r}", problems)
    default = (("created_at", False),) if "created_at" in table.columns else ()
    order = queue.order if queue.order is not None else default
    if key.name not in {column for column, _ in order}:
        order = (*order, (key.name, False))
    return Bound(queue, table, key, order, dialect)


TIMES = ("started_at", "finished_at", "done_at", "updated_at")  # mirrors that hold a time
EMPTY = {"text": "''", "integer": "0", "number": "0"}


def empty_value(column: Column, mirror: str, dialect: Dialect) -> str | None:
    """The SQL that empties a mirror: NULL, the column's own default, '' or 0; None if there is no empty value.

    A time that may not be NULL and has no default keeps its last value: any other would be made up.
    """
    if column.nullable:
        return "NULL"
    if column.default and not re.match(r"(?i)\(*null\b", column.default):
        if dialect == "postgresql":
            return "DEFAULT"
        # SQLite reads a bare word as a text here, and nowhere else.
        bare = re.fullmatch(r"(?i)(?!(?:current_\w+|true|false)$)[a-z_]\w*", column.default)
        return sql.literal(column.default, dialect) if bare else f"({column.default})"
    return None if mirror in TIMES else EMPTY.get(column.family)


def _unknown_columns(queue: Queue, table: Table) -> Iterable[DeclarationProblem]:
    optional = set(queue.mirrors.values()) - set(queue.mirrors_in(table.columns).values())
    for column in sorted(queue.columns() - set(table.columns) - optional):
        near = difflib.get_close_matches(column, table.columns, n=1)
        create = f"ALTER TABLE {sql.name(table.name)} ADD COLUMN {sql.column(column)} …;"
        fix = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(table.columns)}, or {create}"
        yield DeclarationProblem(f"table {table.name!r} has no column {column!r}", fix)


def _type_problems(queue: Queue, table: Table, dialect: Dialect) -> Iterable[DeclarationProblem]:
    for state in STATES:
        for name, value in queue.changes[state].items():
            column = table.columns.get(name)
            if column is None or (state != "ready" and queue.changes["ready"].get(name) == value):
                continue
            problem = _explain_misfit(column, value, dialect)
            if problem:
                yield DeclarationProblem(
                    f"{state} says {name} = {value!r}, but {problem}", f"write a value {column.type} can hold"
                )
    families = {"attempts": ("integer", "number"), "worker": ("text",), "error": ("text",)}
    for mirror, allowed in families.items():
        column = table.columns.get(queue.mirrors.get(mirror, ""))
        if column is not None and column.family not in (*allowed, "other"):
            yield DeclarationProblem(
                f"{mirror}={column.name!r} is {column.type}, which cannot hold {_MIRROR_HOLDS[mirror]}",
                f"name another column for {mirror}, or none",
            )
    for mirror in TIMES:
        column = table.columns.get(queue.mirrors.get(mirror, ""))
        if column is not None and column.family not in ("time", "text", "integer", "number"):
            yield DeclarationProblem(
                f"{mirror}={column.name!r} is {column.type}, which cannot hold a time",
                f"name another column for {mirror}",
            )
    if isinstance(queue.max_attempts, str):
        column = table.columns.get(queue.max_attempts)
        if column is not None and column.family != "integer":
            yield DeclarationProblem(
                f"max_attempts={column.name!r} is {column.type}, not a whole number",
                "name an integer column, or a number",
            )


def _unwritable(queue: Queue, table: Table, dialect: Dialect) -> Iterable[DeclarationProblem]:
    """Problems of states and mirrors that the database computes itself, and of mirrors that cannot be cleared."""
    for state in STATES:
        columns = [table.columns[name] for name in queue.changes[state] if name in table.columns]
        if columns and all(column.generated for column in columns):
            yield DeclarationProblem(
                f"{state} says {format_state(queue.changes[state])}, but the database computes this column",
                f"name the columns it is computed from, as in {state}={{'column': value}}",
            )
    for mirror, name in queue.mirrors.items():
        column = table.columns.get(name)
        if column is None:
            continue
        if column.generated:
            problem = f"{mirror}={name!r} is computed by the database and cannot be written"
            yield DeclarationProblem(problem, f"name another column for {mirror}, or none")
        elif mirror in ("worker", "error") and empty_value(column, mirror, dialect) is None:
            drop = (
                f"ALTER TABLE {sql.name(table.name)} ALTER COLUMN {sql.column(name)} DROP NOT NULL;"
                if dialect == "postgresql"
                else "make it nullable"
            )
            yield DeclarationProblem(
                f"{mirror}={name!r} is {column.type} NOT NULL without a default, so it cannot be cleared",
                f"{drop} or name another column for {mirror}, or none",
            )


_MIRROR_HOLDS = {"attempts": "a count", "worker": "a worker's id", "error": "an error's text"}


def _explain_misfit(column: Column, value: Scalar, dialect: Dialect) -> str | None:
    """Why this value cannot be in this column, or None when it can."""
    if value is None:
        return None if column.nullable else "the column is NOT NULL"
    if dialect == "postgresql" and isinstance(value, str) and len(value) > (column.length or len(value)):
        return f"the column is {column.type}, which is too short for it"
    if column.labels:
        return None if value in column.labels else f"its type {column.type} allows only {', '.join(column.labels)}"
    if dialect == "postgresql" and column.family == "json":
        return f"the column is {column.type}, which cannot be compared"
    allowed: dict[str, tuple[type, ...]] = {
        "integer": (int,), "number": (int, float), "boolean": (bool,), "text": (str,), "time": (str,), "uuid": (str,),
    }  # fmt: skip
    fits = isinstance(value, allowed.get(column.family, (object,)))
    if dialect == "postgresql":
        # PostgreSQL distinguishes booleans from integers, SQLite does not.
        fits = fits and not (isinstance(value, bool) and column.family in ("integer", "number"))
    else:
        fits = fits or (column.family == "boolean" and isinstance(value, int))
    return None if fits else f"the column is {column.type}"
