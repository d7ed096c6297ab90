"""Checks a queue's table, database and declaration, and says how to fix problems."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from tabellion.engine import register_tables, sql
from tabellion.engine.environment import Environment
from tabellion.engine.queue import Queue, format_state
from tabellion.engine.recovery import orphans
from tabellion.engine.recovery.parking import find_parked_rows
from tabellion.engine.store import Store
from tabellion.engine.tables import declaration
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.transitions import try_transitions
from tabellion.engine.worker_rows import AgedWorker, read_workers
from tabellion.errors import DeclarationError, Forbidden, NotMigrated, StoreError
from tabellion.monitor.rights import bound_by_row_security, missing_rights

CheckLevel = Literal["ok", "note", "warning", "error"]

WAL_RESET_FIXED = (3, 51, 3)  # earlier SQLite can corrupt a file when a checkpoint races a commit that resets the WAL
SKEW = 5.0
LONG_TRANSACTION = 300.0
MANY_DEAD = 10_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    level: CheckLevel
    where: str
    what: str
    fix: str = ""


async def examine(
    environment: Environment,
    queues: Sequence[Queue],
    created: Mapping[str, tuple[CheckLevel, str]] = MappingProxyType({}),
) -> list[Finding]:
    """All findings about one environment. `created` has the tables that we create: what it means if one is missing,
    and what creates it."""
    missing = environment.missing_file()
    if missing:
        return [
            Finding(
                "error",
                environment.name,
                f"there is no database file {missing}",
                "correct the URL, or create the table",
            )
        ]
    findings: list[Finding] = []
    async with environment.connect() as store:
        try:
            await store.database.open()
        except StoreError as error:
            return [
                Finding("error", environment.name, f"database unreachable: {error}", f"check {environment.address}")
            ]
        findings += [finding async for finding in _database(environment.name, store)]
        lacking = await missing_rights(store, queues)
        for right in lacking:
            where = f"{environment.name}: {right.queue}" if right.queue else environment.name
            findings.append(Finding("error", where, right.problem.what, right.problem.fix))
        absent = [queue for queue in queues if queue.table in created and await store.table(queue.table) is None]
        for queue in absent:
            level, fix = created[queue.table]
            what = f"there is no table {queue.table!r}"
            findings.append(Finding(level, f"{environment.name}: {queue.name}", what, fix))
        lacking_queues = {right.queue for right in lacking}
        queues = [queue for queue in queues if queue.name not in lacking_queues and queue not in absent]
        has_register = all(right.queue for right in lacking)
        if has_register:
            try:
                await store.open(migrate=False)
            except (NotMigrated, Forbidden) as error:
                findings.append(Finding("note", environment.name, str(error)))
                has_register = False
        if not has_register:
            for queue in queues:
                findings += await _table_only(f"{environment.name}: {queue.name}", store, queue)
            return findings
        findings.append(Finding("ok", environment.name, f"the register is at version {register_tables.CURRENT}"))
        workers = await read_workers(store.database)
        for queue in queues:
            where = f"{environment.name}: {queue.name}"
            try:
                bound = await store.bind(queue)
            except DeclarationError as error:
                findings += [Finding("error", where, problem.what, problem.fix) for problem in error.problems]
                continue
            try:
                async for finding in _queue(where, store, bound, workers):
                    findings.append(finding)
            except StoreError as error:
                findings.append(Finding("error", where, str(error)))
    return findings


def tolerate_skipped(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with errors of queues that work in another environment as warnings: workers skip those queues."""
    wrong = {finding.where for finding in findings if finding.level == "error"}
    fine = {where.partition(": ")[2] for where in {finding.where for finding in findings} - wrong} - {""}
    return [
        replace(finding, level="warning", what=f"{finding.what}; workers skip it here")
        if finding.level == "error" and finding.where.partition(": ")[2] in fine
        else finding
        for finding in findings
    ]


async def _database(where: str, store: Store) -> AsyncIterator[Finding]:
    skew = time.time() - await store.now()
    if abs(skew) > SKEW:
        yield Finding(
            "note",
            where,
            f"this machine's clock differs from the database's by {skew:.0f} s; leases use the database's only",
        )
    if store.dialect == "sqlite":
        for finding in _sqlite(where):
            yield finding
        return
    rows = await store.database.fetch("SELECT current_setting('server_version') AS version")
    connection = (
        "behind a pooler: polling, no LISTEN, no prepared statements" if store.database.pooled else "direct access"
    )
    yield Finding("ok", where, f"PostgreSQL {rows[0]['version']}, {connection}")
    long = await store.database.fetch(
        f"""SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND xact_start < clock_timestamp() - interval '{LONG_TRANSACTION} seconds'
ORDER BY xact_start LIMIT 3"""
    )
    for row in long:
        yield Finding(
            "warning", where,
            f"a transaction of process {row['pid']} has been open for {row['seconds'] / 60:.0f} minutes: "
            "finished rows cannot be vacuumed and claims become slower",
            f"SELECT pg_terminate_backend({row['pid']}); if nobody needs it",
        )  # fmt: skip


