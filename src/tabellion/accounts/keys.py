"""API keys: shown once when created, stored as a hash, limited to an environment and a role.

`tab_<environment>_<id>_<64 hexadecimal digits>`
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Literal, TypedDict

from tabellion.accounts import audit, tables
from tabellion.accounts.audit import COMMAND, AuditEntry
from tabellion.accounts.roles import ROLES, Role
from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.messages import Message, quote_value

_KEY = re.compile(r"tab_(?P<environment>[A-Za-z0-9_.-]+)_(?P<id>[0-9a-f]{12})_(?P<secret>[0-9a-f]{64})")
LONGEST_NAME = 100
LOCK = "SELECT pg_advisory_xact_lock(hashtext('tabellion keys'))"
NOTED = 60.0  #: seconds between two updates of when a key was used


class KeyFacts(TypedDict):
    """What is listed of a row of `tabellion_api_keys`; times are seconds since 1970."""

    id: str
    role: str
    name: str
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float | None


class KeyRow(KeyFacts):
    """A row of `tabellion_api_keys`."""

    environment: str
    hash: str


class ListedKey(KeyFacts):
    """A key without its secret, and whether it is valid."""

    state: Literal["active", "expired", "revoked"]


class NameTaken(TabellionError):  # noqa: N818 - what happened
    """Another key or user has this name."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's text, split into its parts."""

    environment: str
    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Key({self.environment!r}, {self.id!r})"

    def __str__(self) -> str:
        return f"tab_{self.environment}_{self.id}_{self.secret}"

    @property
    def hash(self) -> str:
        """What is stored: the secret has 256 random bits, so one round of SHA-256 is enough."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Holder:
    """The caller and what they may do: the holder of a key, or a person who is signed in."""

    id: str
    environment: str
    role: Role
    name: str
    user: str | None = None  #: the id of the person; None for a key
    language: str | None = None
    opened_by: str = "key"  #: how they signed in: key, password or link
    age: float = 0.0  #: seconds since they signed in
    available: bool = True  #: whether review items are assigned to them

    @property
    def actor(self) -> str:
        """Their name in the audit log and in review items."""
        return self.name if self.user is not None else f"key:{self.name or self.id}"


def parse(text: str) -> ApiKey | None:
    """The parts of a key; None if the text is not a key."""
    match = _KEY.fullmatch(text)
    return ApiKey(match["environment"], match["id"], match["secret"]) if match else None


async def create(
    store: Store, environment: str, role: str, name: str = "", *, seconds: float | None = None
) -> tuple[str, str]:
    """Creates a key and returns its id and its text, which is stored nowhere. Raises NameTaken: the audit log knows a
    key's holder by the key's name."""
    if role not in ROLES:
        raise ConfigurationError(f"unknown role {role!r}; known: {', '.join(ROLES)}")
    if seconds is not None and seconds <= 0:
        raise ConfigurationError("a key must be valid for a positive time, or without limit")
    if len(name) > LONGEST_NAME:
        raise ConfigurationError(Message("problem.key_name", n=LONGEST_NAME))
    await _prepare(store)
    key = ApiKey(environment, secrets.token_hex(6), secrets.token_hex(32))
    expiry = "NULL" if seconds is None else sql.later(f"{float(seconds)!r}", store.dialect)
    insert = (
        f"""INSERT INTO tabellion_api_keys (id, environment, role, name, hash, created_at, expires_at)
SELECT $1, $2, $3, CAST($4 AS text), $5, {NOW}, {expiry} WHERE CAST($4 AS text) = '' OR NOT EXISTS (
  SELECT 1 FROM tabellion_api_keys WHERE name = $4 AND environment = $2 AND {_state()} = 'active') RETURNING id""",
        (key.id, environment, role, name, key.hash),
    )
    entry = AuditEntry("key_made", COMMAND, after={"role": role}, more={"key": key.id, "name": name})
    # In PostgreSQL two transactions do not see each other's new row; an index cannot tell expired keys.
    lock = [(LOCK, ())] if store.dialect == "postgresql" else []
    source = "FROM tabellion_api_keys AS k WHERE k.id = :key_id"
    noted = audit.bind_statement(*audit.statement(store.dialect, entry, source, {"key_id": key.id}))
    results = await store.database.transact([*lock, insert, noted])
    if not results[len(lock)]:
        raise NameTaken(Message("problem.key_exists", name=quote_value(name)))
    return key.id, str(key)


async def _prepare(store: Store) -> None:
    await tables.SCHEMA.prepare(store)


async def holder(store: Store, key: ApiKey) -> Holder | None:
    """The holder of a key; None if it is unknown, wrong, revoked, expired, or of another environment."""
    await tables.SCHEMA.prepare(store)
    rows: list[KeyRow] = await store.database.fetch(
        f"""SELECT {columns_of(KeyRow, "k", store.dialect)} FROM tabellion_api_keys AS k
WHERE k.id = $1 AND k.environment = $2 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {NOW})""",
        key.id, key.environment,
    )  # fmt: skip
    row = rows[0] if rows else None
    # The same work whether or not the key exists, so that timing reveals nothing.
    is_secret = hmac.compare_digest(row["hash"] if row is not None else "0" * 64, key.hash)
    if row is None or not is_secret or row["role"] not in ROLES:
        return None
    return Holder(row["id"], row["environment"], ROLES[row["role"]], row["name"])


async def note(store: Store, id: str) -> None:  # noqa: A002
    """Records that a key was used just now."""
    await store.database.fetch(f"UPDATE tabellion_api_keys SET last_used_at = {NOW} WHERE id = $1", id)


async def revoke(store: Store, environment: str, id: str) -> bool:  # noqa: A002
    """Revokes a key at once and for good; returns whether it was active or expired before."""
    await _prepare(store)
    update = (
        f"""UPDATE tabellion_api_keys SET revoked_at = {NOW} WHERE id = $1 AND environment = $2 AND revoked_at IS NULL
RETURNING id""",
        (id, environment),
    )
    entry = AuditEntry("key_revoked", COMMAND, more={"key": id})
    return bool(await store.database.transact([update, audit.bind_entry(store.dialect, entry)], guarded=True))


async def list_keys(store: Store, environment: str) -> list[ListedKey]:
    """Every key of an environment without its secret, newest first; times in seconds since 1970."""
    await tables.SCHEMA.prepare(store)
    return await store.database.fetch(
        f"""SELECT {columns_of(KeyFacts, "tabellion_api_keys", store.dialect)}, {_state()} AS state
FROM tabellion_api_keys WHERE environment = $1 ORDER BY tabellion_api_keys.created_at DESC, id""",
        environment,
    )


async def any_alive(store: Store, environment: str) -> bool:
    """Whether the environment has an active key."""
    await tables.SCHEMA.prepare(store)
    rows = await store.database.fetch(
        f"SELECT 1 AS there FROM tabellion_api_keys WHERE environment = $1 AND {_state()} = 'active' LIMIT 1",
        environment,
    )
    return bool(rows)


def _state() -> str:
    return f"""CASE WHEN tabellion_api_keys.revoked_at IS NOT NULL THEN 'revoked'
WHEN tabellion_api_keys.expires_at <= {NOW} THEN 'expired' ELSE 'active' END"""
