"""The columns of a row type, for SELECT and RETURNING lists."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.sql import Dialect

TIMES = ("_at", "_until")  #: how the names of columns with times end


def columns_of(row: type, table: str, dialect: Dialect) -> str:
    """The keys of a TypedDict as columns of a table or alias; times as seconds since 1970.

    >>> columns_of(SessionRow, "s", "postgresql")
    's.hash, s.user_id, extract(epoch FROM s.created_at)::float8 AS created_at'
    """
    return ", ".join(
        f"{sql.epoch(f'{table}.{name}', dialect)} AS {name}" if name.endswith(TIMES) else f"{table}.{name}"
        for name in row.__annotations__
    )
