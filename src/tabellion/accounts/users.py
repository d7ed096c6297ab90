"""Users: the people who sign in and review; what they may do is their role."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any, TypedDict

from tabellion.accounts import audit, link_rows, session_rows, tables
from tabellion.accounts.audit import COMMAND, AuditEntry
from tabellion.accounts.keys import NameTaken
from tabellion.accounts.roles import PERSON_ROLES, ROLES, Role
from tabellion.engine.columns import columns_of
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.messages import Message, quote_value

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
#: Names with another meaning in the audit log or in filters of review items.
RESERVED = re.compile(r"tabellion|me|none|nobody|key|worker-.*")
FIRST = "admin"  #: the user that the first sign-in link creates
LONGEST = 100  #: characters of a name that are considered
#: The condition that this user is not the last active admin.
OTHERS = """(tabellion_users.role <> 'admin' OR tabellion_users.disabled_at IS NOT NULL OR EXISTS (
  SELECT 1 FROM tabellion_users AS o
WHERE o.role = 'admin' AND o.disabled_at IS NULL AND o.id <> tabellion_users.id))"""
LOCK = "SELECT pg_advisory_xact_lock(hashtext('tabellion users'))"


class NoSuchUser(TabellionError):  # noqa: N818 - what it is
    """There is no user of this name."""


class LastAdmin(TabellionError):  # noqa: N818 - a state, not a failure
    """The change would leave no active admin."""


class UserFacts(TypedDict):
    """What is read of a row of `tabellion_users`: not the password's hash. Times are seconds since 1970."""

    id: str
    name: str
    role: str
    available: bool
    language: str | None
    created_at: float
    disabled_at: float | None
    last_seen_at: float | None


class UserRow(UserFacts):
    """A row of `tabellion_users`."""

    password: str | None  #: its hash


class _ListedUser(UserFacts):
    has_password: bool


@dataclass(frozen=True, slots=True)
class User:
    """A user, without the password; times in seconds since 1970."""

    id: str
    name: str
    role: Role
    available: bool
    has_password: bool
    language: str | None
    created_at: float
    disabled_at: float | None
    last_seen_at: float | None


def plain_name(text: str) -> str:
    """The name as it is stored; raises ConfigurationError if it is not valid."""
    name = text.strip().lower()
    if not NAME.fullmatch(name):
        raise ConfigurationError(Message("problem.user_name"))
    if RESERVED.fullmatch(name):
        raise ConfigurationError(Message("problem.user_reserved", name=name))
    return name


def get_role(word: str) -> Role:
    """The role of a person, by its name."""
    if word not in PERSON_ROLES:
        raise ConfigurationError(f"unknown role {word!r}; known: {', '.join(PERSON_ROLES)}")
    return PERSON_ROLES[word]


async def add(store: Store, name: str, role: str, password: str | None = None, *, by: str = COMMAND) -> User:
    """Adds a user; `password` is a hash, `by` the actor for the audit log. Raises NameTaken."""
    await tables.SCHEMA.prepare(store)
    name, word, id_ = plain_name(name), get_role(role).word, secrets.token_hex(6)
    insert = (
        f"""INSERT INTO tabellion_users (id, name, role, password, created_at) VALUES ($1, $2, $3, $4, {NOW})
ON CONFLICT (name) DO NOTHING RETURNING id""",
        (id_, name, word, password),
    )
    entry = AuditEntry("user_added", by, after={"role": word, "disabled": False}, more={"user": name})
    rows = (await store.database.transact([insert, _audit_statement(store, entry, id_)]))[0]
    if not rows:
        raise NameTaken(Message("problem.user_exists", name=name))
    user = await find_by_name(store, name)
    assert user is not None  # noqa: S101 - inserted a line before
    return user


async def list_users(store: Store) -> list[User]:
    """All users by name, those who may sign in first."""
    return await _users(store, "1 = 1")


async def find_by_name(store: Store, name: str) -> User | None:
    """The user of this name."""
    found = await _users(store, "name = $1", name.strip().lower())
    return found[0] if found else None


async def get_by_name(store: Store, name: str) -> User:
    """The user of this name; raises NoSuchUser."""
    user = await find_by_name(store, name)
    if user is None:
        raise NoSuchUser(Message("problem.user_unknown", value=quote_value(name.strip().lower())))
    return user


async def find_by_id(store: Store, id: str) -> User | None:  # noqa: A002
    """The user with this id."""
    found = await _users(store, "id = $1", id)
    return found[0] if found else None


