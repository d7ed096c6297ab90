"""What a worker writes about itself: that it is alive, what it has done, and how it ended."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.worker_rows import ALIVE
from tabellion.errors import ConfigurationError

BEAT = 5.0
KEPT = 7 * 86_400.0

_boots: set[str] = set()  # the workers of this process


@dataclass(slots=True)
class WorkerRecord:
    """What a worker writes about itself."""

    id: str
    host: str
    pid: int
    boot: str
    version: str
    queues: str
    slots: int
    busy: int = 0
    done: int = 0
    failed: int = 0
    retried: int = 0

    @property
    def tally(self) -> str:
        """What it has done so far, as a text."""
        return f"{self.done:,} done, {self.failed:,} failed, {self.retried:,} retried"


def make_boot() -> str:
    """A name that no other worker has, and where its process number is valid."""
    return f"{uuid.uuid4().hex}@{_process_namespace()}"


def _process_namespace() -> str:
    """What tells containers, and machines since they booted, apart; empty where there are no namespaces."""
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{machine}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


async def enlist(store: Store, record: WorkerRecord) -> None:
    """Registers the worker; refuses an id that another live worker uses."""
    await store.open()
    d = store.dialect
    rows = await store.database.fetch(
        f"""SELECT host, pid, boot FROM tabellion_workers WHERE id = $1 AND boot <> $2 AND stopped_at IS NULL
AND {sql.epoch(NOW, d)} - {sql.epoch("seen_at", d)} < {ALIVE}""",
        record.id,
        record.boot,
    )
    here = rows and rows[0]["host"] == record.host and rows[0]["boot"] not in _boots
    if rows and not (here and is_gone(rows[0]["pid"])):
        raise ConfigurationError(
            f"worker id {record.id!r} is in use by process {rows[0]['pid']} on {rows[0]['host']}: "
            "give each worker its own id"
        )
    _boots.add(record.boot)
    forget = f"DELETE FROM tabellion_workers WHERE {sql.epoch(NOW, d)} - {sql.epoch('seen_at', d)} > {KEPT}"
    insert = f"""INSERT INTO tabellion_workers (id, host, pid, boot, version, queues, slots, started_at, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, {NOW}, {NOW})
ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, boot = excluded.boot,
  version = excluded.version, queues = excluded.queues, slots = excluded.slots, seen_at = excluded.seen_at,
  started_at = excluded.started_at, busy = 0, done = 0, failed = 0, retried = 0, stopped_at = NULL, ending = NULL"""
    values = (record.id, record.host, record.pid, record.boot, record.version, record.queues, record.slots)
    await store.database.transact([(forget, ()), (insert, values)])


def is_gone(pid: int) -> bool:
    """Whether no process of this machine has this number, so that a killed worker can start again with the same id."""
    if pid == os.getpid():
        return True  # in a container the next worker often has the same process number
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


async def find_killed(store: Store) -> list[str]:
    """The ids of workers of this machine that ended without a word.

    Containers can share a host name, but a process number is only valid in its own: for a worker of another one, or of
    an earlier version, silence is required as well.
    """
    d = store.dialect
    rows = await store.database.fetch(
        f"""SELECT id, pid, boot, {sql.epoch(NOW, d)} - {sql.epoch("seen_at", d)} AS seen_ago FROM tabellion_workers
WHERE stopped_at IS NULL AND ending IS NULL AND host = $1""",
        socket.gethostname(),
    )
    namespace = _process_namespace()
    return [
        row["id"]
        for row in rows
        if is_gone(row["pid"]) and (row["boot"].partition("@")[2] == namespace or row["seen_ago"] > ALIVE)
    ]


async def beat(store: Store, record: WorkerRecord) -> None:
    """Records that the worker is alive, and what it has done so far."""
    await store.database.fetch(
        f"""UPDATE tabellion_workers SET seen_at = {NOW}, busy = $3, done = $4, failed = $5, retried = $6
WHERE id = $1 AND boot = $2""",
        record.id, record.boot, record.busy, record.done, record.failed, record.retried,
    )  # fmt: skip


async def leave(store: Store, worker: str, ending: str, *, crashed: bool = False) -> None:
    """Records how a worker ended; `crashed` makes its leases expire now."""
    stop = f"UPDATE tabellion_workers SET stopped_at = {NOW}, busy = 0, ending = $2 WHERE id = $1"
    statements: list[tuple[str, tuple[str, ...]]] = [(stop, (worker, ending))]
    if crashed:
        past = sql.later("-0.001", store.dialect)
        expire = f"UPDATE tabellion_attempts SET lease_until = {past} WHERE settled_at IS NULL AND worker = $1"
        statements.append((expire, (worker,)))
    await store.database.transact(statements)


async def find_unknown_claims(store: Store, worker: str, since: float, known: set[str]) -> list[dict[str, Any]]:
    """Claims of this worker that it does not know of, because the answer to its claim was lost."""
    d = store.dialect
    rows = await store.database.fetch(
        f"""SELECT queue, key, n, CAST(token AS text) AS token, attempt, crashes, worker FROM tabellion_attempts
WHERE settled_at IS NULL AND worker = $1 AND {sql.epoch("claimed_at", d)} >= $2""",
        worker,
        since,
    )
    return [row for row in rows if row["token"] not in known]
