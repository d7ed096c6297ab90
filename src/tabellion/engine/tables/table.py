"""A table as its database describes it: columns, key and indexes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]  #: values by column, of a table that tabellion does not define


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type as the database spells it, whether it may be NULL, and how it gets its value."""

    name: str
    type: str
    nullable: bool = True
    labels: tuple[str, ...] = ()  #: the values an enum type allows
    default: str | None = None  #: the SQL of its DEFAULT
    generated: bool = False  #: the database computes it; it cannot be written
    base: str = ""  #: the type below a domain
    numbered: bool = False  #: each new row gets a value of its own, from a sequence or at random

    @property
    def plain_type(self) -> str:
        """Its type; for a domain, the type below it."""
        return self.base or self.type

    @property
    def length(self) -> int | None:
        """The maximum number of characters, if its type has one."""
        match = re.search(r"char\w*(?: varying)?\s*\((\d+)\)", self.plain_type, re.IGNORECASE)
        return int(match.group(1)) if match else None

    @property
    def family(self) -> str:
        """The kind of its values: integer, number, boolean, text, time, json, uuid, bytes or other."""
        if self.labels:
            return "other"  # an enum may have any name, even date_status
        spelled = self.plain_type.lower()
        if _MISLEADING.search(spelled):
            return "other"
        for family, marks in _FAMILIES:
            if any(mark in spelled for mark in marks):
                return family
        return "other"


#: Arrays, and types whose names contain that of another family: SQLite allows any name, so parts of names must do.
_MISLEADING = re.compile(r"\[|\b(?:interval|point|jsonpath|int2vector|\w*range)\b")
_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("json", ("json",)),
    ("time", ("timestamp", "datetime", "date", "time")),
    ("boolean", ("bool",)),
    ("integer", ("int", "serial")),
    ("number", ("numeric", "decimal", "real", "double", "float")),
    ("uuid", ("uuid",)),
    ("bytes", ("bytea", "blob")),
    ("text", ("char", "text", "clob", "citext")),
)


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One index: its columns in order, its condition, and the statement that creates it."""

    name: str
    columns: tuple[str, ...]
    unique: bool
    condition: str | None
    definition: str = ""


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """One CHECK constraint: its name if it has one, its expression, and the columns it uses."""

    name: str
    expression: str
    columns: frozenset[str]


TableKind = Literal["table", "partitioned", "view", "foreign"]


@dataclass(frozen=True, slots=True)
class Table:
    """A user's table as the catalog describes it."""

    name: str
    columns: Mapping[str, Column]
    primary_key: tuple[str, ...]
    indexes: tuple[TableIndex, ...] = ()
    row_security: bool = False
    references: Mapping[str, tuple[str, str]] = field(default_factory=dict)  #: column -> (table, column)
    kind: TableKind = "table"
    partition_columns: tuple[str, ...] = ()  #: the columns that decide which partition a row is in
    checks: tuple[CheckConstraint, ...] = ()
    behind: tuple[str, ...] = ()  #: the tables that a view reads, or the table that this is a partition of

    def unique_columns(self) -> set[str]:
        """Columns that alone identify a row."""
        alone = {
            index.columns[0]
            for index in self.indexes
            if index.unique and len(index.columns) == 1 and not index.condition
        }
        if len(self.primary_key) == 1:
            alone.add(self.primary_key[0])
        return alone
