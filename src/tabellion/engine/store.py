"""One database: moves rows between states, every move one guarded transaction."""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.engine import declaration, register, sql
from tabellion.engine.declaration import Bound
from tabellion.engine.errors import (
    ConfigurationError,
    DeclarationError,
    Forbidden,
    LeaseLost,
    NotMigrated,
    StoreError,
    Unreachable,
    ValueRefused,
)
from tabellion.engine.failpoints import failpoint
from tabellion.engine.job import Job
from tabellion.engine.queue import STATES, Queue, StateName
from tabellion.engine.settlement import Settlement, Verdict
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.table import Table

if TYPE_CHECKING:
    from tabellion.engine.explanation import Explanation
    from tabellion.engine.postgres import PostgreSQL
    from tabellion.engine.sqlite import SQLite

DEADLINE = 10.0
CONNECTIONS = 4
SWEEP_BATCH = 500
CRASHES_ALLOWED = 2  # the second crash in a row is the last
LONGEST_ERROR = 8000
FOREIGN_SHOWN = 1000

_AWAY = (Unreachable, NotMigrated, Forbidden)  # says nothing about the job; the same call may succeed later


class Store:
    """One database, by URL: `sqlite:///work.db` or `postgresql://…`.

    Its methods are the moves: claim, renew, finish, fail, retry, release, sweep. Each changes the owner's row and
    the register in one transaction, and changes nothing unless the claim behind it still holds.
    """

    def __init__(
        self,
        url: str,
        *,
        deadline: float = DEADLINE,
        connections: int = CONNECTIONS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.url = url
        self.database = _database(url, deadline, connections, clock)
        self._bound: dict[Queue, Bound] = {}
        self._ready = False
        self._opening = asyncio.Lock()

    @property
    def dialect(self) -> Dialect:
        """Which kind of database this is."""
        return self.database.dialect

    async def open(self, *, migrate: bool = True) -> None:
        """Connects and sees to it that the register is there; called by every move that needs it."""
        if self._ready:
            return
        async with self._opening:
            if not self._ready:
                await self.database.open()
                version = await self.version()
                if version > register.CURRENT:
                    raise NotMigrated(
                        f"the register is of version {version}, this tabellion knows {register.CURRENT}: "
                        "upgrade tabellion"
                    )
                if version < register.CURRENT:
                    if not migrate:
                        raise NotMigrated()
                    await self.migrate()
                self._ready = True

    async def close(self) -> None:
        """Closes the connections."""
        self._ready = False
        await self.database.close()

    async def __aenter__(self) -> Store:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- the register ------------------------------------------------------------------------------------------

    async def version(self) -> int:
        """The register's version; 0 when there is none."""
        try:
            rows = await self.database.fetch("SELECT max(version) AS version FROM tabellion_schema")
        except NotMigrated:
            return 0
        return rows[0]["version"] or 0

    async def migrate(self) -> int:
        """Brings the register up to date and returns its version; safe to call from many processes at once."""
        lock = {
            "postgresql": [
                "SELECT pg_advisory_xact_lock(hashtext('tabellion'))",
                "SET LOCAL lock_timeout = '2s'",
            ],
            "sqlite": [],
        }[self.dialect]
        first = [
            *lock,
            register.VERSION_TABLE[self.dialect],
            "SELECT max(version) AS version FROM tabellion_schema",
        ]
        try:
            # Two transactions: the version must be read after the lock is ours, in a snapshot of its own.
            version = (await self.database.transact([(text, ()) for text in first]))[-1][0]["version"] or 0
            if version < register.CURRENT:
                steps = [*lock, *register.statements(self.dialect, version)]
                failpoint("migrate.mid")
                await self.database.transact([(text, ()) for text in steps])
        except Forbidden as error:
            raise NotMigrated(
                f"the register is not in this database and this role may not create it ({error}): "
                "have someone who may run the SQL that `tabellion migrate --sql` prints"
            ) from error
        except StoreError as error:
            if isinstance(error, Unreachable) or await self.version() < register.CURRENT:
                raise
            # Another process was quicker.
        return await self.version()

    async def bind(self, queue: Queue) -> Bound:
        """The queue checked against its table; raises a DeclarationError that lists every problem."""
        bound = self._bound.get(queue)
        if bound is None:
            await self.open()
            bound = declaration.bind(queue, await self.database.table(queue.table), self.dialect)
            self._bound[queue] = bound
        return bound

    async def table(self, name: str) -> Table | None:
        """A table as the database describes it."""
        return await self.database.table(name)

    async def check(self, queues: Iterable[Queue]) -> None:
        """Checks every queue against this database and raises one error that lists all that is wrong."""
        problems = []
        for queue in queues:
            try:
                await self.bind(queue)
            except DeclarationError as error:
                problems += [(queue, problem) for problem in error.problems]
        if problems:
            names = sorted({queue.name for queue, _ in problems})
            subject = f"queue {names[0]!r}" if len(names) == 1 else f"queues {', '.join(map(repr, names))}"
            raise DeclarationError(subject, [problem for _, problem in problems])

    # -- the moves ---------------------------------------------------------------------------------------------

    async def add_many(self, queue: Queue, rows: Sequence[Mapping[str, Any]]) -> None:
        """Inserts ready rows, as fast as the database can, and wakes idle workers once."""
        if not rows:
            return
        bound = await self.bind(queue)
        ready = queue.states["ready"]
        columns = list(ready | {column: None for row in rows for column in row})
        unknown = set(columns) - set(bound.table.columns)
        if unknown:
            raise ValueRefused(_no_column(sorted(unknown)[0], bound))
        if len(rows) > 1 and any(row.keys() != rows[0].keys() for row in rows):
            raise ValueRefused("add_many takes rows that all name the same columns")
        defaults = [ready.get(column) for column in columns]
        records = [
            [row.get(column, default) for column, default in zip(columns, defaults, strict=True)] for row in rows
        ]
        await self.database.add_many(queue.table, columns, records)

    async def add(self, queue: Queue, **values: Any) -> None:
        """Inserts one ready row and wakes an idle worker."""
        await self.add_many(queue, [values])

    async def claim(self, queue: Queue, n: int, worker: str, *, limited: bool = False) -> list[Job]:
        """Claims up to `n` due rows for this worker, first in line first; the attempt is counted here."""
        bound = await self.bind(queue)
        jobs = await self.database.claim(bound, n, worker, limited or queue.limit is not None)
        parsed = [column.name for column in bound.table.columns.values() if column.family == "json"]
        for job in jobs if parsed else ():
            for column in parsed:
                job.values[column] = _parsed(job.values[column])  # type: ignore[index]
        return jobs

    async def renew(self, jobs: Sequence[Job]) -> list[Job]:
        """Extends these claims' leases and writes their notes; returns the jobs whose claim is gone."""
        lost: list[Job] = []
        for queue, mine in _by_queue(jobs).items():
            mine.sort(key=lambda job: job.text_key)  # everyone locks in the same order, so that nobody deadlocks
            answer = await self.database.renew(await self.bind(queue), mine)
            lost += [job for job in mine if not answer.get(job.text_key, False)]
        return lost

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Writes how claims ended: many alike in one transaction, those with `job.also` each in its own.

        A result that the database refuses fails its own job and no other.
        """
        verdicts: list[Verdict] = []
        for batch in _alike(settlements):
            try:
                verdicts += await self._settle_batch(batch)
            except _AWAY:
                raise
            except StoreError:
                # One value spoils the transaction for all: find it by settling each alone.
                for one in batch:
                    verdicts += await self._settle_alone(one)
        return verdicts

    async def finish(self, job: Job, values: Mapping[str, Any] | None = None) -> None:
        """The job is done: writes `values` with the done state, only if the claim still holds."""
        await self._settle_one(Settlement(job, "done", values or {}))

    async def fail(self, job: Job, error: str) -> None:
        """The job failed for good."""
        await self._settle_one(Settlement(job, "failed", error=error))

    async def retry(self, job: Job, after: float, error: str) -> None:
        """The job goes back to ready and is due again after so many seconds; the attempt is spent."""
        await self._settle_one(Settlement(job, "retried", error=error, after=after))

    async def defer(self, job: Job, after: float, error: str) -> None:
        """The job goes back to ready and is due again after so many seconds; the attempt is not spent."""
        await self._settle_one(Settlement(job, "limited", error=error, after=after))

    async def release(self, job: Job) -> None:
        """The job goes back to ready at once, in its place; the attempt is not spent."""
        failpoint("release.pre_commit")
        await self._settle_one(Settlement(job, "released"))

    async def sweep(self, queue: Queue) -> list[Settlement]:
        """Ends expired claims: back to ready, or failed when attempts or patience are used up."""
        bound = await self.bind(queue)
        expired = await self.database.fetch(
            f"""SELECT a.key, a.n, CAST(a.token AS text) AS token, a.attempt, a.crashes, a.worker, a.note,
  {sql.epoch("a.claimed_at", self.dialect)} AS claimed_at, w.host, w.pid, w.ending, {_limit_column(bound)} AS bound
FROM tabellion_attempts AS a
LEFT JOIN tabellion_workers AS w ON w.id = a.worker
LEFT JOIN {sql.name(queue.table)} AS t ON t.{sql.column(bound.key.name)} = CAST(a.key AS {bound.key.type or "text"})
WHERE a.queue = $1 AND a.settled_at IS NULL AND a.lease_until < {NOW}
ORDER BY a.claimed_at LIMIT {SWEEP_BATCH}""",
            queue.name,
        )
        swept = [_crash(bound, row) for row in expired]
        verdicts = {verdict.job: verdict for verdict in await self.settle(swept)}
        return [one for one in swept if verdicts[one.job].accepted]

    async def take_over(self, queue: Queue) -> int:
        """Gives back rows that workers outside the register left running, once older than `stale_after`."""
        if queue.stale_after is None:
            return 0
        bound = await self.bind(queue)
        started = bound.column(queue.mirrors["started_at"])
        at = sql.mirror_epoch(f"t.{sql.column(started.name)}", started.family, started.type, self.dialect)
        changes = sql.assign(queue.states["ready"], self.dialect)
        changes += [
            f"{sql.column(queue.mirrors[mirror])} = NULL"
            for mirror in ("worker", "started_at")
            if mirror in queue.mirrors
        ]
        rows = await self.database.fetch(
            f"""UPDATE {sql.name(queue.table)} AS t SET {", ".join(changes)}
WHERE {sql.holds(queue.states["running"], self.dialect)} AND {at} < {sql.epoch(NOW, self.dialect)} - $2
  AND {_unregistered(bound)} RETURNING 1 AS moved""",
            queue.name,
            float(queue.stale_after),
        )
        return len(rows)

    async def foreign(self, queue: Queue) -> int:
        """How many rows are running with no claim in the register: workers that do not use it, or used to."""
        bound = await self.bind(queue)
        rows = await self.database.fetch(
            f"""SELECT count(*) AS n FROM (SELECT 1 FROM {sql.name(queue.table)} AS t
WHERE {sql.holds(queue.states["running"], self.dialect)} AND {_unregistered(bound)} LIMIT {FOREIGN_SHOWN}) AS f""",
            queue.name,
        )
        return int(rows[0]["n"])

    async def counts(self, queue: Queue, cap: int = 1_000_000) -> dict[StateName, int]:
        """How many rows are in each state, counted up to `cap` each."""
        await self.bind(queue)
        tests = {state: sql.holds(queue.states[state], self.dialect) for state in STATES}
        if queue.where:
            tests["ready"] += f" AND ({queue.where})"
        parts = [
            f"""(SELECT count(*) FROM (SELECT 1 FROM {sql.name(queue.table)} AS t WHERE {test} LIMIT {cap}) AS s) AS {state}"""
            for state, test in tests.items()
        ]
        rows = await self.database.fetch(f"SELECT {', '.join(parts)}")
        return {state: int(rows[0][state]) for state in STATES}

    async def explain(self, queue: Queue, key: Any) -> Explanation:
        """Why is this row not running? In sentences, with the row's history."""
        from tabellion.engine.explanation import explain  # it is built on this class

        return await explain(self, queue, key)

    async def now(self) -> float:
        """The database's clock, in seconds since 1970."""
        rows = await self.database.fetch(f"SELECT {sql.epoch(NOW, self.dialect)} AS now")
        return float(rows[0]["now"])

    # -- inside ------------------------------------------------------------------------------------------------

    async def _settle_one(self, settlement: Settlement) -> None:
        [verdict] = await self._settle_batch([settlement])
        if not verdict.accepted:
            raise LeaseLost(f"{settlement.job}: the claim is gone ({verdict.outcome or 'settled by someone else'})")

    async def _settle_batch(self, batch: Sequence[Settlement]) -> list[Verdict]:
        bound = await self.bind(batch[0].job.queue)
        for one in batch:
            if one.error is not None:
                one.error = one.error.replace("\x00", "\\0")[:LONGEST_ERROR]
        unknown = [column for column in batch[0].values if column not in bound.table.columns]
        if unknown:
            raise ValueRefused(_no_column(unknown[0], bound))
        answer = await self.database.settle(bound, batch)
        missing = [one for one in batch if one.job.text_key not in answer]
        if missing:
            answer |= await self._already(bound, missing)
        return [Verdict(one.job, answer.get(one.job.text_key)) for one in batch]  # type: ignore[arg-type]

    async def _settle_alone(self, settlement: Settlement) -> list[Verdict]:
        try:
            return await self._settle_batch([settlement])
        except _AWAY:
            raise
        except StoreError as error:
            # It would be refused every time, so it is not tried again.
            why = f"the result could not be written: {error}"
        try:
            return await self._settle_batch([Settlement(settlement.job, "failed", error=why)])
        except _AWAY:
            raise
        except StoreError as error:
            return [Verdict(settlement.job, None, str(error))]

    async def _already(self, bound: Bound, missing: Sequence[Settlement]) -> dict[str, str]:
        """Settlements that an earlier call of ours wrote before its answer was lost."""
        written: dict[str, str] = {}
        for one in missing:
            rows = await self.database.fetch(
                """SELECT outcome FROM tabellion_attempts
WHERE queue = $1 AND key = $2 AND n = $3 AND CAST(token AS text) = $4 AND settled_at IS NOT NULL""",
                bound.queue.name, one.job.text_key, one.job.n, one.job.token,
            )  # fmt: skip
            if rows and rows[0]["outcome"] == one.outcome:
                written[one.job.text_key] = one.outcome
        return written


def _database(url: str, deadline: float, connections: int, clock: Callable[[], float] | None) -> PostgreSQL | SQLite:
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme == "sqlite":
        from tabellion.engine.sqlite import SQLite  # each driver is loaded only where used

        return SQLite(url, deadline=deadline, clock=clock)
    if scheme in ("postgresql", "postgres"):
        try:
            from tabellion.engine.postgres import PostgreSQL
        except ImportError as error:
            raise ConfigurationError("PostgreSQL needs its driver: pip install 'tabellion[postgres]'") from error
        return PostgreSQL(url, deadline=deadline, connections=connections, clock=clock)
    shown = f"{scheme}://…" if "://" in url else repr(url)
    raise ConfigurationError(f"{shown} is not a database URL: use sqlite:///file.db or postgresql://user@host/name")


def job_of(bound: Bound, row: Mapping[str, Any]) -> Job:
    """A claim as the register knows it, without the row's values: enough to settle it."""
    key = int(row["key"]) if bound.key.family == "integer" else row["key"]
    return Job(
        bound.queue,
        key,
        row["key"],
        {},
        n=row["n"],
        token=row["token"],
        attempt=row["attempt"],
        worker=row["worker"],
        crashes=row["crashes"],
    )


def _by_queue(jobs: Iterable[Job]) -> dict[Queue, list[Job]]:
    groups: dict[Queue, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.queue].append(job)
    return groups


def _alike(settlements: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """Settlements that one statement can write; one with extra statements stands alone."""
    groups: dict[Any, list[Settlement]] = {}
    for number, one in enumerate(settlements):
        alone = number if one.outcome == "done" and one.job._also else None
        groups.setdefault((one.job.queue, one.outcome, tuple(one.values), one.expired_only, alone), []).append(one)
    for group in groups.values():
        group.sort(key=lambda one: one.job.text_key)  # everyone locks in the same order, so that nobody deadlocks
    return groups.values()


def _limit_column(bound: Bound) -> str:
    named = bound.queue.max_attempts
    return f"t.{sql.column(named)}" if isinstance(named, str) else "NULL"


def _unregistered(bound: Bound) -> str:
    """$1 queue: the row has no live claim."""
    return f"""NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a
WHERE a.queue = $1 AND a.settled_at IS NULL AND a.key = CAST(t.{sql.column(bound.key.name)} AS text))"""


def _crash(bound: Bound, row: Mapping[str, Any]) -> Settlement:
    queue = bound.queue
    limit = queue.bounds({} if row["bound"] is None else {str(queue.max_attempts): row["bound"]})
    job = job_of(bound, row)
    evidence = _evidence(row)
    if row["crashes"] + 1 >= CRASHES_ALLOWED:
        error = f"quarantined after {row['crashes'] + 1} crashes in a row; the last: {evidence}"
        return Settlement(job, "quarantined", error=error, expired_only=True)
    if row["attempt"] >= limit:
        return Settlement(
            job,
            "failed",
            error=f"crashed on its last attempt ({row['attempt']}): {evidence}",
            expired_only=True,
        )
    return Settlement(job, "crashed", error=evidence, expired_only=True)


def _evidence(row: Mapping[str, Any]) -> str:
    """What is known of a claim whose lease ran out."""
    where = f" on {row['host']} (pid {row['pid']})" if row["host"] else ""
    how = row["ending"] or "stopped renewing its lease: killed, frozen or cut off"
    note = f"; its last note: {row['note']}" if row["note"] else ""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["claimed_at"]))
    return f"worker {row['worker']}{where} {how}; claimed {since} UTC{note}"


def _parsed(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _no_column(name: str, bound: Bound) -> str:
    near = difflib.get_close_matches(name, bound.table.columns, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"table {bound.table.name!r} has no column {name!r}{hint}"