async def password_of(store: Store, name: str) -> tuple[User | None, str | None]:
    """A user who may sign in and their password hash, or None twice. It always runs both queries, for equal timing."""
    user = await find_by_name(store, name)
    rows: list[UserRow] = await store.database.fetch(
        f"SELECT {columns_of(UserRow, 'u', store.dialect)} FROM tabellion_users AS u WHERE u.id = $1",
        user.id if user else "",
    )
    if user is None or user.disabled_at is not None:
        return None, None
    return user, rows[0]["password"] if rows else None


async def change(
    store: Store, id: str, *, role: str | None = None, disabled: bool | None = None, available: bool | None = None,  # noqa: A002
    language: str | None = None, by: str = COMMAND,
) -> User | None:  # fmt: skip
    """Changes what is not None; returns None for an unknown user. Raises LastAdmin. A disabled user is signed out."""
    user = await find_by_id(store, id)
    if user is None:
        return None
    values: list[Any] = [id]
    sets = ["name = name"]
    for column, value in (("role", role and get_role(role).word), ("available", available), ("language", language)):
        if value is not None:
            values.append(value)
            sets.append(f"{column} = ${len(values)}")
    if disabled is not None:
        sets.append(f"disabled_at = {f'coalesce(disabled_at, {NOW})' if disabled else 'NULL'}")
    loses = disabled or (role is not None and get_role(role) < Role.ADMIN)
    guard = f" AND {OTHERS}" if loses else ""
    lock = [(LOCK, ())] if store.dialect == "postgresql" else []
    update = (f"UPDATE tabellion_users SET {', '.join(sets)} WHERE id = $1{guard} RETURNING id", values)
    results = await store.database.transact([*lock, update, *_audit_change(store, user, role, disabled, by)])
    user = await find_by_id(store, id)
    if user is not None and not results[len(lock)]:
        raise LastAdmin(Message("problem.last_admin"))
    if user is not None and disabled:
        await _close(store, user)
    return user


async def set_password(store: Store, user: User, password: str, *, by: str = COMMAND) -> None:
    """Stores the hash of a new password."""
    await tables.SCHEMA.prepare(store)
    entry = AuditEntry("password_set", by, more={"user": user.name})
    update = ("UPDATE tabellion_users SET password = $2 WHERE id = $1", (user.id, password))
    await store.database.transact([update, _audit_statement(store, entry, user.id)])


async def hash_anew(store: Store, user: User, password: str) -> None:
    """Stores a stronger hash of the same password; no audit entry."""
    await store.database.fetch("UPDATE tabellion_users SET password = $2 WHERE id = $1", user.id, password)


def note_seen(user_id: str) -> Numbered:
    """The statement that notes when a user was last seen."""
    return f"UPDATE tabellion_users SET last_seen_at = {NOW} WHERE id = $1", [user_id]


def _audit_change(store: Store, user: User, role: str | None, disabled: bool | None, by: str) -> list[Any]:
    """The audit statement of a change, which writes nothing if the update before it was refused."""
    before = {"role": user.role.word, "disabled": user.disabled_at is not None}
    after = {"role": role or before["role"], "disabled": before["disabled"] if disabled is None else disabled}
    if after == before:
        return []
    entry = AuditEntry("user_changed", by, before=before, after=after, more={"user": user.name})
    disabled_sql = "u.disabled_at IS NOT NULL" if after["disabled"] else "u.disabled_at IS NULL"
    return [_audit_statement(store, entry, user.id, f"u.role = '{after['role']}' AND {disabled_sql}")]


def _audit_statement(store: Store, entry: AuditEntry, id: str, condition: str = "1 = 1") -> tuple[str, list[Any]]:  # noqa: A002
    source = f"FROM tabellion_users AS u WHERE u.id = :user_id AND {condition}"
    return audit.bind_statement(*audit.statement(store.dialect, entry, source, {"user_id": id}))


async def _close(store: Store, user: User) -> None:
    await tables.SCHEMA.prepare(store)
    await store.database.transact(
        [
            session_rows.delete_of_user(user.id),
            link_rows.delete_of_user(user.name),
        ]
    )


async def _users(store: Store, where: str, *values: Any) -> list[User]:
    await tables.SCHEMA.prepare(store)
    rows: list[_ListedUser] = await store.database.fetch(
        f"""SELECT {columns_of(UserFacts, "tabellion_users", store.dialect)}, password IS NOT NULL AS has_password
FROM tabellion_users WHERE {where}
ORDER BY CASE WHEN tabellion_users.disabled_at IS NULL THEN 0 ELSE 1 END, name""",
        *values,
    )
    return [
        User(
            row["id"], row["name"], ROLES[row["role"]], bool(row["available"]), bool(row["has_password"]),
            row["language"], row["created_at"], row["disabled_at"], row["last_seen_at"],
        )
        for row in rows
    ]  # fmt: skip
