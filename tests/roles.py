"""Roles of PostgreSQL for one test: they belong to the whole server, and would change what later tests see."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import asyncpg

from tests.servers import Postgres

#: The databases with rights or objects of a role.
USED_IN = """SELECT DISTINCT datname FROM pg_shdepend JOIN pg_database d ON d.oid = dbid
WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1::regrole"""


@contextlib.contextmanager
def temporary_role(server: Postgres, name: str) -> Iterator[str]:
    """Create a role that may connect, for the duration of a block; what it owns or may do then ends with it."""
    _run(server.url, f"CREATE ROLE {name} LOGIN")
    try:
        yield name
    finally:
        for found in _run(server.url, USED_IN, name):
            _run(server.url.removesuffix("postgres") + found["datname"], f"DROP OWNED BY {name} CASCADE")
        _run(server.url, f"DROP ROLE {name}")


def _run(url: str, statement: str, *values: str) -> list[Any]:
    async def go() -> list[Any]:
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            await connection.close()

    return asyncio.run(go())
