"""Sessions: opaque to the browser, stored as hashes, ended by time, by sign-out, or when their user is disabled."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from tabellion.accounts import session_rows, tables, users
from tabellion.accounts.keys import Holder
from tabellion.accounts.roles import ROLES
from tabellion.accounts.session_rows import SessionRow, is_alive
from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store

NOTED = 60.0  #: seconds between two updates of when it was used
_FORM = re.compile(r"(?P<environment>[A-Za-z0-9_.-]{1,100}):(?P<secret>[0-9a-f]{64})")


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
            session_rows.delete_ended(store.dialect),
            session_rows.insert(ticket.hash, environment, user_id, opened_by),
            users.note_seen(user_id),
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
WHERE tabellion_sessions.hash = $1 AND tabellion_sessions.environment = $2 AND u.disabled_at IS NULL
  AND {is_alive(d)}""",
        ticket.hash, ticket.environment,
    )  # fmt: skip
    if not rows or rows[0]["role"] not in ROLES:
        return None
    row = rows[0]
    if row["now"] - row["seen_at"] >= NOTED:
        await store.database.transact([session_rows.note_seen(ticket.hash), users.note_seen(row["user_id"])])
    return Holder(
        f"user:{row['name']}", ticket.environment, ROLES[row["role"]], row["name"], user=row["user_id"],
        language=row["language"], opened_by=row["opened_by"], age=row["now"] - row["created_at"],
        available=bool(row["available"]),
    )  # fmt: skip


async def end(store: Store, ticket: Ticket) -> None:
    """Ends a session at once, even if its cookie still exists."""
    await store.database.transact([session_rows.delete(ticket.hash)])


async def end_all(store: Store, user_id: str, but: Ticket | None = None) -> None:
    """Ends every session of a user, except `but`."""
    await tables.SCHEMA.prepare(store)
    await store.database.transact([session_rows.delete_of_user(user_id, but.hash if but else "")])
