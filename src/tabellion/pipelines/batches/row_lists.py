"""Lists of rows as one parameter, a JSON list: as the rows of an INSERT, and in a condition."""

from __future__ import annotations

from collections.abc import Mapping

from tabellion.engine.sql import Dialect


def select_rows(columns: Mapping[str, str], dialect: Dialect, computed: str = "") -> str:
    """Selects the rows in the JSON list `$1`, for an INSERT with these columns, whose values are their types on
    PostgreSQL. `computed` is the SQL of another column of a row `r`; conditions may follow."""
    names = ", ".join(columns)
    if dialect == "postgresql":
        types = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        rows = f"SELECT {names} FROM json_to_recordset(CAST($1 AS json)) AS j({types})"
    else:
        values = ", ".join(f"json_extract(j.value, '$.{name}') AS {name}" for name in columns)
        rows = f"SELECT {values} FROM json_each($1) AS j"
    chosen = ", ".join([*(f"r.{name}" for name in columns), *([computed] if computed else [])])
    # Without WHERE, SQLite would read a following ON CONFLICT as a part of the FROM clause.
    return f"SELECT {chosen} FROM ({rows}) AS r WHERE 1 = 1"


def in_list(column: str, name: str, dialect: Dialect) -> str:
    """The condition that a column is one of the texts in a parameter, which is a JSON list."""
    if dialect == "postgresql":
        return f"{column} = ANY (ARRAY(SELECT json_array_elements_text(CAST(:{name} AS json))))"
    return f"{column} IN (SELECT value FROM json_each(:{name}))"
