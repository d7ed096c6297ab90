"""Secrets of an environment that its machines share: created by the first that needs one, stored in its database."""

from __future__ import annotations

import secrets

from tabellion.accounts import tables
from tabellion.engine import sql
from tabellion.engine.database import FetchRows
from tabellion.engine.store import Store

BYTES = 32


async def get_secret(store: Store, name: str) -> bytes:
    """The secret of this name; the same for everyone who asks, however many ask first."""
    await tables.SCHEMA.prepare(store)
    return await fetch_secret(store.database.fetch, name)


async def fetch_secret(fetch: FetchRows, name: str) -> bytes:
    """The same where the tables exist; `fetch` runs one statement."""
    found = await find_secret(fetch, name)
    while found is None:
        await fetch(
            f"""INSERT INTO tabellion_secrets (name, value, created_at) VALUES ($1, $2, {sql.NOW})
ON CONFLICT (name) DO NOTHING""",
            name, secrets.token_hex(BYTES),
        )  # fmt: skip
        found = await find_secret(fetch, name)
    return found


async def find_secret(fetch: FetchRows, name: str) -> bytes | None:
    """The secret of this name, or None if nobody has needed it yet."""
    rows = await fetch("SELECT value FROM tabellion_secrets WHERE name = $1", name)
    return bytes.fromhex(rows[0]["value"]) if rows else None
