"""Sessions: opaque to the browser, stored as hashes, ended by time, by sign-out, or when their user is disabled."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import TypedDict

from tabellion.accounts import tables
from tabellion.accounts.keys import Holder
from tabellion.accounts.roles import ROLES
from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store

IDLE = 8 * 3600.0  #: seconds without a request after which a session ends
LONGEST = 24 * 3600.0  #: seconds after which it ends in any case
NOTED = 60.0  #: seconds between two updates of when it was used
_FORM = re.compile(r"(?P<environment>[A-Za-z0-9_.-]{1,100}):(?P<secret>[0-9a-f]{64})")


class SessionRow(TypedDict):
    """A row of `tabellion_sessions`; times are seconds since 1970."""

    hash: str
    environment: str
    user_id: str
    opened_by: str
    created_at: float
    seen_at: float


class _SignedIn(SessionRow):
    """A session with its user, and the database's time."""

    name: str
    role: str
    language: str | None
    available: bool
    now: float


@dataclass(frozen=True, slots=True)
class Ticket:
    """The secret of a session in the browser's cookie, or of a sign-in link."""

    environment: str
    secret: str

    def __repr__(self) -> str:
        return f"Ticket({self.environment!r})"

    def __str__(self) -> str:
        return f"{self.environment}:{self.secret}"

    @property
    def hash(self) -> str:
        """What is stored: the secret has 256 random bits, so one round of SHA-256 is enough."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_ticket(environment: str) -> Ticket:
    """A ticket with a new random secret."""
    return Ticket(environment, secrets.token_hex(32))


def parse(text: str) -> Ticket | None:
    """The parts of a ticket; None if the text is not a ticket."""
    match = _FORM.fullmatch(text)
    return Ticket(match["environment"], match["secret"]) if match else None


async def begin(store: Store, environment: str, user_id: str, opened_by: str) -> Ticket:
    """Starts a session of a user, and deletes sessions that have ended."""
    await tables.SCHEMA.prepare(store)
    ticket = new_ticket(environment)
    await store.database.transact(
        [
            (f"DELETE FROM tabellion_sessions WHERE NOT ({_alive(store.dialect)})", ()),
            (
                f"""INSERT INTO tabellion_sessions (hash, environment, user_id, opened_by, created_at, seen_at)
VALUES ($1, $2, $3, $4, {NOW}, {NOW})""",
                (ticket.hash, environment, user_id, opened_by),
            ),
            (f"UPDATE tabellion_users SET last_seen_at = {NOW} WHERE id = $1", (user_id,)),
        ]
    )
    return ticket


async def holder(store: Store, ticket: Ticket) -> Holder | None:
    """The holder of a session; None if it is unknown, has ended, or its user is disabled."""
    await tables.SCHEMA.prepare(store)
    d = store.dialect
    rows: list[_SignedIn] = await store.database.fetch(
        f"""SELECT {columns_of(SessionRow, "tabellion_sessions", d)}, u.name, u.role, u.language, u.available,
  {sql.epoch(NOW, d)} AS now
FROM tabellion_sessions JOIN tabellion_users AS u ON u.id = tabellion_sessions.user_id
WHERE tabellion_sessions.hash = $1 AND tabellion_sessions.environment = $2 AND u.disabled_at IS NULL AND {_alive(d)}""",
        ticket.hash, ticket.environment,
    )  # fmt: skip
    if not rows or rows[0]["role"] not in ROLES:
        return None
    row = rows[0]
    if row["now"] - row["seen_at"] >= NOTED:
        await _note(store, ticket, row["user_id"])
    return Holder(
        f"user:{row['name']}", ticket.environment, ROLES[row["role"]], row["name"], user=row["user_id"],
        language=row["language"], opened_by=row["opened_by"], age=row["now"] - row["created_at"],
        available=bool(row["available"]),
    )  # fmt: skip


async def end(store: Store, ticket: Ticket) -> None:
    """Ends a session at once, even if its cookie still exists."""
    await store.database.fetch("DELETE FROM tabellion_sessions WHERE hash = $1", ticket.hash)


async def end_all(store: Store, user_id: str, but: Ticket | None = None) -> None:
    """Ends every session of a user, except `but`."""
    await tables.SCHEMA.prepare(store)
    kept_hash = but.hash if but else ""
    await store.database.fetch("DELETE FROM tabellion_sessions WHERE user_id = $1 AND hash <> $2", user_id, kept_hash)


def delete_of_user(user_id: str) -> Numbered:
    """The statement that ends every session of a user."""
    return "DELETE FROM tabellion_sessions WHERE user_id = $1", [user_id]


async def _note(store: Store, ticket: Ticket, user_id: str) -> None:
    await store.database.transact(
        [
            (f"UPDATE tabellion_sessions SET seen_at = {NOW} WHERE hash = $1", (ticket.hash,)),
            (f"UPDATE tabellion_users SET last_seen_at = {NOW} WHERE id = $1", (user_id,)),
        ]
    )


def _alive(dialect: Dialect) -> str:
    idle, longest = (sql.later(repr(-seconds), dialect) for seconds in (IDLE, LONGEST))
    return f"tabellion_sessions.seen_at > {idle} AND tabellion_sessions.created_at > {longest}"
