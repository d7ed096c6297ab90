"""One SQLite connection in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from tabellion.errors import Full, NotMigrated, StoreError, TableRule, Unreachable, ValueRefused

Result = TypeVar("Result")
SqliteConnection = sqlite3.Connection


class _Call(Generic[Result]):
    """A function to call with the connection, and the future that waits for its result."""

    def __init__(
        self, work: Callable[[SqliteConnection], Result] | None, atomic: bool, future: asyncio.Future[Result]
    ) -> None:
        self.work = work  #: None: the last call, which closes the connection
        self.atomic = atomic
        self.future = future
        self.result: Result | None = None
        self.error: BaseException | None = None

    def deliver(self) -> None:
        """Hands the result or the error to the event loop that waits for it."""
        # Nothing waits in a loop that has been closed.
        with contextlib.suppress(RuntimeError):
            self.future.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


class ConnectionThread:
    """A connection that only its own thread uses, so that a transaction never waits for an event loop.

    `close` ends the thread and closes its connection; a later call starts a new thread with a new connection.
    """

    def __init__(self, path: str, deadline: float, durable: bool = True, read_only: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        self.deadline = deadline
        self._synchronous = "FULL" if durable else "NORMAL"
        self._calls: queue.SimpleQueue[_Call[Any]] | None = None

    async def call(self, work: Callable[[SqliteConnection], Result], *, atomic: bool = False) -> Result:
        """Runs `work` in the thread; `atomic`: in an immediate transaction, all of it or nothing."""
        if self._calls is None:
            self._calls = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._calls,), name=f"sqlite {self.path}", daemon=True).start()
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._calls.put(_Call(work, atomic, future))
        return await future

    async def try_out(self, work: Callable[[SqliteConnection], Result]) -> Result:
        """Runs `work`, which rolls back its changes, in an immediate transaction; also for a read-only connection."""
        if not self._read_only or self.path == ":memory:":
            return await self.call(work, atomic=True)
        return await self.call(lambda _: self._try_beside(work))

    async def close(self) -> None:
        """Closes the connection after the calls that are already queued, and ends the thread."""
        calls, self._calls = self._calls, None
        if calls is not None:
            closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            calls.put(_Call(None, False, closed))
            await closed

    def _serve(self, calls: queue.SimpleQueue[_Call[Any]]) -> None:
        connection: SqliteConnection | None = None
        while True:
            call = calls.get()
            if call.work is None:
                if connection is not None:
                    connection.close()
                call.deliver()
                return
            try:
                connection = connection or self._connect()
                call.result = _transaction(connection, call.work) if call.atomic else call.work(connection)
            except BaseException as error:
                call.error = self._translate_error(error)
                if connection is not None and isinstance(call.error, Unreachable) and not is_busy(error):
                    # After an I/O error the state of this connection cannot be trusted.
                    connection.close()
                    connection = None
            call.deliver()

    def _connect(self) -> SqliteConnection:
        if self._read_only and self.path != ":memory:":
            return self._connect_to_read()
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            _create_private(self.path)
        connection = sqlite3.connect(self.path, timeout=self.deadline, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("journal_mode = WAL", f"synchronous = {self._synchronous}", "foreign_keys = ON"):
                self._set(connection, setting)
            # PostgreSQL has this built in: hash chains are computed in SQL, where the previous row is read.
            connection.create_function("sha256_hex", 1, _sha256_hex, deterministic=True)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _connect_to_read(self) -> SqliteConnection:
        """Connects without creating a file, changing the journal mode or being able to write.

        The only reader of a file in WAL mode leaves an empty `-wal` behind, which SQLite removes if the connection may
        write. If there is a `-wal` already, such a connection would write its content into the file.
        """
        connection = self._open_existing("ro" if Path(f"{self.path}-wal").exists() else "rw")
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _try_beside(self, work: Callable[[SqliteConnection], Result]) -> Result:
        """Runs `work` on a writable connection and closes it before ours: the last one to close merges a `-wal`."""
        with contextlib.closing(self._open_existing("rw")) as writer:
            for setting in ("cache_spill = OFF", "foreign_keys = ON"):  # so that no page is written before the rollback
                self._set(writer, setting)
            return _transaction(writer, work)

    def _open_existing(self, mode: str) -> SqliteConnection:
        address = f"{Path(self.path).absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(address, uri=True, timeout=self.deadline, isolation_level=None, check_same_thread=False)

    def _set(self, connection: SqliteConnection, setting: str) -> None:
        """Applies a setting; SQLite does not wait for another process that is switching to WAL, so we retry."""
        until = time.monotonic() + self.deadline
        while True:
            try:
                connection.execute(f"PRAGMA {setting}")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def _translate_error(self, error: BaseException) -> BaseException:
        """The driver's exception as one of ours."""
        if isinstance(error, OverflowError | UnicodeEncodeError):
            return ValueRefused(str(error))
        if not isinstance(error, sqlite3.Error):
            return Unreachable(f"{self.path}: {error}") if isinstance(error, OSError) else error
        mapped = translate_error(error, self.path, self.deadline)
        mapped.__cause__ = error
        return mapped


def _sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_creating = threading.Lock()


def _create_private(path: str) -> None:
    """Creates a missing file with rights for its owner only; SQLite gives the files beside it the same rights.

    One at a time, before the file is opened: closing a file releases every lock that this process has on it.
    """
    with _creating, contextlib.suppress(OSError):  # SQLite's own error is clearer
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _transaction(connection: SqliteConnection, work: Callable[[SqliteConnection], Result]) -> Result:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def is_busy(error: BaseException) -> bool:
    """Whether another process holds the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


_RULES: dict[str, TableRule] = {
    "SQLITE_CONSTRAINT_CHECK": "check",
    "SQLITE_CONSTRAINT_UNIQUE": "unique",
    "SQLITE_CONSTRAINT_PRIMARYKEY": "unique",
    "SQLITE_CONSTRAINT_FOREIGNKEY": "reference",
    "SQLITE_CONSTRAINT_NOTNULL": "null",
    "SQLITE_CONSTRAINT_TRIGGER": "trigger",
}


def translate_error(error: sqlite3.Error, path: str, deadline: float) -> StoreError:
    """The driver's exception as one of ours, with the rule of the table that was violated."""
    ours = _classify_error(error, path, deadline)
    ours.rule = _RULES.get(getattr(error, "sqlite_errorname", ""), "")
    if ours.rule == "check":
        ours.constraint = str(error).partition("failed: ")[2]
    return ours


def _classify_error(error: sqlite3.Error, path: str, deadline: float) -> StoreError:
    text = str(error)
    if isinstance(error, sqlite3.OperationalError):
        if "no such table: tabellion_" in text:
            return NotMigrated(f"{text}: run `tabellion migrate`")
        if is_busy(error):
            return Unreachable(f"{path} is busy: another process has held it for more than {deadline:g} s")
        if _code(error) == sqlite3.SQLITE_FULL:
            return Full(f"{path}: {text}")
        if _code(error) in _AWAY:
            return Unreachable(f"{path}: {text}")
        return StoreError(f"{path}: {text}")
    if isinstance(
        error, sqlite3.IntegrityError | sqlite3.InterfaceError | sqlite3.DataError | sqlite3.ProgrammingError
    ):
        return ValueRefused(text)
    return StoreError(f"{path}: {text}")


_AWAY = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
