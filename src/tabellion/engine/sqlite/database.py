"""SQLite: each move is one immediate transaction on a connection with a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tabellion.engine import counts, sql
from tabellion.engine.database import Answers, TrialStatements, Undone
from tabellion.engine.failpoints import failpoint
from tabellion.engine.job import Job
from tabellion.engine.moves import Numbered, Terms, extras, guard, price
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement
from tabellion.engine.sql import CLOCK, NOW, Dialect
from tabellion.engine.sqlite import catalog as sqlite_catalog
from tabellion.engine.sqlite import moves
from tabellion.engine.sqlite.connection_thread import ConnectionThread, SqliteConnection, translate_error
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.table import Table
from tabellion.engine.values import for_sqlite, json_text

ASK = 0.1  # seconds between two queries for changes while the files look unchanged
RECENT = 20_000_000  # nanoseconds: file systems store times in steps of up to ten milliseconds


class SQLite:
    """One SQLite file: WAL, `synchronous=FULL`, immediate transactions."""

    dialect: Dialect = "sqlite"
    pooled: bool | None = False

    def __init__(
        self, url: str, *, deadline: float, clock: Callable[[], float] | None = None, durable: bool = True,
        read_only: bool = False,
    ) -> None:  # fmt: skip
        self.path = _path(url)
        self.clock = clock
        self._thread = ConnectionThread(self.path, deadline, durable, read_only)
        self._texts: dict[str, str] = {}

    async def open(self) -> None:
        """Opens the file, creating it if it does not exist (and this is allowed)."""
        await self._thread.call(lambda connection: connection.execute("SELECT 1 FROM sqlite_master").fetchone())

    async def close(self) -> None:
        """Closes the connection and ends its thread."""
        await self._thread.close()

    async def fetch(self, text: str, *values: Any) -> list[Any]:
        """Runs one statement in a transaction of its own."""
        return (await self.transact([(text, values)]))[0]

    async def transact(
        self, statements: Iterable[tuple[str, Sequence[Any]]], *, guarded: bool = False
    ) -> list[list[Any]]:
        """Runs several statements in one transaction; `guarded`: none of them if the first returns no row."""

        def work(connection: SqliteConnection) -> list[list[Any]]:
            return self._run_all(connection, statements, guarded)

        reads_only = all(text.lstrip()[:6].upper() in ("SELECT", "PRAGMA", "EXPLAI") for text, _ in statements)
        try:
            return await self._thread.call(work, atomic=guarded or not reads_only)
        except Undone:
            return []

    def _run_all(
        self, connection: SqliteConnection, statements: Iterable[tuple[str, Sequence[Any]]], guarded: bool
    ) -> list[list[Any]]:
        results: list[list[Any]] = []
        for text, values in statements:
            cursor = connection.execute(self._text(text), [for_sqlite(value) for value in values])
            names = [item[0] for item in cursor.description or ()]
            results.append([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
            if guarded and not results[0]:
                raise Undone
        return results

    async def try_out(self, _queue: Queue | None, lock: Numbered, trials: Sequence[TrialStatements]) -> Answers:
        """Tries statements on a row and rolls everything back; no answers if `lock` returns no row."""
        answers: Answers = {}

        def work(connection: SqliteConnection) -> None:
            if self._run_all(connection, [lock], guarded=False)[0]:
                self._try_all(connection, trials, answers)
            raise Undone

        with contextlib.suppress(Undone):
            await self._thread.try_out(work)
        return answers

    def _try_all(self, connection: SqliteConnection, trials: Sequence[TrialStatements], answers: Answers) -> None:
        for trial in trials:
            connection.execute("SAVEPOINT trial")
            try:
                answers[trial.name] = self._run_all(connection, trial.statements, guarded=False)[-1]
                self._try_all(connection, trial.then, answers)
            except sqlite3.Error as error:
                answers[trial.name] = translate_error(error, self.path, self._thread.deadline)
            if not connection.in_transaction:
                raise Undone  # RAISE(ROLLBACK) ended the transaction: later statements would be committed
            connection.execute("ROLLBACK TO trial")
            connection.execute("RELEASE trial")

    async def add_many(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Inserts rows in one transaction; workers see the file change."""
        names = ", ".join(map(sql.column, columns))
        marks = ", ".join("?" * len(columns))
        text = f"INSERT INTO {sql.name(table)} ({names}) VALUES ({marks})"
        stored = [[for_sqlite(value) for value in row] for row in rows]
        await self._thread.call(lambda connection: connection.executemany(text, stored), atomic=True)

    async def wake(self) -> None:
        """Does nothing: every commit changes `data_version`, which workers watch."""

    async def listen(self, ring: Callable[[str], None], pause: float) -> None:
        """Calls `ring` whenever another connection has committed, until cancelled; there is no payload.

        The database is queried only when its files have changed, which is far cheaper to check. File times are coarse,
        and late on a network file system: so it is also queried while a change is recent, and every ASK seconds.
        """
        last_version, files, asked_at = None, None, -math.inf
        while True:
            status = self._files()
            recent = status[0] > time.time_ns() - RECENT
            if status != files or recent or time.monotonic() - asked_at >= ASK:
                files, asked_at = status, time.monotonic()
                version = await self._thread.call(
                    lambda connection: connection.execute("PRAGMA data_version").fetchone()[0]
                )
                if last_version is not None and version != last_version:
                    ring("")
                last_version = version
            await asyncio.sleep(pause)

    def _files(self) -> tuple[int, ...]:
        """When the database or its log was last written, and how large they are."""
        times_and_sizes = []
        for path in (self.path, f"{self.path}-wal"):
            try:
                status = os.stat(path)
            except OSError:
                times_and_sizes.append((0, 0))
            else:
                times_and_sizes.append((status.st_mtime_ns, status.st_size))
        return max(at for at, _ in times_and_sizes), *(size for _, size in times_and_sizes)

    async def claim(self, bound: Bound, n: int, worker: str, limited: bool, terms: Terms | None = None) -> list[Job]:
        """Claims up to `n` rows in one immediate transaction."""
        queue = bound.queue
        condition, condition_values = terms.condition(bound, 1) if terms else ("", [])
        text, stored = (
            self._text(moves.claim(bound, condition, early=bool(terms and terms.early))),
            [for_sqlite(value) for value in condition_values],
        )
        insert, update = self._text(moves.insert_attempt(bound)), self._text(moves.start(bound))
        counting = self._text(moves.RUNNING)
        touched = bound.mirrors.get("updated_at")

        def work(connection: SqliteConnection) -> list[Job]:
            room = n
            if limited:
                running, live_limit = connection.execute(counting, [queue.name]).fetchone()
                limit = queue.limit if live_limit is None else live_limit
                room = n if limit is None else min(n, limit - running)
            if room <= 0:
                return []
            cursor = connection.execute(text, [room, *stored])
            names = [item[0] for item in cursor.description][8:]
            rows = cursor.fetchall()
            tokens = secrets.token_hex(16 * len(rows))
            jobs, attempts, starts = [], [], []
            for number, (text_key, n_th, attempt, crashes, deferrals, age, first_at, started_at, *values) in enumerate(
                rows
            ):
                token = tokens[number * 32 : number * 32 + 32]
                row = moves.apply_start(bound, dict(zip(names, values, strict=True)), worker, attempt, started_at)
                job = Job(
                    queue,
                    row[bound.key.name],
                    text_key,
                    row,
                    n=n_th,
                    token=token,
                    attempt=attempt,
                    crashes=crashes,
                    deferrals=deferrals,
                    age=age,
                    worker=worker,
                )
                jobs.append(job)
                attempts.append((text_key, n_th, token, attempt, crashes, deferrals, worker, first_at, queue.lease))
                starts.append((job.key, worker, attempt, started_at, *([row[touched]] if touched else [])))
            connection.executemany(insert, attempts)
            connection.executemany(update, starts)
            for job in jobs if terms else ():
                self._run_extras(connection, terms.extras(job))  # type: ignore[union-attr]
            failpoint("claim.pre_commit")
            return jobs

        jobs = await self._thread.call(work, atomic=True)
        failpoint("claim.post_commit")
        failpoint("claim.drop_ack")
        return jobs

    async def settle(self, bound: Bound, batch: Sequence[Settlement]) -> dict[str, str]:
        """Settles jobs of the same outcome and columns; returns the outcome of each key."""
        first = batch[0]
        columns = list(first.values)
        attempt = self._text(moves.settle_attempt(bound, first.outcome, first.expired_only))
        row_text = self._text(moves.settle_row(bound, first.outcome, columns))
        families = {column: bound.column(column).family for column in columns}
        also, guard_query = extras(first), guard(first)

        plain = (
            not columns
            and not first.needs_own_transaction
            and not first.expired_only
            and all(settlement.is_plain for settlement in batch)
        )
        plainly = [self._text(text) for text in moves.settle_plainly(bound, first.outcome)] if plain else []

        def all_plain(connection: SqliteConnection) -> bool:
            keys, tokens = (
                json_text([settlement.job.text_key for settlement in batch]),
                json_text([settlement.job.token for settlement in batch]),
            )
            connection.execute("SAVEPOINT plain")
            settled = connection.execute(plainly[0], [keys, tokens]).rowcount
            moved = connection.execute(plainly[1], [json_text([settlement.job.key for settlement in batch])]).rowcount
            if settled == moved == len(batch):
                return True
            # A claim was lost, or a row was changed by its owner: each must be settled by itself.
            connection.execute("ROLLBACK TO plain")
            return False

        counting = self._text(counts.add("sqlite"))

        def count(connection: SqliteConnection, settled: int, cost: float) -> None:
            if settled and counts.is_counted(first.outcome, bool(cost)):
                connection.execute(counting, [bound.queue.name, "", *counts.numbers(first.outcome, settled, cost)])

        def work(connection: SqliteConnection) -> dict[str, str]:
            if plain and all_plain(connection):
                count(connection, len(batch), 0.0)
                failpoint("settle.pre_commit")
                return {settlement.job.text_key: first.outcome for settlement in batch}
            results: dict[str, str] = {}
            cost = 0.0
            for settlement in batch:
                job = settlement.job
                settled = connection.execute(
                    attempt,
                    (
                        job.text_key,
                        job.n,
                        job.token,
                        settlement.error,
                        settlement.after,
                        job._note,
                        price(job.cost),
                        *settlement.serialize_error(),
                    ),
                ).rowcount
                if settled == 0:
                    continue
                moved = connection.execute(
                    row_text,
                    [
                        job.key,
                        settlement.error,
                        *(for_sqlite(settlement.values[column], families[column]) for column in columns),
                    ],
                ).rowcount
                results[job.text_key] = first.outcome if moved else "superseded"
                if not moved:
                    connection.execute(moves.SUPERSEDE, (bound.queue.name, job.text_key, job.n))
                else:
                    cost += price(job.cost) or 0.0
                    if guard_query:
                        self._run_all(connection, [guard_query], guarded=True)
                    self._run_extras(connection, also)
            count(connection, sum(outcome == first.outcome for outcome in results.values()), cost)
            failpoint("settle.pre_commit")
            return results

        try:
            results = await self._thread.call(work, atomic=True)
        except Undone:
            return {}
        failpoint("settle.post_commit")
        failpoint("settle.drop_ack")
        return results

    async def renew(self, bound: Bound, jobs: Sequence[Job]) -> dict[str, bool]:
        """Extends the leases that still hold; a key missing from the answer is not ours any more."""
        failpoint("renew.drop")
        extend, supersede = self._text(moves.renew(bound)), self._text(moves.supersede_unheld(bound))

        def work(connection: SqliteConnection) -> dict[str, bool]:
            results: dict[str, bool] = {}
            for job in jobs:
                values = (job.text_key, job.n, job.token, job._note, bound.queue.lease, job.key, job.note_form)
                if connection.execute(extend, values).rowcount:
                    results[job.text_key] = True
                elif connection.execute(supersede, values[:4]).rowcount:
                    results[job.text_key] = False
            return results

        return await self._thread.call(work, atomic=True)

    async def renew_mirrors(self, bound: Bound, jobs: Sequence[Job]) -> None:
        """Renews the times in the rows of claims that still hold."""
        text = self._text(moves.renew_mirrors(bound))
        values = [(job.text_key, job.n, job.token, job.key) for job in jobs]
        await self._thread.call(lambda connection: connection.executemany(text, values), atomic=True)

    async def amend(self, bound: Bound, job: Job, statements: Sequence[Numbered]) -> list[list[Any]] | None:
        """Renews one claim and runs statements with it, guarded; None: the claim was lost."""
        extend, supersede = self._text(moves.renew(bound)), self._text(moves.supersede_unheld(bound))

        def work(connection: SqliteConnection) -> list[list[Any]] | None:
            values = (job.text_key, job.n, job.token, job._note, bound.queue.lease, job.key, job.note_form)
            if connection.execute(extend, values).rowcount:
                return self._run_all(connection, statements, guarded=True)
            connection.execute(supersede, values[:4])
            return None

        try:
            return await self._thread.call(work, atomic=True)
        except Undone:
            return []

    def _run_extras(self, connection: SqliteConnection, also: Sequence[Numbered]) -> None:
        # Their texts are not cached: handlers may have written values into them.
        for statement, values in also:
            text = self._substitute_clock(sql.question_marks(statement))
            connection.execute(text, [for_sqlite(value) for value in values])

    async def table(self, name: str) -> Table | None:
        """The table as the file's schema describes it."""

        def work(connection: SqliteConnection) -> Table | None:
            return sqlite_catalog.describe(connection, name)

        return await self._thread.call(work)

    def _text(self, template: str) -> str:
        prepared = self._texts.get(template)
        if prepared is None:
            prepared = self._texts[template] = sql.question_marks(template)
        return self._substitute_clock(prepared)

    def _substitute_clock(self, prepared: str) -> str:
        clock = CLOCK["sqlite"] if self.clock is None else sql.instant(self.clock(), "sqlite")
        return prepared.replace(NOW, clock)


def _path(url: str) -> str:
    """The file a URL names: three slashes for a relative path, four for an absolute one."""
    rest = url.partition("://")[2]
    return rest[1:] if rest.startswith("/") else rest or ":memory:"
