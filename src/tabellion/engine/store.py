"""One database: moves rows between states, every move one guarded transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tabellion.engine import register_tables, sql
from tabellion.engine.database import read_clock
from tabellion.engine.drivers import database_at
from tabellion.engine.explanation import Explanation, explain
from tabellion.engine.failpoints import failpoint
from tabellion.engine.job import Job, storable
from tabellion.engine.moves import Numbered, Terms
from tabellion.engine.queue import STATES, Queue, StateName
from tabellion.engine.recovery import expired_claims, orphans, parking, refused_rows
from tabellion.engine.renewed_mirrors import renew_mirrors
from tabellion.engine.settlement import Settlement, SettlementVerdict
from tabellion.engine.sql import Dialect
from tabellion.engine.statement_groups import group_alike, renewable
from tabellion.engine.tables import declaration
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.table import Table
from tabellion.engine.tables.transitions import check_transitions
from tabellion.engine.values import for_insert, parse_json
from tabellion.errors import (
    AWAY,
    Busy,
    DeclarationError,
    DeclarationProblem,
    LeaseLost,
    NotMigrated,
    StoreError,
    ValueRefused,
)

DEADLINE = 10.0
CONNECTIONS = 4
LONGEST_ERROR = 8000


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
        durable: bool = True,
        read_only: bool = False,
    ) -> None:
        self.url = url
        self.database = database_at(url, deadline, connections, clock, durable, read_only)
        self._read_only = read_only  #: creates neither register nor file, and leaves SQLite's journal as it is
        self._bound: dict[Queue, Bound] = {}
        self._tried: set[Queue] = set()
        self._ready = False
        self._opening = asyncio.Lock()
        #: Called for each row that the database does not allow to run.
        self.on_refused: refused_rows.RefusalCallback | None = None

    @property
    def dialect(self) -> Dialect:
        """Which kind of database this is."""
        return self.database.dialect

    async def open(self, *, migrate: bool = True) -> None:
        """Connects and makes sure that the register exists; called by every move that needs it."""
        if self._ready:
            return
        async with self._opening:
            if not self._ready:
                await self.database.open()
                version = await self.version()
                register_tables.SCHEMA.check_supported(version)
                if version < register_tables.CURRENT:
                    if not migrate or self._read_only:
                        raise NotMigrated(register_tables.OLD.format(version) if version else register_tables.MISSING)
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
        return await register_tables.SCHEMA.version(self.database)

    async def migrate(self) -> int:
        """Brings the register up to date and returns its version; safe to call from many processes at once."""
        return await register_tables.SCHEMA.migrate(self.database)

    async def bind(self, queue: Queue) -> Bound:
        """The queue checked against its table; raises a DeclarationError that lists every problem."""
        bound = self._bound.get(queue)
        if bound is None:
            await (self.database.open() if self._read_only else self.open())
            bound = declaration.bind(queue, await self.database.table(queue.table), self.dialect)
            await self._try_condition(bound)
            self._bound[queue] = bound
        return bound

    def unbind(self, queue: Queue) -> None:
        """Forgets what the queue's table looks like: the next move reads the catalog again."""
        self._bound.pop(queue, None)
        self._tried.discard(queue)

    async def _try_condition(self, bound: Bound) -> None:
        """Has the database parse the queue's conditions once: they are the only SQL that tabellion does not write."""
        queue = bound.queue
        for name, condition in (("where", queue.where), ("failed_where", queue.failed_where)):
            if condition is None:
                continue
            try:
                await self.database.fetch(
                    f"SELECT 1 FROM {sql.name(queue.table)} AS t WHERE 1 = 0 AND (\n{condition}\n)"
                )
            except AWAY:
                raise
            except StoreError as error:
                problem = DeclarationProblem(
                    f"the database rejects {name}={condition!r}: {error}", "correct the condition"
                )
                raise DeclarationError(f"queue {queue.name!r}", [problem]) from error

    async def table(self, name: str) -> Table | None:
        """A table as the database describes it."""
        return await self.database.table(name)

    async def check(self, queues: Iterable[Queue]) -> None:
        """Checks every queue against this database, its changes of state included; one error lists every problem.

        State changes are tried once per store: a database that was unreachable has the same rules when it is back.
        If other sessions use the rows that it would try, the next check tries them.
        """
        problems = []
        for queue in queues:
            try:
                bound = await self.bind(queue)
            except DeclarationError as error:
                problems += [(queue, problem) for problem in error.problems]
                continue
            if queue not in self._tried:
                try:
                    found = await check_transitions(self.database, bound)
                except Busy:
                    continue
                problems += [(queue, problem) for problem in found]
                if not found:
                    self._tried.add(queue)
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
            raise ValueRefused(bound.describe_unknown(min(unknown, key=str)))
        if len(rows) > 1 and any(row.keys() != rows[0].keys() for row in rows):
            raise ValueRefused("add_many requires rows that all have the same columns")
        blank = {column: ready.get(column) for column in columns}
        records = [list((blank | dict(row)).values()) for row in rows]
        for place, column in enumerate(columns):
            if bound.column(column).family == "json":
                for record in records:
                    record[place] = for_insert(bound.table, column, record[place])
        await self.database.add_many(queue.table, columns, records)

    async def add(self, queue: Queue, **values: Any) -> None:
        """Inserts one ready row and wakes an idle worker."""
        await self.add_many(queue, [values])

    async def claim(
        self, queue: Queue, n: int, worker: str, *, limited: bool = False, terms: Terms | None = None
    ) -> list[Job]:
        """Claims up to `n` due rows for this worker, first in line first; the attempt is counted here."""
        bound = await self.bind(queue)
        limited = limited or queue.limit is not None
        try:
            jobs = await self.database.claim(bound, n, worker, limited, terms)
        except StoreError as error:
            if terms is not None or not refused_rows.is_about_the_row(error):
                raise
            jobs = await refused_rows.claim_one_by_one(self.database, bound, n, worker, limited, self.on_refused)
        for column in bound.table.columns.values():
            if column.family == "json":
                for job in jobs:
                    job.values[column.name] = parse_json(job.values[column.name])  # type: ignore[index]
        return jobs

    async def renew(self, jobs: Sequence[Job]) -> list[Job]:
        """Extends these claims' leases and writes their notes; returns the jobs whose claim is gone."""
        lost: list[Job] = []
        for batch in renewable(jobs):
            bound = await self.bind(batch[0].queue)
            answer = await self.database.renew(bound, batch)
            lost += [job for job in batch if not answer.get(job.text_key, False)]
            await renew_mirrors(self.database, bound, [job for job in batch if answer.get(job.text_key)])
        return lost

    async def find_claim(self, queue: Queue, key: Any) -> Job | None:
        """The live claim of a row as the register knows it, for its holder to continue; None: not claimed."""
        bound = await self.bind(queue)
        rows = await self.database.fetch(
            """SELECT key, n, CAST(token AS text) AS token, attempt, crashes, worker FROM tabellion_attempts
WHERE queue = $1 AND key = $2 AND settled_at IS NULL""",
            queue.name, str(key),
        )  # fmt: skip
        return bound.job(rows[0]) if rows else None

    held = find_claim  #: the former name

    async def amend(self, job: Job, statements: Sequence[Numbered]) -> list[list[Any]]:
        """Runs statements of a claim's holder: they commit with a renewal of the claim, and only if it still holds.

        The first one must return a row; otherwise neither the rows nor the lease change, and the list is empty.
        """
        bound = await self.bind(job.queue)
        results = await self.database.amend(bound, job, statements)
        if results is None:
            raise LeaseLost(f"{job}: the claim was lost")
        await renew_mirrors(self.database, bound, [job] if results else [])
        return results

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettlementVerdict]:
        """Writes how claims ended: similar ones together in one transaction, those with `job.also` each in its own.

        A result that the database refuses fails its own job and no other.
        """
        verdicts: list[SettlementVerdict] = []
        for batch in group_alike(settlements):
            try:
                verdicts += await self._settle_batch(batch)
            except AWAY:
                raise
            except (StoreError, DeclarationError):
                # One bad value fails the whole transaction: find it by settling each alone.
                for settlement in batch:
                    verdicts += await self._settle_alone(settlement)
        return verdicts

    async def finish(self, job: Job, values: Mapping[str, Any] | None = None) -> None:
        """Ends the job as done: writes `values` with the done state, only if the claim still holds."""
        await self.end(Settlement(job, "done", values or {}))

    async def fail(self, job: Job, error: str) -> None:
        """Ends the job as failed, permanently."""
        await self.end(Settlement(job, "failed", error=error))

    async def retry(self, job: Job, after: float, error: str) -> None:
        """Puts the row back to ready, due again after `after` seconds; the attempt is used up."""
        await self.end(Settlement(job, "retried", error=error, after=after))

    async def defer(self, job: Job, after: float, error: str) -> None:
        """Puts the row back to ready, due again after `after` seconds; the attempt is not used up."""
        await self.end(Settlement(job, "limited", error=error, after=after))

    async def release(self, job: Job) -> None:
        """Puts the row back to ready at once, at its place in the order; the attempt is not used up."""
        failpoint("release.pre_commit")
        await self.end(Settlement(job, "released"))

    async def end(self, settlement: Settlement) -> None:
        """Writes how one claim ended, with its statements and its guard; raises LeaseLost when nothing was written."""
        [verdict] = await self._settle_batch([settlement])
        if not verdict.is_accepted:
            raise LeaseLost(f"{settlement.job}: the claim was lost ({verdict.outcome or 'settled by someone else'})")

    async def sweep(self, queue: Queue) -> list[Settlement]:
        """Ends expired claims: back to ready, or failed when no attempt or allowed crash is left."""
        bound = await self.bind(queue)
        swept = await expired_claims.find_expired(self.database, bound)
        verdicts = {verdict.job: verdict for verdict in await self.settle(swept)}
        for ending in swept:
            verdict = verdicts[ending.job]
            ending.outcome, ending.error = verdict.outcome or ending.outcome, verdict.error or ending.error
        return [ending for ending in swept if verdicts[ending.job].is_accepted]

    async def take_over(self, queue: Queue) -> int:
        """Puts rows back to ready that workers outside the register left running for longer than `stale_after`."""
        return await orphans.take_over(self.database, await self.bind(queue))

    async def foreign(self, queue: Queue) -> int:
        """How many rows are running without a claim in the register, counted up to a thousand: other programs hold or
        left them."""
        return await orphans.count(self.database, await self.bind(queue))

    async def counts(self, queue: Queue, cap: int = 1_000_000) -> dict[StateName, int]:
        """How many rows are in each state, counted up to `cap` each."""
        await self.bind(queue)
        tests = {state: queue.condition(state, self.dialect) for state in STATES}
        if queue.where:
            tests["ready"] += f" AND (\n{queue.where}\n)"
        source = sql.name(queue.table)
        parts = [
            f"(SELECT count(*) FROM (SELECT 1 FROM {source} AS t WHERE {test} LIMIT {cap}) AS s) AS {state}"
            for state, test in tests.items()
        ]
        rows = await self.database.fetch(f"SELECT {', '.join(parts)}")
        return {state: int(rows[0][state]) for state in STATES}

    async def has_work(self, queue: Queue) -> bool:
        """Whether a row is ready, due now or later, or being worked on; a parked row is none of these."""
        return await parking.has_work(self.database, await self.bind(queue))

    async def explain(self, queue: Queue, key: Any) -> Explanation:
        """Explains in sentences why this row is not running, with its history."""
        return await explain(self.database, await self.bind(queue), key)

    async def now(self) -> float:
        """The database's clock, in seconds since 1970."""
        return await read_clock(self.database)

    # -- inside ------------------------------------------------------------------------------------------------

    async def _settle_batch(self, batch: Sequence[Settlement]) -> list[SettlementVerdict]:
        bound = await self.bind(batch[0].job.queue)
        for settlement in batch:
            settlement.write_error(LONGEST_ERROR)
        unknown = [column for column in batch[0].values if column not in bound.table.columns]
        if unknown:
            raise ValueRefused(bound.describe_unknown(unknown[0]))
        answer = await self.database.settle(bound, batch)
        # Several callers may settle one claim with statements of their own: only the first one's were written.
        missing = [
            settlement
            for settlement in batch
            if settlement.job.text_key not in answer
            and not (settlement.expired_only or settlement.also or settlement.guard)
        ]
        if missing:
            answer |= await self._find_settled(bound, missing)
        return [SettlementVerdict(settlement.job, answer.get(settlement.job.text_key)) for settlement in batch]  # type: ignore[arg-type]

    async def _settle_alone(self, settlement: Settlement) -> list[SettlementVerdict]:
        try:
            return await self._settle_batch([settlement])
        except AWAY:
            raise
        except DeclarationError as error:
            return [SettlementVerdict(settlement.job, None, str(error))]
        except StoreError as error:
            # It would be refused every time, so it is not tried again.
            why = parking.describe_refusal(settlement, error)
        job = settlement.job
        job.cost = job.cost if isinstance(job.cost, int | float) else None
        failed = Settlement(job, "failed", error=why, expired_only=settlement.expired_only)
        try:
            [verdict] = await self._settle_batch([failed])
            return [SettlementVerdict(job, verdict.outcome, why)]
        except AWAY:
            raise
        except StoreError as error:
            bound = await self.bind(job.queue)
            parking_error = storable(parking.describe_parking(bound, settlement.error or why, error))[:LONGEST_ERROR]
            parked = await parking.park(self.database, bound, settlement, parking_error)
            return [SettlementVerdict(job, "parked" if parked else None, parking_error)]

    async def _find_settled(self, bound: Bound, missing: Sequence[Settlement]) -> dict[str, str]:
        """The outcomes of settlements that an earlier call wrote although its answer was lost."""
        written: dict[str, str] = {}
        for settlement in missing:
            rows = await self.database.fetch(
                """SELECT outcome FROM tabellion_attempts
WHERE queue = $1 AND key = $2 AND n = $3 AND CAST(token AS text) = $4 AND settled_at IS NOT NULL""",
                bound.queue.name, settlement.job.text_key, settlement.job.n, settlement.job.token,
            )  # fmt: skip
            if rows and rows[0]["outcome"] in (settlement.outcome, "parked"):
                written[settlement.job.text_key] = rows[0]["outcome"]
        return written
