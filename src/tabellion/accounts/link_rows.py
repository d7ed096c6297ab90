"""The table `tabellion_sign_in_links`: its columns, and every statement that changes it."""

from __future__ import annotations

from typing import TypedDict

from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW, Dialect


class LinkRow(TypedDict):
    """A row of `tabellion_sign_in_links`; times are seconds since 1970."""

    hash: str
    environment: str
    user_name: str
    new_role: str | None
    created_at: float
    expires_at: float
    used_at: float | None


def insert(
    dialect: Dialect, hash: str, environment: str, user_name: str, new_role: str | None, seconds: float  # noqa: A002
) -> Numbered:  # fmt: skip
    """A link that expires after so many seconds."""
    text = f"""INSERT INTO tabellion_sign_in_links (hash, environment, user_name, new_role, created_at, expires_at)
VALUES ($1, $2, $3, $4, {NOW}, {sql.later(repr(seconds), dialect)})"""
    return text, [hash, environment, user_name, new_role]


def use(dialect: Dialect, hash: str, environment: str) -> Numbered:  # noqa: A002
    """Uses up a link that is valid, and returns its row."""
    text = f"""UPDATE tabellion_sign_in_links SET used_at = {NOW}
WHERE hash = $1 AND environment = $2 AND used_at IS NULL AND expires_at > {NOW}
RETURNING {columns_of(LinkRow, "tabellion_sign_in_links", dialect)}"""
    return text, [hash, environment]


def delete_expired() -> Numbered:
    """Deletes the links that have expired."""
    return f"DELETE FROM tabellion_sign_in_links WHERE expires_at <= {NOW}", []


def delete_of_user(user_name: str) -> Numbered:
    """Deletes the links of a user."""
    return "DELETE FROM tabellion_sign_in_links WHERE user_name = $1", [user_name]
