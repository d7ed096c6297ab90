"""Users: the people who sign in. Their rows are the workers of review; what they may is their role."""

from __future__ import annotations

import re
import secrets
import weakref
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.errors import ConfigurationError, TabellionError
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.pipelines.documents import tables as document_tables
from tabellion.web.policy import ROLES, Role

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
FIRST = "admin"  #: the user that the first sign-in link makes
TIMES = ("created_at", "disabled_at", "last_seen_at")
#: Until the document tables have it.
TABLE = """CREATE TABLE IF NOT EXISTS users (
  id text PRIMARY KEY,
  name text NOT NULL UNIQUE,
  role text NOT NULL,
  password text,
  available boolean NOT NULL DEFAULT TRUE,
  created_at TIME NOT NULL,
  disabled_at TIME,
  last_seen_at TIME,
  language text
)"""

_prepared: weakref.WeakSet[Store] = weakref.WeakSet()


class NameTaken(TabellionError):  # noqa: N818 - what happened
    """There is a user of this name already."""


class LastAdmin(TabellionError):  # noqa: N818 - a state, not a failure
    """Nobody else could let people in: make another admin first."""


@dataclass(frozen=True, slots=True)
class User:
    """One person, without the password; times in seconds since 1970."""

    id: str
    name: str
    role: Role
    available: bool
    has_password: bool
    language: str | None
    created_at: float
    disabled_at: float | None
    last_seen_at: float | None


async def prepare(store: Store) -> None:
    """Sees to it that the table is there; asked once for each store."""
    if store in _prepared:
        return
    await document_tables.prepare(store)
    time = {"postgresql": " timestamptz", "sqlite": " REAL"}[store.dialect]
    await store.database.fetch(TABLE.replace(" TIME", time))
    _prepared.add(store)


def plain_name(given: str) -> str:
    """The name as it is kept; raises where it cannot be one."""
    name = given.strip().lower()
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            "a user's name is 1 to 64 letters a-z, digits and . _ @ + -, and begins with a letter or a digit"
        )
    return name


def role_named(word: str) -> Role:
    """The role of this name."""
    if word not in ROLES:
        raise ConfigurationError(f"there is no role {word!r}; there are {', '.join(ROLES)}")
    return ROLES[word]


async def add(store: Store, name: str, role: str, password: str | None = None) -> User:
    """A new user; `password` is a hash. Raises NameTaken."""
    await prepare(store)
    name, kept = plain_name(name), role_named(role).word
    rows = await store.database.fetch(
        f"""INSERT INTO users (id, name, role, password, created_at) VALUES ($1, $2, $3, $4, {NOW})
ON CONFLICT (name) DO NOTHING RETURNING id""",
        secrets.token_hex(6), name, kept, password,
    )  # fmt: skip
    if not rows:
        raise NameTaken(f"there is a user {name} already")
    made = await by_name(store, name)
    assert made is not None  # noqa: S101 - inserted a line before
    return made


async def listing(store: Store) -> list[User]:
    """Everybody, those who may sign in first, by name."""
    return await _users(store, "1 = 1")


async def by_name(store: Store, name: str) -> User | None:
    """The user of this name."""
    found = await _users(store, "name = $1", name.strip().lower())
    return found[0] if found else None


async def by_id(store: Store, id: str) -> User | None:  # noqa: A002
    """The user with this id."""
    found = await _users(store, "id = $1", id)
    return found[0] if found else None


async def _users(store: Store, where: str, *values: Any) -> list[User]:
    await prepare(store)
    times = ", ".join(f"{sql.epoch(column, store.dialect)} AS {column}" for column in TIMES)
    rows = await store.database.fetch(
        f"""SELECT id, name, role, available, language, CASE WHEN password IS NULL THEN 0 ELSE 1 END AS has_password,
  {times} FROM users WHERE {where} ORDER BY CASE WHEN users.disabled_at IS NULL THEN 0 ELSE 1 END, name""",
        *values,
    )
    return [
        User(
            row["id"], row["name"], ROLES[row["role"]], bool(row["available"]), bool(row["has_password"]),
            row["language"], float(row["created_at"]), row["disabled_at"], row["last_seen_at"],
        )
        for row in rows
    ]  # fmt: skip
