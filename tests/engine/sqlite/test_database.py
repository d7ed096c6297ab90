"""SQLite: races, durability, wake-ups and errors, on real files."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tabellion import Job, Store
from tabellion.engine.settlement import Settlement
from tabellion.engine.sqlite.connection_thread import translate_error
from tabellion.engine.sqlite.database import SQLite
from tabellion.errors import NotMigrated, StoreError, Unreachable, ValueRefused
from tests.engine.made_tables import asynchronous, attempts, claim_one, outcomes, row, rows, run, tasks, tasks_queue


def in_threads(url: str, n: int, work: Callable[[Store, int], Awaitable[Any]]) -> list[Any]:
    """Run `work` in n threads at once, each with its own store and event loop; its exceptions are raised here."""
    results: list[Any] = [None] * n
    failures: list[BaseException] = []
    start = threading.Barrier(n)

    def run_one(number: int) -> None:
        async def main() -> Any:
            async with Store(url, deadline=60) as store:
                return await work(store, number)

        start.wait()
        try:
            results[number] = asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run_one, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


async def _prepare(url: str, n: int, **options: Any) -> None:
    async with Store(url) as store:
        await tasks(store, n, **options)


def test_eight_workers_race_for_their_rows(sqlite_url: str) -> None:
    """Each row is claimed once, and no claim comes back empty while rows are ready."""
    asyncio.run(_prepare(sqlite_url, 2000))

    async def work(store: Store, number: int) -> tuple[list[Job], int]:
        queue, claimed = tasks_queue(), []
        while jobs := await store.claim(queue, 17, f"w{number}"):
            claimed += jobs
        # Claims come one after the other here, and rows only ever leave `ready`: empty means that none was left.
        return claimed, (await store.counts(queue))["ready"]

    results = in_threads(sqlite_url, 8, work)
    keys = [job.key for jobs, _ in results for job in jobs]
    assert sorted(keys) == list(range(1, 2001))
    assert [left for _, left in results] == [0] * 8


def test_the_fleet_wide_limit_holds_in_a_race(sqlite_url: str) -> None:
    """With six workers and a limit of three there are never more than three live claims, and all rows get done."""
    asyncio.run(_prepare(sqlite_url, 60))

    async def work(store: Store, number: int) -> int:
        queue, most = tasks_queue(limit=3), 0
        while (await store.counts(queue))["ready"]:
            jobs = await store.claim(queue, 2, f"w{number}")
            [live] = await store.database.fetch("SELECT count(*) AS n FROM tabellion_attempts WHERE settled_at IS NULL")
            most = max(most, live["n"])
            await store.settle([Settlement(job, "done") for job in jobs])
        return most

    assert max(in_threads(sqlite_url, 6, work)) <= 3

    async def check() -> None:
        async with Store(sqlite_url) as store:
            assert await outcomes(store) == ["done"] * 60

    asyncio.run(check())


def test_all_moves_race(sqlite_url: str) -> None:
    """Claims, endings, renewals and sweeps from several threads: every attempt has its own number and one ending."""
    asyncio.run(_prepare(sqlite_url, 20))

    async def work(store: Store, number: int) -> None:
        queue, dice = tasks_queue(max_attempts=999), random.Random(number)
        for _ in range(15):
            jobs = await store.claim(queue, 4, f"w{number}")
            assert await store.renew(jobs) == []
            await store.sweep(queue)
            endings = [Settlement(job, dice.choice(["released", "retried", "limited"]), after=0.0) for job in jobs]
            assert all(verdict.is_accepted for verdict in await store.settle(endings))

    in_threads(sqlite_url, 5, work)

    async def check() -> None:
        async with Store(sqlite_url) as store:
            by_key: dict[str, list[int]] = {}
            for attempt in await attempts(store):
                assert attempt["outcome"] is not None
                by_key.setdefault(attempt["key"], []).append(attempt["n"])
            assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_key.values())
            assert len(await rows(store)) == 20

    asyncio.run(check())


# -- the file ----------------------------------------------------------------------------------------------------------


@asynchronous
async def test_the_file_is_durable(sqlite_store: Store) -> None:
    """WAL mode, a sync at every commit and enforced foreign keys are set."""
    await sqlite_store.open()
    answers = [
        (await sqlite_store.database.fetch(f"PRAGMA {pragma}"))[0][pragma]
        for pragma in ("journal_mode", "synchronous", "foreign_keys")
    ]
    assert answers == ["wal", 2, 1]


@asynchronous
async def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    """Four slashes are an absolute path and three a relative one."""
    async with Store(f"sqlite:///{tmp_path}/a/b/work.db") as store:
        await tasks(store, 1)
    assert (tmp_path / "a" / "b" / "work.db").exists()
    assert SQLite("sqlite:////tmp/x.db", deadline=1).path == "/tmp/x.db"
    assert SQLite("sqlite:///x.db", deadline=1).path == "x.db"


@asynchronous
async def test_only_its_owner_may_read_a_new_file(tmp_path: Path) -> None:
    """This includes the files SQLite writes beside it; the mode of an existing file is left alone."""
    (tmp_path / "there.db").touch(0o640)
    for name, mode in (("new.db", 0o600), ("there.db", 0o640)):
        async with Store(f"sqlite:///{tmp_path}/{name}") as store:
            await tasks(store, 1)
            found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{name}*")}
            assert found == {name: mode, f"{name}-wal": mode, f"{name}-shm": mode}


@asynchronous
async def test_a_database_in_memory(clock: Any) -> None:
    """Useful for a trial: everything works and nothing is kept."""
    async with Store("sqlite://", clock=clock) as store:
        queue = await tasks(store, 1)
        await store.finish(await claim_one(store, queue), {"result": "x"})
        assert (await row(store))["result"] == "x"


@asynchronous
async def test_closing_ends_the_thread(sqlite_store: Store) -> None:
    """No thread is left behind, and closing twice is harmless."""

    def threads() -> list[threading.Thread]:
        path = sqlite_store.url.removeprefix("sqlite:///")
        return [thread for thread in threading.enumerate() if path in thread.name]

    await sqlite_store.open()
    [thread] = threads()
    await sqlite_store.close()
    thread.join(10)
    assert threads() == []
    await sqlite_store.close()


@asynchronous
async def test_a_locked_file_is_reported_as_busy(sqlite_store: Store) -> None:
    """A file locked by another process is waited for, then reported as busy; the next call works."""
    queue = await tasks(sqlite_store, 1)
    await sqlite_store.close()
    path = sqlite_store.url.removeprefix("sqlite:///")
    impatient = Store(sqlite_store.url, deadline=0.2)
    holder = sqlite3.connect(path, isolation_level=None)
    try:
        await impatient.open()
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unreachable, match="busy"):
            await impatient.claim(queue, 1, "w")
        holder.execute("ROLLBACK")
        assert len(await impatient.claim(queue, 1, "w")) == 1
    finally:
        holder.close()
        await impatient.close()


@asynchronous
async def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    """It is left as it was."""
    (tmp_path / "work.db").write_bytes(b"not a database, " * 100)
    store = Store(f"sqlite:///{tmp_path}/work.db")
    with pytest.raises(StoreError):
        await store.open()
    await store.close()
    assert (tmp_path / "work.db").read_bytes() == b"not a database, " * 100


@asynchronous
async def test_a_failed_transaction_leaves_nothing(sqlite_store: Store) -> None:
    """Statements before the failing one are rolled back, and the connection stays usable."""
    await tasks(sqlite_store)
    with pytest.raises(StoreError):
        await run(sqlite_store, "INSERT INTO tasks (id) VALUES (1)", "INSERT INTO tasks (id) VALUES (1)")
    assert await rows(sqlite_store) == []
    await run(sqlite_store, "INSERT INTO tasks (id) VALUES (1)")


@asynchronous
async def test_a_commit_by_another_connection_notifies_listeners(sqlite_store: Store) -> None:
    """A commit of another connection wakes every listener."""
    await tasks(sqlite_store)
    rung = asyncio.Event()
    listening = asyncio.create_task(sqlite_store.database.listen(lambda _: rung.set(), 0.001))
    other = sqlite3.connect(sqlite_store.url.removeprefix("sqlite:///"))
    try:
        async with asyncio.timeout(20):
            number = 0
            while not rung.is_set():  # the first commits may come before it looks for the first time
                number += 1
                other.execute("INSERT INTO tasks (id) VALUES (?)", [number])
                other.commit()
                await asyncio.sleep(0.005)
    finally:
        other.close()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _raised(statement: str) -> sqlite3.Error:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n < 5))")
        connection.execute(statement)
    except sqlite3.Error as error:
        return error
    finally:
        connection.close()
    raise AssertionError(statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO t (n) VALUES (9)", ValueRefused),
        ("SELECT * FROM tabellion_attempts", NotMigrated),
        ("SELECT * FROM nowhere", StoreError),
        ("SELECT full_name FROM t", StoreError),
        ("SELECT locked FROM t", StoreError),
        ("SELECT busy FROM t", StoreError),
        ("SELECT disk FROM t", StoreError),
        ("SELECT * FROM readonly_things", StoreError),
        ("SELECT syntax error", StoreError),
    ],
)
def test_database_errors_become_ours(statement: str, expected: type[Exception]) -> None:
    """A word in a column's name does not make a programming error look like an outage."""
    assert type(translate_error(_raised(statement), "work.db", 1)) is expected


