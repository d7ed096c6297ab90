"""Identifiers, literals and conditions as SQL text: the only module that quotes text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Dialect = Literal["postgresql", "sqlite"]
Scalar = bool | int | float | str | None
State = Mapping[str, Scalar]

_NAMED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|::|:([A-Za-z_]\w*)""", re.DOTALL)
_NUMBERED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)""")


def name(identifier: str) -> str:
    """A quoted identifier; a dot separates schema and table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in identifier.split("."))


def column(identifier: str) -> str:
    """A quoted column name; a dot is part of the name."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(value: Scalar, dialect: Dialect) -> str:
    """A constant in the SQL text itself: with a parameter, the planner could not use partial indexes."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper() if dialect == "postgresql" else str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if "\x00" in value:
        raise ValueError("a text with a NUL character cannot be a state")
    return "'" + value.replace("'", "''") + "'"


def holds(state: State, dialect: Dialect, alias: str = "t") -> str:
    """The condition that a row is in this state."""
    return " AND ".join(
        f"{alias}.{column(col)} IS NULL" if value is None else f"{alias}.{column(col)} = {literal(value, dialect)}"
        for col, value in state.items()
    )


def assign(state: State, dialect: Dialect) -> list[str]:
    """The SET items that put a row into this state."""
    return [f"{column(col)} = {literal(value, dialect)}" for col, value in state.items()]


def bind(text: str, values: Mapping[str, object], after: int = 0) -> tuple[str, list[object]]:
    """Turns `:name` placeholders into `$1, $2, …`, counted from `after` + 1, and lists the values in that order."""
    order: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        placeholder = match.group(1)
        if placeholder is None:
            return match.group(0)
        if placeholder not in values:
            raise ValueError(f"no value given for :{placeholder} in {text!r}")
        return f"${order.setdefault(placeholder, len(order) + after + 1)}"

    numbered = _NAMED.sub(number, text)
    unused = set(values) - set(order)
    if unused:
        raise ValueError(f"values without a placeholder in {text!r}: {', '.join(sorted(unused))}")
    return numbered, [values[placeholder] for placeholder in order]


def question_marks(text: str) -> str:
    """The same text with SQLite's `?1` instead of `$1`."""
    return _NUMBERED.sub(lambda match: f"?{match.group(1)}" if match.group(1) else match.group(0), text)


CHANNEL = "tabellion"  #: of NOTIFY
#: The placeholder in a statement's text for the database's clock, or a test's.
NOW = "@now@"
CHANNEL = "tabellion"  #: of PostgreSQL's notifications
CLOCK: dict[Dialect, str] = {
    "postgresql": "clock_timestamp()",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}


def later(seconds: str, dialect: Dialect) -> str:
    """The time `seconds` from now."""
    if dialect == "postgresql":
        return f"({NOW} + make_interval(secs => {seconds}))"
    return f"({NOW} + {seconds})"


def epoch(expression: str, dialect: Dialect) -> str:
    """A register time as seconds since 1970."""
    return f"extract(epoch FROM {expression})::float8" if dialect == "postgresql" else expression


def moment(mark: str, dialect: Dialect) -> str:
    """A parameter, in seconds since 1970, as a register time; unlike with a clock, the planner knows its value."""
    return f"to_timestamp(CAST({mark} AS double precision))" if dialect == "postgresql" else mark


def instant(seconds: float, dialect: Dialect) -> str:
    """A fixed time as SQL, for tests that set the clock."""
    return f"to_timestamp({seconds!r}::float8)" if dialect == "postgresql" else f"({seconds!r} + 0.0)"


def stamp(family: str, type_name: str, dialect: Dialect) -> str:
    """The current time in the form that a mirror column of this type stores."""
    if dialect == "postgresql":
        if family == "time":
            return f"({NOW} AT TIME ZONE 'UTC')" if "without" in type_name else NOW
        if family in ("integer", "number"):
            return f"extract(epoch FROM {NOW})"
        return f"({NOW})::text"
    if family in ("integer", "number"):
        return NOW if family == "number" else f"CAST({NOW} AS INTEGER)"
    return f"strftime('%Y-%m-%d %H:%M:%f', {NOW}, 'unixepoch')"


def mirror_epoch(expression: str, family: str, type_name: str, dialect: Dialect) -> str:
    """A mirror column's time as seconds since 1970."""
    if dialect == "postgresql":
        if family == "time":
            zoned = f"({expression} AT TIME ZONE 'UTC')" if "without" in type_name else expression
            return f"extract(epoch FROM {zoned})::float8"
        if family in ("integer", "number"):
            return f"{expression}::float8"
        return f"extract(epoch FROM nullif({expression}, '')::timestamptz)::float8"
    if family in ("integer", "number"):
        return expression
    return f"((julianday({expression}) - 2440587.5) * 86400.0)"
