"""The table `tabellion_sessions`: its columns, and every statement that changes it."""

from __future__ import annotations

from typing import TypedDict

from tabellion.engine import sql
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW, Dialect

IDLE = 8 * 3600.0  #: seconds without a request after which a session ends
LONGEST = 24 * 3600.0  #: seconds after which it ends in any case


class SessionRow(TypedDict):
    """A row of `tabellion_sessions`; times are seconds since 1970."""

    hash: str
    environment: str
    user_id: str
    opened_by: str
    created_at: float
    seen_at: float


def is_alive(dialect: Dialect) -> str:
    """The condition that a session has not ended."""
    idle, longest = (sql.later(repr(-seconds), dialect) for seconds in (IDLE, LONGEST))
    return f"tabellion_sessions.seen_at > {idle} AND tabellion_sessions.created_at > {longest}"


def insert(hash: str, environment: str, user_id: str, opened_by: str) -> Numbered:  # noqa: A002
    """A session that begins now."""
    text = f"""INSERT INTO tabellion_sessions (hash, environment, user_id, opened_by, created_at, seen_at)
VALUES ($1, $2, $3, $4, {NOW}, {NOW})"""
    return text, [hash, environment, user_id, opened_by]


def note_seen(hash: str) -> Numbered:  # noqa: A002
    """Notes that a session was used."""
    return f"UPDATE tabellion_sessions SET seen_at = {NOW} WHERE hash = $1", [hash]


def delete(hash: str) -> Numbered:  # noqa: A002
    """Ends a session."""
    return "DELETE FROM tabellion_sessions WHERE hash = $1", [hash]


def delete_of_user(user_id: str, kept_hash: str = "") -> Numbered:
    """Ends every session of a user, except one."""
    return "DELETE FROM tabellion_sessions WHERE user_id = $1 AND hash <> $2", [user_id, kept_hash]


def delete_ended(dialect: Dialect) -> Numbered:
    """Deletes the sessions that have ended."""
    return f"DELETE FROM tabellion_sessions WHERE NOT ({is_alive(dialect)})", []
