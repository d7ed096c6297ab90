"""Finds the driver of the database that a URL names: SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

from tabellion import extras
from tabellion.engine.database import Database
from tabellion.errors import ConfigurationError


def database_at(
    url: str,
    deadline: float,
    connections: int,
    clock: Callable[[], float] | None,
    durable: bool,
    read_only: bool = False,
) -> Database:
    """The database that a URL names, not connected yet."""
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme == "sqlite":
        from tabellion.engine.sqlite.database import SQLite  # each driver is loaded only where used

        return SQLite(url, deadline=deadline, clock=clock, durable=durable, read_only=read_only)
    if scheme in ("postgresql", "postgres"):
        with extras.explain_missing():
            from tabellion.engine.postgres.database import PostgreSQL
        return PostgreSQL(url, deadline=deadline, connections=connections, clock=clock, durable=durable)
    shown = f"{scheme}://…" if "://" in url else repr(url)
    raise ConfigurationError(f"{shown} is not a database URL: use sqlite:///file.db or postgresql://user@host/name")
