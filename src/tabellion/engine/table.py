"""A table as its database describes it: columns, key and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type as the database spells it, and whether it may be empty."""

    name: str
    type: str
    nullable: bool = True
    labels: tuple[str, ...] = ()  #: the values an enum type allows

    @property
    def family(self) -> str:
        """What kind of values it takes: integer, number, boolean, text, time, json, uuid, bytes or other."""
        spelled = self.type.lower()
        for family, marks in _FAMILIES:
            if any(mark in spelled for mark in marks):
                return family
        return "other"


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
class Index:
    """One index: its columns in order, its condition, and the statement that makes it."""

    name: str
    columns: tuple[str, ...]
    unique: bool
    condition: str | None
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the owner's, seen through the catalog."""

    name: str
    columns: Mapping[str, Column]
    primary_key: tuple[str, ...]
    indexes: tuple[Index, ...] = ()
    row_security: bool = False
    references: Mapping[str, tuple[str, str]] = field(default_factory=dict)  #: column -> (table, column)

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
