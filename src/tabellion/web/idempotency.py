"""Idempotency keys: a repeated request gets the first answer, and its work is not done again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import time
import weakref
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypedDict

from tabellion.accounts import tables
from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.web.problems import Problem

HEADER = "Idempotency-Key"
KEPT = 86_400.0  #: seconds that an answer is stored
LEASE = 60.0  #: seconds after which the process that was to answer is considered dead
PATIENCE = 30.0  #: seconds that a repeated request waits for the answer of the first
EVERY = 0.05
TIDY = 600.0
_FORM = re.compile(r"[!-~]{1,255}")

_tidied: weakref.WeakKeyDictionary[Store, float] = weakref.WeakKeyDictionary()


def key_of(header: str | None) -> str | None:
    """The key in the header; None without one."""
    if header is None:
        return None
    if not _FORM.fullmatch(header):
        raise Problem(
            422, "value_invalid", Message("problem.idempotency_key"), field=HEADER,
            expected=Message("expected.idempotency_key"), fix=Message("fix.use_uuid"),
        )  # fmt: skip
    return header


def fingerprint(parts: Iterable[Any]) -> str:
    """A hash that is equal for equal requests."""
    return hashlib.sha256(json_text(list(parts)).encode()).hexdigest()


class IdempotencyRow(TypedDict):
    """A row of `tabellion_idempotency_keys`; times are seconds since 1970."""

    owner: str
    key: str
    fingerprint: str
    answer: str | None  #: JSON; None while the first request is in progress
    lease_until: float
    expires_at: float


class Reservation:
    """The right to answer under a key, or the stored answer."""

    def __init__(self, answer: Any = None, lease_until: Any = None) -> None:
        self.answer = answer
        self.given: Any = None
        #: Fences our writes: a later reservation of the same key always has a later one, as ours must have ended.
        self.lease_until = lease_until


@contextlib.asynccontextmanager
async def reserve_key(
    store: Store, owner: str, key: str | None, print_: str, seconds: float = 0.0
) -> AsyncIterator[Reservation]:
    """Reserves a key: in the block either `answer` is the stored answer, or the block must produce it as `given`.

    What is in `given` is stored at the end; if nothing is, the key is free again. `seconds` is added to the lease for
    requests that take long.
    """
    if key is None:
        yield Reservation()
        return
    await tables.SCHEMA.prepare(store)
    await _delete_expired(store)
    reservation = await _take_key(store, owner, key, print_, LEASE + seconds)
    if reservation.answer is not None:
        yield reservation
        return
    ours, values = "owner = $1 AND key = $2 AND lease_until = $3", (owner, key, reservation.lease_until)
    try:
        yield reservation
    finally:
        if reservation.given is None:
            await store.database.fetch(f"DELETE FROM tabellion_idempotency_keys WHERE {ours}", *values)
        else:
            await store.database.fetch(
                f"UPDATE tabellion_idempotency_keys SET answer = $4 WHERE {ours}",
                *values, json_text(reservation.given),
            )  # fmt: skip


async def _delete_expired(store: Store) -> None:
    """Deletes expired keys, every ten minutes."""
    now = time.monotonic()
    if now - _tidied.get(store, -TIDY) >= TIDY:
        _tidied[store] = now
        await store.database.fetch(f"DELETE FROM tabellion_idempotency_keys WHERE expires_at < {NOW}")


async def _take_key(store: Store, owner: str, key: str, print_: str, lease_seconds: float) -> Reservation:
    """A reservation without an answer if the key is now ours; else one with the stored answer."""
    lease, expiry = (sql.later(repr(seconds), store.dialect) for seconds in (lease_seconds, KEPT))
    give_up_at = asyncio.get_running_loop().time() + PATIENCE
    while True:
        rows: list[IdempotencyRow]
        reserved, rows = await store.database.transact(
            [
                (
                    f"""INSERT INTO tabellion_idempotency_keys AS k (owner, key, fingerprint, lease_until, expires_at)
VALUES ($1, $2, $3, {lease}, {expiry})
ON CONFLICT (owner, key) DO UPDATE SET lease_until = excluded.lease_until, expires_at = excluded.expires_at,
  fingerprint = excluded.fingerprint, answer = NULL
WHERE k.expires_at < {NOW}
  OR (k.answer IS NULL AND k.lease_until < {NOW} AND k.fingerprint = excluded.fingerprint)
RETURNING lease_until""",
                    (owner, key, print_),
                ),
                (
                    f"""SELECT {columns_of(IdempotencyRow, "k", store.dialect)} FROM tabellion_idempotency_keys AS k
WHERE k.owner = $1 AND k.key = $2""",
                    (owner, key),
                ),
            ]
        )
        if reserved:
            return Reservation(lease_until=reserved[0]["lease_until"])
        if rows and rows[0]["fingerprint"] != print_:
            raise Problem(
                409, "idempotency_mismatch", Message("problem.idempotency_used"), field=HEADER,
                fix=Message("fix.new_key"),
            )  # fmt: skip
        if rows and rows[0]["answer"] is not None:
            return Reservation(json.loads(rows[0]["answer"]))
        if asyncio.get_running_loop().time() > give_up_at:
            raise Problem(
                409, "idempotency_pending", field=HEADER, fix=Message("fix.try_again"), headers={"Retry-After": "5"}
            )
        await asyncio.sleep(EVERY)
