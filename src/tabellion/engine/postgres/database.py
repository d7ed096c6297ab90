"""PostgreSQL: connections with deadlines, direct or behind a transaction pooler."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import asyncpg

from tabellion.engine import control_rows, counts, sql
from tabellion.engine.database import Answers, TrialStatements, Undone
from tabellion.engine.failpoints import failpoint
from tabellion.engine.job import Job
from tabellion.engine.moves import Numbered, Terms, extras, guard, price
from tabellion.engine.postgres import catalog as postgres_catalog
from tabellion.engine.postgres import moves
from tabellion.engine.postgres import trial as postgres_trial
from tabellion.engine.postgres.errors import BAD_URL, GONE, translate_error
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement
from tabellion.engine.sql import CHANNEL, CLOCK, NOW, Dialect
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.table import Table
from tabellion.engine.values import for_postgres
from tabellion.errors import ConfigurationError, Unreachable, ValueRefused

LOCK_TIMEOUT = 2.0  # seconds a move waits for a row that another session has locked
RACES = 5  # how often a claim that lost the race for a row is repeated at once
PostgresConnection = Any  # asyncpg's connection, or the proxy its pools hand out

#: A queue's table changes faster than its statistics: with wrong estimates, the planner reads and sorts the whole
#: backlog for one claim. Every move is written to read an index in order and find rows by key: only that is allowed.
_PINNED = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off", "jit": "off"}
_TURN = {
    on: "; ".join(f"SET {setting} = {'off' if on else 'on'}" for setting in _PINNED if on or setting != "jit")
    for on in (True, False)
}
_PIN = "; ".join(
    [f"SET LOCAL {setting} = {value}" for setting, value in _PINNED.items()] + ["SET LOCAL lock_timeout = '2s'"]
)


class PostgreSQL:
    """One PostgreSQL database: a few connections, every call under a deadline."""

    dialect: Dialect = "postgresql"

    def __init__(
        self,
        url: str,
        *,
        deadline: float,
        connections: int,
        clock: Callable[[], float] | None = None,
        durable: bool = True,
    ) -> None:
        rest = url.partition("://")[2]
        self.url = f"postgresql://{rest}"
        self.deadline = deadline
        self.clock = clock
        self._durable = durable
        self.pooled: bool | None = None  #: whether the connection goes through a pooler; None: not known yet
        self._idle: dict[bool, list[PostgresConnection]] = {True: [], False: []}
        self._most = connections
        self._used = 0
        self._free = asyncio.Semaphore(connections)
        self._writer = secrets.token_hex(4)  #: the name of this process in the rows that count attempts

    async def open(self) -> None:
        """Finds out whether the connection is direct: a pooler reports a process id that is not the server's."""
        async with self.connection() as connection, connection.transaction():
            server_pid = await connection.fetchval("SELECT pg_backend_pid()")
            pooled = server_pid != connection.get_server_pid()
        if pooled != self.pooled:
            self.pooled = pooled
            await self.close()

    async def close(self) -> None:
        """Closes every idle connection."""
        for idle in self._idle.values():
            while idle:
                connection = idle.pop()
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(connection.close(), 1)

    @contextlib.asynccontextmanager
    async def connection(self, *, pinned: bool = False) -> AsyncIterator[PostgresConnection]:
        """A connection for one call; one that failed or timed out is closed and never reused.

        On a `pinned` connection the planner may only read indexes in their order.
        """
        idle, other = self._idle[pinned], self._idle[not pinned]
        async with self._free:
            connection: PostgresConnection = None
            self._used += 1
            try:
                async with asyncio.timeout(self.deadline):
                    if idle:
                        connection = idle.pop()
                    elif other and self._used + len(other) > self._most:
                        connection = other.pop()
                        if not self.pooled:
                            await connection.execute(_TURN[pinned])  # connecting would take a hundred times as long
                    else:
                        connection = await self._connect(pinned)
                    yield connection
            except BaseException as error:
                sound = isinstance(error, asyncpg.PostgresError) and not isinstance(error, GONE)
                if connection is not None and sound and not connection.is_closed():
                    idle.append(connection)
                elif connection is not None:
                    connection.terminate()
                if isinstance(error, Exception):
                    raise translate_error(error, self.deadline) from error
                raise
            else:
                if not connection.is_closed():
                    idle.append(connection)
            finally:
                self._used -= 1

    async def fetch(self, text: str, *values: Any) -> list[Any]:
        """Runs one statement in a transaction of its own."""
        return [dict(row) for row in await self._fetch(text, values, pinned=False)]

    async def transact(
        self, statements: Iterable[tuple[str, Sequence[Any]]], *, guarded: bool = False
    ) -> list[list[Any]]:
        """Runs several statements in one transaction; `guarded`: none of them if the first returns no row."""
        async with self.connection() as connection:
            try:
                async with connection.transaction():
                    return await self._run_all(connection, statements, guarded)
            except Undone:
                return []

    async def _run_all(
        self, connection: PostgresConnection, statements: Iterable[tuple[str, Sequence[Any]]], guarded: bool
    ) -> list[list[Any]]:
        results: list[list[Any]] = []
        for text, values in statements:
            results.append([dict(row) for row in await connection.fetch(self._text(text), *values)])
            if guarded and not results[0]:
                raise Undone
        return results

    async def try_out(self, queue: Queue | None, lock: Numbered, trials: Sequence[TrialStatements]) -> Answers:
        """Tries statements on a row and rolls everything back; no answers if `lock` returns no row."""
        async with self.connection() as connection:
            keep_order = (
                functools.partial(self._lock_queue, connection, queue)
                if queue is not None
                else functools.partial(connection.execute, control_rows.LOCK_ALL)
            )
            return await postgres_trial.try_out(connection, self._text, keep_order, lock, trials)

    async def add_many(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Inserts rows by COPY and notifies once; a single row by one statement, one round trip instead of four."""
        if len(rows) == 1:
            marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
            insert = f"INSERT INTO {sql.name(table)} ({', '.join(map(sql.column, columns))}) VALUES ({marks})"
            await self._fetch(
                f"WITH added AS ({insert} RETURNING 1) SELECT pg_notify('{CHANNEL}', '') FROM added",
                rows[0],
                pinned=False,
            )
            return
        schema, _, bare = table.rpartition(".")
        async with self.connection() as connection, connection.transaction():
            await connection.copy_records_to_table(bare, schema_name=schema or None, columns=columns, records=rows)
            await connection.execute(f"NOTIFY {CHANNEL}")

    async def wake(self) -> None:
        """Notifies listening workers, which then poll their queues at once."""
        await self.fetch("SELECT pg_notify($1, '')", CHANNEL)

    async def listen(self, ring: Callable[[str], None], _pause: float) -> None:
        """Calls `ring` with every NOTIFY's payload until cancelled; returns at once behind a pooler, without LISTEN."""
        if self.pooled:
            return
        connection = await self._connect(pinned=False)
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, lambda _connection, _pid, _channel, payload: ring(payload))
            await lost.wait()
            raise Unreachable("the connection that listens for wake-ups was lost")
        finally:
            connection.terminate()

    async def claim(self, bound: Bound, n: int, worker: str, limited: bool, terms: Terms | None = None) -> list[Job]:
        """Claims up to `n` rows, in one statement; under a fleet-wide limit the queue's own row is locked first."""
        failpoint("claim.pre_commit")
        condition, condition_values = terms.condition(bound, 3) if terms else ("", [])
        single, early = (terms.only is not None, terms.early) if terms else (False, False)
        text = moves.claim(bound, condition, single=single, early=early)
        values = [n, worker, bound.queue.lease, *condition_values]
        for tries_left in range(RACES, -1, -1):
            try:
                if limited or (terms and terms.also):
                    jobs = await self._claim_at_length(bound, text, values, limited, terms)
                else:
                    jobs = _jobs(bound, worker, await self._fetch(text, values))
                break
            except ValueRefused:
                if not tries_left:
                    raise
        failpoint("claim.post_commit")
        failpoint("claim.drop_ack")
        return jobs

    async def _claim_at_length(
        self, bound: Bound, text: str, values: Sequence[Any], limited: bool, terms: Terms | None
    ) -> list[Job]:
        n, worker, *more = values
        async with self.connection(pinned=True) as connection, connection.transaction():
            if self.pooled:
                await connection.execute(_PIN)
            room = await self._room(connection, bound.queue, n) if limited else n
            if room <= 0:
                return []
            jobs = _jobs(bound, worker, await connection.fetch(self._text(text), room, worker, *more))
            for job in jobs if terms else ():
                await self._run_extras(connection, terms.extras(job))  # type: ignore[union-attr]
            return jobs

    async def _room(self, connection: PostgresConnection, queue: Queue, n: int) -> int:
        live_limit = await self._lock_queue(connection, queue)
        running = await connection.fetchval(
            "SELECT count(*) FROM tabellion_attempts WHERE queue = $1 AND settled_at IS NULL", queue.name
        )
        limit = queue.limit if live_limit is None else live_limit
        return n if limit is None else min(n, limit - running)

    async def _lock_queue(self, connection: PostgresConnection, queue: Queue) -> int | None:
        """Locks the queue's own row, which is created if it is missing; returns the limit that an operator set."""
        text, values = control_rows.ensure(queue.name)
        await connection.execute(self._text(text), *values)
        query = "SELECT running_limit FROM tabellion_queues WHERE queue = $1 FOR UPDATE"
        limit: int | None = await connection.fetchval(query, queue.name)
        return limit

    async def settle(self, bound: Bound, batch: Sequence[Settlement]) -> dict[str, str]:
        """Settles jobs of the same outcome and columns; returns the outcome of each key."""
        failpoint("settle.pre_commit")
        first = batch[0]
        columns = list(first.values)
        jobs = [settlement.job for settlement in batch]
        detailed, coded = (
            not all(settlement.is_plain for settlement in batch),
            any(settlement.form for settlement in batch),
        )
        text = moves.settle(
            bound, first.outcome, columns, expired_only=first.expired_only, detailed=detailed, coded=coded,
            writer=None if first.needs_own_transaction else self._writer,
        )  # fmt: skip
        values: list[Any] = [[job.text_key for job in jobs], [job.token for job in jobs]]
        if detailed:
            values += [
                [settlement.error for settlement in batch],
                [_text_of(settlement.after) for settlement in batch],
                [job._note for job in jobs],
                [_text_of(price(job.cost)) for job in jobs],
            ]
        if coded:
            values += [list(part) for part in zip(*(settlement.serialize_error() for settlement in batch), strict=True)]
        if columns:
            values.append([for_postgres(settlement.values) for settlement in batch])
        rows = await (
            self._settle_alone(first, text, values) if first.needs_own_transaction else self._fetch(text, values)
        )
        failpoint("settle.post_commit")
        failpoint("settle.drop_ack")
        return {row["key"]: row["outcome"] for row in rows}

    async def _settle_alone(self, settlement: Settlement, text: str, values: Sequence[Any]) -> list[Any]:
        also, guard_query = extras(settlement), guard(settlement)
        async with self.connection(pinned=True) as connection:
            try:
                async with connection.transaction():
                    if self.pooled:
                        await connection.execute(_PIN)
                    rows: list[Any] = await connection.fetch(self._text(text), *values)
                    if rows and rows[0]["outcome"] == settlement.outcome:
                        if guard_query:
                            await self._run_all(connection, [guard_query], guarded=True)
                        await self._run_extras(connection, also)
                        # Last: attached statements may wait for other sessions, which must not wait for the count.
                        cost = price(settlement.job.cost) or 0.0
                        if counts.is_counted(settlement.outcome, bool(cost)):
                            numbers = counts.numbers(settlement.outcome, 1, cost)
                            await connection.execute(
                                self._text(counts.add("postgresql")), settlement.job.queue.name, self._writer, *numbers
                            )
                    return rows
            except Undone:
                return []

    async def amend(self, bound: Bound, job: Job, statements: Sequence[Numbered]) -> list[list[Any]] | None:
        """Renews one claim and runs statements with it, guarded; None: the claim was lost."""
        values = [[job.text_key], [job.token], [job._note], bound.queue.lease, [job.note_form]]
        async with self.connection() as connection:
            try:
                async with connection.transaction():
                    rows = await connection.fetch(self._text(moves.renew(bound)), *values)
                    if not rows or not rows[0]["holds"]:
                        return None
                    return await self._run_all(connection, statements, guarded=True)
            except Undone:
                return []

    async def renew(self, bound: Bound, jobs: Sequence[Job]) -> dict[str, bool]:
        """Extends the leases that still hold; a key missing from the answer is not ours any more."""
        failpoint("renew.drop")
        keys, tokens = [job.text_key for job in jobs], [job.token for job in jobs]
        notes, forms = [job._note for job in jobs], [job.note_form for job in jobs]
        rows = await self._fetch(moves.renew(bound), [keys, tokens, notes, bound.queue.lease, forms])
        return {row["key"]: row["holds"] for row in rows}

    async def renew_mirrors(self, bound: Bound, jobs: Sequence[Job]) -> None:
        """Renews the times in the rows of claims that still hold."""
        keys, tokens = [job.text_key for job in jobs], [job.token for job in jobs]
        await self._fetch(moves.renew_mirrors(bound), [keys, tokens])

    async def table(self, name: str) -> Table | None:
        """The table as the catalog describes it."""
        return await postgres_catalog.describe(self.fetch, name)

    async def _fetch(self, text: str, values: Sequence[Any], *, pinned: bool = True) -> list[Any]:
        async with self.connection(pinned=pinned) as connection:
            if self.pooled:
                # Outside a transaction a pooler may send the parse and the execution to different servers.
                async with connection.transaction():
                    if pinned:
                        await connection.execute(_PIN)
                    return list(await connection.fetch(self._text(text), *values))
            return list(await connection.fetch(self._text(text), *values))

    async def _run_extras(self, connection: PostgresConnection, also: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Runs attached statements; a missing right fails the job and is not an error of the database."""
        try:
            for statement, arguments in also:
                await connection.execute(self._text(statement), *arguments)
        except asyncpg.InsufficientPrivilegeError as error:
            raise ValueRefused(str(error)) from error

    def _text(self, template: str) -> str:
        clock = CLOCK["postgresql"] if self.clock is None else sql.instant(self.clock(), "postgresql")
        return template.replace(NOW, clock)

    async def _connect(self, pinned: bool) -> PostgresConnection:
        direct = self.pooled is False
        limits = {"lock_timeout": f"{LOCK_TIMEOUT:g}s", "statement_timeout": f"{self.deadline:g}s"}
        if not self._durable:
            limits["synchronous_commit"] = "off"
        try:
            return await asyncpg.connect(
                self.url,
                timeout=self.deadline,
                statement_cache_size=100 if direct else 0,
                server_settings={"application_name": "tabellion"}
                | (limits if direct else {})
                | (_PINNED if pinned and direct else {}),
            )
        except (ValueError, OverflowError) as error:
            # The driver's message may quote a part of the password.
            raise ConfigurationError(BAD_URL) from error


def _jobs(bound: Bound, worker: str, rows: Sequence[Any]) -> list[Job]:
    """The jobs of a claim's result, whose first half are the attempts and whose second half are the rows."""
    if not rows:
        return []
    columns = list(rows[0].keys())[7:]
    half = len(rows) // 2
    claimed = {row[0]: dict(zip(columns, tuple(row)[7:], strict=True)) for row in rows[half:]}
    return [
        Job(
            bound.queue,
            claimed[key][bound.key.name],
            key,
            claimed[key],
            n=number,
            token=token,
            attempt=attempt,
            crashes=crashes,
            deferrals=deferrals,
            age=age,
            worker=worker,
        )
        for key, number, token, attempt, crashes, deferrals, age, *_ in rows[:half]
    ]


def _text_of(value: float | None) -> str | None:
    return None if value is None else repr(value)
