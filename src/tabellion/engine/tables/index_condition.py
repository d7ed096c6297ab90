"""Reads the condition of a partial index, as its database prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tabellion.engine import sql
from tabellion.engine.sql import Dialect, Scalar

_CAST = re.compile(
    r"""('(?:[^']|'')*')|::(?:(?:"(?:[^"]|"")*"|\w+)\.)?(?:"(?:[^"]|"")*"|\w+)(?:\ varying|\ precision)?(?:\([\d,]+\))?
    (?:\ with(?:out)?\ time\ zone)?(?:\[\])*""",
    re.VERBOSE,
)
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|-?\d+(?:\.\d+)?|\w+|[<>=!]+|\S""")


def requires_value(condition: str, column: str, value: Scalar, dialect: Dialect) -> bool:
    """Whether the condition holds for rows with this value only, in a form that the planner recognises in a claim.

    On PostgreSQL a list that contains the value counts too: its rows are passed over in the index.
    """
    tokens = _TOKEN.findall(_CAST.sub(lambda match: match.group(1) or "", condition))
    return any(_matches(term, column, value, dialect) for term in _terms(tokens))


def _terms(tokens: list[str]) -> Iterator[list[str]]:
    """The parts that AND connects, each without parentheses."""
    depth, begin, parts = 0, 0, list[list[str]]()
    for place, word in enumerate(tokens):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.upper() == "AND":
            parts.append(tokens[begin:place])
            begin = place + 1
    if parts:
        for part in (*parts, tokens[begin:]):
            yield from _terms(part)
    elif _is_enclosed(tokens):
        yield from _terms(tokens[1:-1])
    else:
        yield [word for word in tokens if word not in "()"]


def _is_enclosed(tokens: list[str]) -> bool:
    """Whether the first parenthesis is closed by the last token."""
    depth = 0
    for word in tokens[:-1]:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return False
    return depth == 1 and tokens[-1] == ")"


def _matches(term: list[str], column: str, value: Scalar, dialect: Dialect) -> bool:
    if dialect == "sqlite":
        names, folded = {column.lower(), sql.column(column).lower()}, [token.lower() for token in term]
    else:
        names, folded = {column, sql.column(column)}, term
    at = next((place for place, token in enumerate(folded) if token in names), None)
    if at is None:
        return False
    words = ["column" if place == at else token for place, token in enumerate(term)]
    upper = [token if token[0] == "'" else token.upper() for token in words]
    if value is None:
        return upper in (["COLUMN", "IS", "NULL"], ["COLUMN", "ISNULL"])
    literals = {sql.literal(value, dialect)}
    if dialect == "sqlite":
        # SQLite uses the index only if its condition is spelled as in the claim.
        return len(upper) == 3 and upper[:2] in (["COLUMN", "="], ["COLUMN", "=="]) and upper[2] in literals
    if isinstance(value, bool):
        return upper in (["COLUMN"] if value else ["NOT", "COLUMN"], ["COLUMN", "=", str(value).upper()])
    if not isinstance(value, str):
        literals.add(f"'{value!r}'")  # a negative number is printed as text with a cast
    if upper[:5] == ["COLUMN", "=", "ANY", "ARRAY", "["] and upper[-1] == "]":
        return not literals.isdisjoint(upper[5:-1])
    return len(upper) == 3 and upper[:2] == ["COLUMN", "="] and upper[2] in literals