def _sqlite(where: str) -> list[Finding]:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < WAL_RESET_FIXED:
        return [
            Finding(
                "warning", where,
                f"SQLite {version} has a rare bug that can damage a file written by several processes at once "
                "(fixed in 3.51.3)",
                "upgrade the SQLite your Python is linked with, or let only one process write the file",
            )
        ]  # fmt: skip
    return [Finding("ok", where, f"SQLite {version}; workers use a write-ahead log and synchronous = FULL")]


async def _table_only(where: str, store: Store, queue: Queue) -> list[Finding]:
    """The findings about a queue without a register."""
    try:
        bound = declaration.bind(queue, await store.table(queue.table), store.dialect)
    except DeclarationError as error:
        return [Finding("error", where, problem.what, problem.fix) for problem in error.problems]
    findings = await _states(where, store, bound)
    if not bound.has_index():
        findings.append(_no_index(where, bound))
    if store.dialect == "postgresql":
        findings += [finding async for finding in _postgres_table(where, store, bound)]
    return findings


async def _states(where: str, store: Store, bound: Bound) -> list[Finding]:
    """Whether the table accepts every state: tried on a row and rolled back."""
    queue = bound.queue
    try:
        refusals = await try_transitions(store.database, bound)
    except StoreError as error:
        return [Finding("warning", where, f"its state changes could not be tested: {error}")]
    findings = [
        Finding("error" if refusal.stops_work else "warning", where, refusal.problem.what, refusal.problem.fix)
        for refusal in refusals
    ]
    lacking = queue.check_columns(bound.table.columns) if queue.check_columns is not None else None
    if lacking is not None:
        findings.append(Finding("error", where, f"its rows wait: {lacking}"))
    if not any(finding.level == "error" for finding in findings):
        ready = format_state(queue.states["ready"])
        findings.insert(0, Finding("ok", where, f"table {queue.table} is suitable; ready is {ready}"))
    if not queue.try_states:
        findings.append(Finding("note", where, "its state changes were not tested on a row: try_states=False"))
    return findings


def _no_index(where: str, bound: Bound) -> Finding:
    problem = "no index covers its ready rows: every claim scans the table, which is too slow at a million rows"
    return Finding("warning", where, problem, bound.index_ddl())


async def _queue(where: str, store: Store, bound: Bound, workers: list[AgedWorker]) -> AsyncIterator[Finding]:
    queue = bound.queue
    for finding in await _states(where, store, bound):
        yield finding
    if not bound.has_index():
        yield _no_index(where, bound)
    foreign = await store.foreign(queue)
    if foreign:
        fix = (
            "they are taken over after stale_after"
            if queue.stale_after is not None
            else f"once the old workers are gone: tabellion release {queue.name} --all-orphans; or declare stale_after="
        )
        more = " or more" if foreign >= orphans.MOST_COUNTED else ""
        rows = "row is" if foreign == 1 else "rows are"
        yield Finding("warning", where, f"{foreign:,}{more} {rows} running with no claim in the register", fix)
    parked = await find_parked_rows(store.database, bound)
    if parked:
        rows = "row is" if len(parked) == 1 else "rows are"
        yield Finding(
            "warning",
            where,
            f"{len(parked):,} {rows} parked: the database rejected the failed state",
            f"`tabellion explain {queue.name} {parked[0]}` says why; then run `tabellion retry {queue.name} --all`",
        )
    if queue.function is None:
        yield Finding("note", where, "no handler is declared: workers of this module skip it")
    if not any(queue.name in worker["queues"].split(",") for worker in workers):
        yield Finding("note", where, "no live worker serves it", "tabellion worker")
    if store.dialect == "postgresql":
        async for finding in _postgres_table(where, store, bound):
            yield finding


async def _postgres_table(where: str, store: Store, bound: Bound) -> AsyncIterator[Finding]:
    table = sql.name(bound.queue.table)
    rows = await store.database.fetch(
        "SELECT n_dead_tup AS dead, n_live_tup AS live FROM pg_stat_user_tables WHERE relid = to_regclass($1)", table
    )
    facts = rows[0] if rows else {"dead": 0, "live": 0}
    if role := await bound_by_row_security(store, bound.table):
        yield Finding(
            "warning", where, f"row level security binds role {role}: rows hidden from it are never claimed",
            "use the service role, or add a policy for this role",
        )  # fmt: skip
    if bound.table.kind == "partitioned":
        async for finding in _check_shared_keys(where, store, bound):
            yield finding
    if (facts["dead"] or 0) > max(MANY_DEAD, facts["live"] or 0):
        yield Finding(
            "warning", where, f"{facts['dead']:,} dead rows slow down claims",
            f"VACUUM {table}; ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.01);",
        )  # fmt: skip


async def _check_shared_keys(where: str, store: Store, bound: Bound) -> AsyncIterator[Finding]:
    """Keys that two partitions share: no index of PostgreSQL can forbid them."""
    key = sql.column(bound.key.name)
    try:
        shared = await store.database.fetch(
            f"SELECT {key} AS key FROM {sql.name(bound.queue.table)} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        )
    except StoreError as error:
        yield Finding("note", where, f"duplicate keys across partitions could not be checked: {error}")
        return
    if shared:
        yield Finding(
            "error",
            where,
            f"two rows have {bound.key.name} = {shared[0]['key']}: they would be the same job",
            f"give one of them another {bound.key.name}",
        )