def test_a_file_nobody_writes_is_polled_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle worker looks at the file's times; a commit still wakes it."""
    path = tmp_path / "quiet.db"
    owner = sqlite3.connect(path, isolation_level=None)
    owner.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    looks, rings = 0, 0
    look = SQLite._files

    def counted(database: SQLite) -> tuple[int, ...]:
        nonlocal looks
        looks += 1
        return look(database)

    def ring(_: str) -> None:
        nonlocal rings
        rings += 1

    monkeypatch.setattr(SQLite, "_files", counted)

    async def go() -> None:
        nonlocal looks
        database = SQLite(f"sqlite:///{path}", deadline=10)
        asked: list[str] = []
        await database._thread.call(lambda connection: connection.set_trace_callback(asked.append))
        listening = asyncio.create_task(database.listen(ring, 0.0005))
        try:
            await asyncio.sleep(0.05)  # until the owner's writing is not recent any more
            looks, before = 0, len(asked)
            while looks < 500:
                await asyncio.sleep(0.001)
            assert len(asked) - before < 100
            for number in range(5):
                rings_before = rings
                owner.execute("UPDATE t SET a = ?", (number,))
                while rings == rings_before:
                    await asyncio.sleep(0.001)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await database.close()

    asyncio.run(go())
    owner.close()
