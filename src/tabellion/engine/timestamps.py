"""Formats times as ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def iso(seconds: float) -> str: ...
@overload
def iso(seconds: float | None) -> str | None: ...
def iso(seconds: float | None) -> str | None:
    """Seconds since 1970 as ISO 8601 in UTC, with milliseconds.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
