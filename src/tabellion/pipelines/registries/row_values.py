"""Writes values into statements in the types of their columns, which tables made by hand choose freely."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tabellion.engine import sql
from tabellion.engine.sql import Dialect
from tabellion.engine.table import Column, Table
from tabellion.errors import NotMigrated

if TYPE_CHECKING:
    from tabellion.engine.store import Store

TIMES = ("created_at", "updated_at")


async def require_table(store: Store, name: str) -> Table:
    """The table; raises NotMigrated if it does not exist."""
    found = await store.table(name)
    if found is None:
        raise NotMigrated(f"there is no table {name} in this database: run `tabellion migrate --with registries`")
    return found


def new_key(table: Table) -> dict[str, str]:
    """The key of a new row; empty if the database generates it."""
    key = table.columns["id"]
    return {"id": str(uuid.uuid4())} if not key.numbered and key.default is None else {}


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
