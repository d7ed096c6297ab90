"""Reads the description of a table from a SQLite file's schema."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tabellion.engine import sql
from tabellion.engine.tables.table import CheckConstraint, Column, Table, TableIndex


def describe(connection: sqlite3.Connection, name: str) -> Table | None:
    """The table as the file's schema describes it."""
    schema, _, bare = name.rpartition(".")
    pragma = f"PRAGMA {sql.column(schema)}." if schema else "PRAGMA "
    rows = [row for row in connection.execute(f"{pragma}table_xinfo({sql.column(bare)})").fetchall() if row[6] != 1]
    if not rows:
        return None
    # SQLite reports an INTEGER PRIMARY KEY as nullable although it never is; other primary keys may hold NULL.
    columns = {
        row[1]: Column(
            row[1],
            re.sub(r"(?i)\s*\bgenerated always$", "", row[2]),
            nullable=not row[3] and not (row[5] and row[2].upper() == "INTEGER"),
            default=row[4],
            generated=row[6] in (2, 3),
        )
        for row in rows
    }
    primary_key = tuple(row[1] for row in sorted((row for row in rows if row[5]), key=lambda row: row[5]))
    indexes = []
    for _, index, unique, _, partial in connection.execute(f"{pragma}index_list({sql.column(bare)})").fetchall():
        parts = tuple(row[2] or "" for row in connection.execute(f"{pragma}index_info({sql.column(index)})").fetchall())
        index_row = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [index]).fetchone()
        definition = (index_row[0] if index_row else None) or ""
        condition = re.split(r"(?i)\bwhere\b", definition, maxsplit=1)[-1].strip() if partial else None
        indexes.append(TableIndex(index, parts, bool(unique), condition, definition))
    keys = connection.execute(f"{pragma}foreign_key_list({sql.column(bare)})").fetchall()
    references = {
        row[3]: (row[2], row[4] or _primary_key(connection, f"{pragma}table_info({sql.column(row[2])})"))
        for row in keys
        if [other[0] for other in keys].count(row[0]) == 1
    }
    master = f"{sql.column(schema)}.sqlite_master" if schema else "sqlite_master"
    entry = connection.execute(f"SELECT type, sql FROM {master} WHERE lower(name) = lower(?)", [bare]).fetchone()
    kind, text = entry if entry else ("table", "")
    return Table(
        name,
        columns,
        primary_key,
        tuple(indexes),
        references=references,
        kind="view" if kind == "view" else "table",
        behind=tuple(_sources(connection, master, text)) if kind == "view" else (),
        # With a collation of its own a column compares differently from the constants that we would test.
        checks=() if re.search(r"(?i)\bcollate\b", text or "") else tuple(_checks(text or "", columns)),
    )


def _primary_key(connection: sqlite3.Connection, pragma: str) -> str:
    """The column that a foreign key references if it names only the table."""
    columns = [row[1] for row in connection.execute(pragma).fetchall() if row[5]]
    return str(columns[0]) if len(columns) == 1 else "rowid"


_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|\w+|\S""", re.DOTALL)


def _sources(connection: sqlite3.Connection, master: str, text: str) -> list[str]:
    """The tables that a view's SQL names."""
    tables = {row[0].lower(): row[0] for row in connection.execute(f"SELECT name FROM {master} WHERE type = 'table'")}
    words = [token.group() for token in _TOKEN.finditer(text)]
    sources = [after for word, after in pairwise(words) if word.upper() in ("FROM", "JOIN")]
    known = (tables.get(name.strip('"`[]').lower()) for name in sources)
    return list(dict.fromkeys(name for name in known if name is not None))


def _checks(text: str, columns: Iterable[str]) -> Iterator[CheckConstraint]:
    """The CHECK constraints in the SQL of a CREATE TABLE, the only place where SQLite has them."""
    tokens = [token for token in _TOKEN.finditer(text) if not token.group().startswith(("--", "/*"))]
    spelled = [token.group() for token in tokens]
    for place, word in enumerate(spelled):
        if word.upper() != "CHECK" or spelled[place + 1 : place + 2] != ["("]:
            continue
        end, depth = place + 1, 1
        while depth and end + 1 < len(spelled):
            end += 1
            depth += {"(": 1, ")": -1}.get(spelled[end], 0)
        words = {part.strip('"`[]').lower() for part in spelled[place + 2 : end] if not part.startswith("'")}
        has_name = place > 1 and spelled[place - 2].upper() == "CONSTRAINT"
        yield CheckConstraint(
            spelled[place - 1].strip('"`[]') if has_name else "",
            text[tokens[place + 1].start() : tokens[end].end()],
            frozenset(column for column in columns if column.lower() in words),
        )
