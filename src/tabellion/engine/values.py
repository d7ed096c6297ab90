"""Converts the values that handlers return to what each database accepts."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from tabellion.engine.tables.table import Table
from tabellion.errors import ValueRefused


def json_text(value: Any) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_in_json, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRefused(f"{type(value).__name__} cannot be written as JSON: {error}") from error


def for_postgres(values: Mapping[str, Any]) -> str:
    """A row of values as one JSON object; the columns' types convert each value back."""
    return json_text({column: _plain(value) for column, value in values.items()})


def for_sqlite(value: Any, family: str = "") -> Any:
    """A value as SQLite stores it; a JSON column stores JSON text."""
    if family == "json" and value is not None:
        return json_text(value)
    if value is None or type(value) in (str, int, float, bool, bytes):
        return value
    if isinstance(value, enum.Enum):
        return for_sqlite(value.value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict | list | tuple | set | frozenset):
        return json_text(value)
    if isinstance(value, str | int | float | bytes | bytearray | memoryview):
        return value
    return str(value) if isinstance(value, Decimal | UUID | PurePath | timedelta) else value


def for_insert(table: Table, column: str, value: Any) -> Any:
    """A value for a plain INSERT or COPY: JSON columns get JSON text, other values are left to the driver."""
    if value is None or table.columns[column].family != "json":
        return value
    return json_text(value)


def parse_json(value: Any) -> Any:
    """A JSON column's text as the value it encodes; text that is not JSON stays text."""
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _plain(value: Any) -> Any:
    """A value whose JSON form PostgreSQL reads back as its own type."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    return value


def _in_json(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Decimal | UUID | PurePath | timedelta):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
