"""Puts running rows back to ready by hand: orphans, and on demand rows that a live worker holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tabellion.engine import sql
from tabellion.engine.controls import ask_for_leases
from tabellion.engine.moves import native_key
from tabellion.engine.queue import Queue
from tabellion.engine.recovery import orphans
from tabellion.engine.recovery.parking import is_parked
from tabellion.engine.settlement import Settlement
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import Bound

#: `held`: a live worker holds it; `parked`: the database refused its failed state; `rejected`: it refuses ready.
UnreleasedReason = Literal["held", "not_running", "parked", "rejected", "missing"]


@dataclass(frozen=True, slots=True)
class KeptRow:
    """A row that was requested and not released."""

    key: str
    reason: UnreleasedReason
    worker: str | None = None  #: the worker that holds it
    note: str | None = None  #: its handler's last note


@dataclass(slots=True)
class ReleasedRows:
    """The result of a release by hand."""

    released: list[str] = field(default_factory=list)  #: keys
    kept: list[KeptRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Claim:
    row: dict[str, Any]
    expired: bool


async def release_rows(
    store: Store, queue: Queue, keys: Sequence[Any], *, force: bool = False, by: str = "", dry_run: bool = False
) -> ReleasedRows:
    """Puts these rows back to ready if they are running and no live worker holds them; `force` ends live claims too.

    Ending a claim does not use up the attempt, and the fence refuses whatever its holder still writes.
    """
    bound = await store.bind(queue)
    answer = ReleasedRows()
    for key in dict.fromkeys(str(requested) for requested in keys):
        state = await _state(store, bound, key)
        claim = await _claim(store, queue, key) if state == "running" else None
        if state != "running":
            answer.kept.append(KeptRow(key, state))
        elif claim is not None and not (claim.expired or force):
            answer.kept.append(KeptRow(key, "held", claim.row["worker"], claim.row["note"]))
        elif dry_run or (await _end_claim(store, bound, claim, by) if claim else await _give_back(store, bound, key)):
            answer.released.append(key)
        else:
            answer.kept.append(KeptRow(key, "rejected"))
    await _notify_workers(store, queue, answer, dry_run)
    return answer


async def release_orphans(store: Store, queue: Queue, *, by: str = "", dry_run: bool = False) -> ReleasedRows:
    """Puts every row back to ready that is running without a live claim."""
    bound = await store.bind(queue)
    claims = [claim for claim in await _claims(store, queue) if claim.expired]
    answer = ReleasedRows()
    for claim in claims:
        if dry_run or await _end_claim(store, bound, claim, by):
            answer.released.append(claim.row["key"])
        else:
            answer.kept.append(KeptRow(claim.row["key"], "rejected"))
    if dry_run:
        answer.released += await orphans.find(store.database, bound)
    else:
        answer.released += await orphans.give_back(store.database, bound)
        answer.kept += [KeptRow(key, "rejected") for key in await orphans.find(store.database, bound)]
    await _notify_workers(store, queue, answer, dry_run)
    return answer


async def _state(store: Store, bound: Bound, key: str) -> Literal["running", "parked", "not_running", "missing"]:
    running = sql.holds(bound.queue.states["running"], store.dialect)
    rows = await store.database.fetch(
        f"""SELECT CASE WHEN {is_parked(bound)} THEN 'parked' WHEN {running} THEN 'running' ELSE 'not_running' END
  AS state FROM {sql.name(bound.queue.table)} AS t WHERE t.{sql.column(bound.key.name)} = {native_key(bound, "$2")}""",
        bound.queue.name,
        key,
    )
    return rows[0]["state"] if rows else "missing"


async def _claim(store: Store, queue: Queue, key: str) -> _Claim | None:
    found = await _claims(store, queue, "AND key = $2", key)
    return found[0] if found else None


async def _claims(store: Store, queue: Queue, only: str = "", *values: str) -> list[_Claim]:
    """The claims of this queue that have not been settled."""
    rows = await store.database.fetch(
        f"""SELECT key, n, CAST(token AS text) AS token, attempt, crashes, worker, note,
  CASE WHEN lease_until < {NOW} THEN 1 ELSE 0 END AS expired
FROM tabellion_attempts WHERE queue = $1 AND settled_at IS NULL {only} ORDER BY claimed_at""",
        queue.name,
        *values,
    )
    return [_Claim(row, bool(row["expired"])) for row in rows]


async def _end_claim(store: Store, bound: Bound, claim: _Claim, by: str) -> bool:
    """Ends a claim as its worker does when it releases the row; an expired one only if it was not renewed since."""
    error = f"released by {by}" if by else "released by hand"
    ending = Settlement(bound.job(claim.row), "released", error=error, expired_only=claim.expired)
    [verdict] = await store.settle([ending])
    return verdict.outcome == "released"


async def _give_back(store: Store, bound: Bound, key: str) -> bool:
    is_row = f"t.{sql.column(bound.key.name)} = {native_key(bound, '$2')}"
    return bool(await orphans.give_back(store.database, bound, is_row, key))


async def _notify_workers(store: Store, queue: Queue, answer: ReleasedRows, dry_run: bool) -> None:
    if answer.released and not dry_run:
        await ask_for_leases(store, queue)
        await store.database.wake()
