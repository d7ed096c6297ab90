"""Inserts rows with values in the types of their columns, which tables made by hand choose freely."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion.engine import sql
from tabellion.engine.sql import Dialect
from tabellion.engine.tables.table import Column, Table
from tabellion.engine.values import for_insert
from tabellion.errors import TabellionError
from tabellion.messages import Message

if TYPE_CHECKING:
    from tabellion.engine.store import Store

TIMES = ("created_at", "updated_at")


class TextTooLong(TabellionError):  # noqa: N818 - what the caller sent
    """A text is longer than its column allows."""

    def __init__(self, field: str, column: str, limit: int) -> None:
        self.field, self.limit = field, limit
        super().__init__(Message("extraction.text_too_long", column=column, limit=limit))


async def insert_row(store: Store, table: Table, key: Column, values: Mapping[str, Any]) -> str:
    """Adds a row, wakes a worker, and returns the row's key as text."""
    values = {**new_key(key), **values}
    marks = {
        name: mark(number, table.columns[name], store.dialect) if isinstance(value, str) else f"${number}"
        for number, (name, value) in enumerate(values.items(), 1)
    }
    marks |= {name: stamp for name, stamp in new_stamps(table, store.dialect).items() if name not in marks}
    rows = await store.database.fetch(
        f"""INSERT INTO {table.name} ({", ".join(map(sql.column, marks))}) VALUES ({", ".join(marks.values())})
RETURNING CAST({sql.column(key.name)} AS text) AS id""",
        *(for_insert(table, name, value) for name, value in values.items()),
    )
    await store.database.wake()
    return str(rows[0]["id"])


def check_length(column: Column, value: str, field: str) -> None:
    """Raises TextTooLong for a text that its column would cut or refuse."""
    if column.length is not None and len(value) > column.length:
        raise TextTooLong(field, column.name, column.length)


def new_key(key: Column) -> dict[str, str]:
    """The key of a new row; empty if the database generates it."""
    # SQLite would accept a row without a key.
    is_ours = not key.numbered and key.default is None and key.family in ("text", "uuid", "other")
    return {key.name: str(uuid.uuid4())} if is_ours else {}


def new_stamps(table: Table, dialect: Dialect) -> dict[str, str]:
    """The times of a new row as SQL, for columns that the database does not fill in."""
    columns = [table.columns[name] for name in TIMES if name in table.columns]
    return {
        column.name: sql.stamp(column.family, column.type, dialect)
        for column in columns
        if column.default is None and not column.generated
    }


def mark(number: int, column: Column, dialect: Dialect) -> str:
    """A text parameter in the type of a column. Casting the column instead would not use its index."""
    if dialect != "postgresql" or column.family not in ("text", "uuid", "integer", "number"):
        return f"${number}"
    # As text, not as the column's type, which may shorten it: char(9) would find another row's key.
    return f"CAST(${number} AS text)" if column.family == "text" else f"CAST(CAST(${number} AS text) AS {column.type})"
