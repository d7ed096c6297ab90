"""The same request twice: the first answer again, and never the work."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import time
import weakref
from collections.abc import AsyncIterator, Iterable
from typing import Any

from tabellion.accounts import tables
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.values import json_text
from tabellion.web.problems import Problem

HEADER = "Idempotency-Key"
KEPT = 86_400.0  #: seconds that an answer is remembered
LEASE = 60.0  #: seconds after which whoever was to answer is taken for dead
PATIENCE = 30.0  #: seconds that a second request waits for the first one's answer
EVERY = 0.05
TIDY = 600.0
_FORM = re.compile(r"[!-~]{1,255}")

_tidied: weakref.WeakKeyDictionary[Store, float] = weakref.WeakKeyDictionary()


def key_of(header: str | None) -> str | None:
    """The key that a request names; None when it names none."""
    if header is None:
        return None
    if not _FORM.fullmatch(header):
        raise Problem(
            422, "value_invalid", "the Idempotency-Key is not valid", field=HEADER,
            expected="1 to 255 visible ASCII characters", fix="use a UUID",
        )  # fmt: skip
    return header


def fingerprint(parts: Iterable[Any]) -> str:
    """What makes two requests the same."""
    return hashlib.sha256(json_text(list(parts)).encode()).hexdigest()


class Reservation:
    """The right to answer under a key, or the answer that was given."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.given: Any = None


@contextlib.asynccontextmanager
async def reserve_key(
    store: Store, owner: str, key: str | None, print_: str, seconds: float = 0.0
) -> AsyncIterator[Reservation]:
    """Within the block either `answer` is there, or it is ours to work out and to put into `given`.

    An answer is kept when the block ends well; otherwise the key is free again. `seconds` is what working it out may
    take beyond the usual.
    """
    if key is None:
        yield Reservation()
        return
    await tables.SCHEMA.prepare(store)
    await _tidy(store)
    found = await _take_key(store, owner, key, print_, LEASE + seconds)
    if found is not None:
        yield Reservation(found)
        return
    mine = Reservation()
    try:
        yield mine
    finally:
        if mine.given is None:
            await store.database.fetch(
                "DELETE FROM tabellion_idempotency_keys WHERE owner = $1 AND key = $2 AND answer IS NULL", owner, key
            )
        else:
            await store.database.fetch(
                "UPDATE tabellion_idempotency_keys SET answer = $3 WHERE owner = $1 AND key = $2",
                owner, key, json_text(mine.given),
            )  # fmt: skip


async def _tidy(store: Store) -> None:
    """Forgets what nobody will ask for again, now and then."""
    now = time.monotonic()
    if now - _tidied.get(store, -TIDY) >= TIDY:
        _tidied[store] = now
        await store.database.fetch(f"DELETE FROM tabellion_idempotency_keys WHERE expires_at < {NOW}")


async def _take_key(store: Store, owner: str, key: str, print_: str, held: float) -> Any:
    """None when the key is ours now; else the answer that stands under it."""
    lease, expiry = (sql.later(repr(seconds), store.dialect) for seconds in (held, KEPT))
    until = asyncio.get_running_loop().time() + PATIENCE
    while True:
        taken, rows = await store.database.transact(
            [
                (
                    f"""INSERT INTO tabellion_idempotency_keys AS k (owner, key, fingerprint, lease_until, expires_at)
VALUES ($1, $2, $3, {lease}, {expiry})
ON CONFLICT (owner, key) DO UPDATE SET lease_until = excluded.lease_until, expires_at = excluded.expires_at,
  fingerprint = excluded.fingerprint, answer = NULL
WHERE k.expires_at < {NOW}
  OR (k.answer IS NULL AND k.lease_until < {NOW} AND k.fingerprint = excluded.fingerprint)
RETURNING key""",
                    (owner, key, print_),
                ),
                (
                    "SELECT fingerprint, answer FROM tabellion_idempotency_keys WHERE owner = $1 AND key = $2",
                    (owner, key),
                ),
            ]
        )
        if taken:
            return None
        if rows and rows[0]["fingerprint"] != print_:
            raise Problem(
                409, "idempotency_mismatch", "this Idempotency-Key was already used for another request", field=HEADER,
                fix="use a new key for a new request",
            )  # fmt: skip
        if rows and rows[0]["answer"] is not None:
            return json.loads(rows[0]["answer"])
        if asyncio.get_running_loop().time() > until:
            raise Problem(409, "idempotency_pending", field=HEADER, fix="try again", headers={"Retry-After": "5"})
        await asyncio.sleep(EVERY)
