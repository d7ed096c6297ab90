"""What a SQLite file's schema says of a table."""

from __future__ import annotations

import re
import sqlite3

from tabellion.engine import sql
from tabellion.engine.table import Column, Index, Table


def describe(connection: sqlite3.Connection, name: str) -> Table | None:
    """The table as the file's schema describes it."""
    schema, _, bare = name.rpartition(".")
    pragma = f"PRAGMA {sql.column(schema)}." if schema else "PRAGMA "
    rows = connection.execute(f"{pragma}table_info({sql.column(bare)})").fetchall()
    if not rows:
        return None
    # An INTEGER PRIMARY KEY says nullable but never is; any other primary key may really hold NULL.
    columns = {
        row[1]: Column(row[1], row[2], not row[3] and not (row[5] and row[2].upper() == "INTEGER")) for row in rows
    }
    primary_key = tuple(row[1] for row in sorted((row for row in rows if row[5]), key=lambda row: row[5]))
    indexes = []
    for _, index, unique, _, partial in connection.execute(f"{pragma}index_list({sql.column(bare)})").fetchall():
        parts = tuple(row[2] or "" for row in connection.execute(f"{pragma}index_info({sql.column(index)})").fetchall())
        found = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [index]).fetchone()
        definition = (found[0] if found else None) or ""
        condition = re.split(r"(?i)\bwhere\b", definition, maxsplit=1)[-1].strip() if partial else None
        indexes.append(Index(index, parts, bool(unique), condition, definition))
    references = {
        row[3]: (row[2], row[4] or "rowid")
        for row in connection.execute(f"{pragma}foreign_key_list({sql.column(bare)})").fetchall()
    }
    return Table(name, columns, primary_key, tuple(indexes), references=references)
