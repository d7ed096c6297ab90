"""PostgreSQL: races, deadlines, wake-ups and errors, on real servers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import asyncpg
import pytest

from tabellion import Job, Queue, Store
from tabellion.engine.postgres.database import PostgreSQL
from tabellion.engine.postgres.errors import translate_error
from tabellion.engine.settlement import Settlement
from tabellion.errors import Busy, Forbidden, Full, NotMigrated, StoreError, Unreachable, ValueRefused
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases
from tests.engine.made_tables import asynchronous, attempts, outcomes, rows, run, tasks


class Race:
    """Workers that claim until a claim comes back empty, and record whether it should have been."""

    def __init__(self, queue: Queue, batch: int) -> None:
        self.queue, self.batch = queue, batch
        self.claimed: list[Job] = []
        self.missed: list[int] = []
        self._claiming: set[asyncio.Task[list[Job]]] = set()

    async def worker(self, store: Store, name: str) -> None:
        """Claim until there is nothing left."""
        while True:
            claim = asyncio.ensure_future(store.claim(self.queue, self.batch, name))
            self._claiming.add(claim)
            jobs = await claim
            self._claiming.discard(claim)
            self.claimed += jobs
            if not jobs:
                # Rows only ever leave `ready` here. One that is still ready once every claim that overlapped this one
                # has ended was ready, and not claimed, the whole time: the empty answer was wrong.
                if self._claiming:
                    await asyncio.wait(set(self._claiming))
                self.missed.append((await store.counts(self.queue))["ready"])
                return


@asynchronous
async def test_fifty_workers_race_for_ten_thousand_rows(empty_database: EmptyDatabases) -> None:
    """Each row is claimed once, and no claim comes back empty while rows are ready."""
    stores = [Store(empty_database("postgresql"), connections=1)]
    stores += [Store(stores[0].url, connections=1, deadline=60) for _ in range(49)]
    try:
        queue = await tasks(stores[0], 10_000)
        await stores[0].database.fetch((await stores[0].bind(queue)).index_ddl())
        race = Race(queue, batch=23)
        await asyncio.gather(*(race.worker(store, f"w{number}") for number, store in enumerate(stores)))
        assert sorted(job.key for job in race.claimed) == list(range(1, 10_001))
        assert len({job.token for job in race.claimed}) == 10_000
        assert race.missed == [0] * 50
        assert {row["status"] for row in await rows(stores[0])} == {"working"}
        [found] = await stores[0].database.fetch(
            "SELECT count(*) AS n, count(DISTINCT key) AS keys, max(n) AS most FROM tabellion_attempts"
        )
        assert (found["n"], found["keys"], found["most"]) == (10_000, 10_000, 1)
    finally:
        await asyncio.gather(*(store.close() for store in stores))


@asynchronous
async def test_the_fleet_wide_limit_holds_in_a_race(empty_database: EmptyDatabases) -> None:
    """With twenty workers and a limit of five there are never more than five live claims, and all rows get done."""
    stores = [Store(empty_database("postgresql"), connections=1)]
    stores += [Store(stores[0].url, connections=1, deadline=60) for _ in range(19)]
    most = 0
    try:
        queue = await tasks(stores[0], 120, limit=5)

        async def worker(store: Store) -> None:
            nonlocal most
            while (await store.counts(queue))["ready"]:
                jobs = await store.claim(queue, 3, "w")
                [live] = await store.database.fetch(
                    "SELECT count(*) AS n FROM tabellion_attempts WHERE settled_at IS NULL"
                )
                most = max(most, live["n"])
                await store.settle([Settlement(job, "done") for job in jobs])

        await asyncio.gather(*map(worker, stores))
        assert most <= 5
        assert most > 1, "the race never filled the limit, so it showed nothing"
        assert await outcomes(stores[0]) == ["done"] * 120
    finally:
        await asyncio.gather(*(store.close() for store in stores))


@asynchronous
async def test_claims_race_with_releases(empty_database: EmptyDatabases) -> None:
    """Rows released while others claim never have two owners, and every attempt has its own number."""
    stores = [Store(empty_database("postgresql"), connections=1)]
    stores += [Store(stores[0].url, connections=1, deadline=60) for _ in range(9)]
    dice = random.Random(7)
    try:
        queue = await tasks(stores[0], 30)

        async def worker(store: Store) -> None:
            for _ in range(30):
                jobs = await store.claim(queue, 5, "w")
                endings = [Settlement(job, dice.choice(["released", "retried", "limited"]), after=0.0) for job in jobs]
                verdicts = await store.settle(endings)
                assert all(verdict.is_accepted for verdict in verdicts)

        await asyncio.gather(*map(worker, stores))
        by_key: dict[str, list[int]] = {}
        for attempt in await attempts(stores[0]):
            by_key.setdefault(attempt["key"], []).append(attempt["n"])
        assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_key.values())
        assert len(await stores[0].claim(queue, 99, "w")) == 30
    finally:
        await asyncio.gather(*(store.close() for store in stores))


@asynchronous
async def test_settling_renewing_and_sweeping_the_same_jobs_race(empty_database: EmptyDatabases, clock: Clock) -> None:
    """The first one wins; there is no deadlock, and each claim has one ending."""
    stores = [Store(empty_database("postgresql"), clock=clock, deadline=60)]
    stores += [Store(stores[0].url, clock=clock, deadline=60) for _ in range(5)]
    dice = random.Random(11)
    try:
        queue = await tasks(stores[0], 150, lease=60, max_attempts=99)
        for other in stores:
            await other.bind(queue)
        for _ in range(6):
            jobs = await stores[0].claim(queue, 150, "w")
            clock.advance(61)

            def shuffled(jobs: list[Job]) -> list[Job]:
                return dice.sample(jobs, len(jobs))

            settling = [
                asyncio.create_task(
                    stores[0].settle([Settlement(job, "done", {"result": "a"}) for job in shuffled(jobs)])
                ),
                asyncio.create_task(stores[1].settle([Settlement(job, "retried", after=0) for job in shuffled(jobs)])),
                asyncio.create_task(stores[2].settle([Settlement(job, "released") for job in shuffled(jobs)])),
            ]
            others = [stores[3].renew(shuffled(jobs)), stores[4].sweep(queue), stores[5].sweep(queue)]
            await asyncio.gather(*settling, *others)
            assert None not in await outcomes(stores[0])
            accepted = Counter(verdict.job.key for task in settling for verdict in task.result() if verdict.is_accepted)
            assert set(accepted.values()) <= {1}
            await run(stores[0], "DELETE FROM tabellion_attempts", "UPDATE tasks SET status = 'new'")
    finally:
        await asyncio.gather(*(store.close() for store in stores))


# -- the connection ----------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_pooler_is_recognised(empty_database: EmptyDatabases) -> None:
    """Behind a pooler no session state is used; on a direct connection statements are prepared once."""
    for kind, pooled in (("postgresql", False), ("pooled", True)):
        async with Store(empty_database(kind)) as store:
            assert store.database.pooled is pooled


@asynchronous
async def test_moves_may_not_scan_whole_tables(pg_store: Store) -> None:
    """The connections of the moves allow index scans only; queries of the owner are planned freely."""
    await pg_store.open()
    database = pg_store.database
    assert isinstance(database, PostgreSQL)
    for pinned, expected in ((True, "off"), (False, "on")):
        async with database.connection(pinned=pinned) as connection:
            assert await connection.fetchval("SHOW enable_seqscan") == expected


@asynchronous
async def test_a_connection_is_switched_rather_than_opened(empty_database: EmptyDatabases) -> None:
    """At the connection limit, moves and queries take turns on one connection, each with its planner settings."""
    store = Store(empty_database("postgresql"), connections=1)
    try:
        await store.open()
        database = store.database
        assert isinstance(database, PostgreSQL)
        seen = set()
        for pinned in (True, False, True, False):
            async with database.connection(pinned=pinned) as connection:
                seen.add(await connection.fetchval("SELECT pg_backend_pid()"))
                for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                    assert await connection.fetchval(f"SHOW {setting}") == ("off" if pinned else "on")
        assert len(seen) == 1
    finally:
        await store.close()


@asynchronous
async def test_every_call_has_a_deadline(empty_database: EmptyDatabases) -> None:
    """A statement that does not return is abandoned along with its connection; the next call works."""
    store = Store(empty_database("postgresql"), deadline=1.5)
    try:
        await store.database.open()
        with pytest.raises(Unreachable, match=r"within 1\.5 s"):
            await store.database.fetch("SELECT pg_sleep(30)")
        assert await store.database.fetch("SELECT 1 AS one") == [{"one": 1}]
    finally:
        await store.close()


@asynchronous
async def test_a_cut_connection_is_replaced(pg_store: Store) -> None:
    """A connection closed by the server costs one call at most."""
    queue = await tasks(pg_store, 2)
    await pg_store.claim(queue, 1, "w")
    other = await asyncpg.connect(pg_store.url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'tabellion'"
    )
    await other.close()
    for _ in range(3):
        try:
            assert len(await pg_store.claim(queue, 1, "w")) == 1
            break
        except Unreachable:
            continue
    else:
        pytest.fail("never came back")


@asynchronous
async def test_an_insert_notifies_listeners(empty_database: EmptyDatabases) -> None:
    """`add_many`, `add` and `wake` notify every listener."""
    async with Store(empty_database("postgresql")) as store:
        queue = await tasks(store)
        rung = asyncio.Event()
        listening = asyncio.create_task(store.database.listen(lambda _: rung.set(), 0))
        try:
            for adding in (True, False):
                rung.clear()
                async with asyncio.timeout(20):
                    while not rung.is_set():  # the first may come before LISTEN is through
                        await (store.add(queue, id=1) if adding else store.database.wake())
                        await run(store, "DELETE FROM tasks")
                        await asyncio.sleep(0.01)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


@asynchronous
async def test_listening_behind_a_pooler_returns(empty_database: EmptyDatabases) -> None:
    """A pooler has no LISTEN, so the worker polls instead."""
    async with Store(empty_database("pooled")) as store:
        async with asyncio.timeout(20):
            await store.database.listen(lambda _: None, 0)


@asynchronous
async def test_concurrent_calls_share_few_connections(empty_database: EmptyDatabases) -> None:
    """A hundred calls at once open no more connections than allowed."""
    store = Store(empty_database("postgresql"), connections=3)
    try:
        queue = await tasks(store, 100)
        await asyncio.gather(*(store.claim(queue, 1, "w") for _ in range(100)))
        [found] = await store.database.fetch(
            "SELECT count(*) AS n FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'tabellion'"
        )
        assert found["n"] <= 6  # three for the moves, three for the rest
        assert (await store.counts(queue))["running"] == 100
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (asyncpg.ConnectionDoesNotExistError("x"), Unreachable),
        (asyncpg.CannotConnectNowError("x"), Unreachable),
        (asyncpg.TooManyConnectionsError("x"), Unreachable),
        (asyncpg.AdminShutdownError("x"), Unreachable),
        (asyncpg.ReadOnlySQLTransactionError("x"), Unreachable),
        (asyncpg.SerializationError("x"), Busy),
        (asyncpg.DeadlockDetectedError("x"), Busy),
        (asyncpg.DiskFullError("x"), Full),
        (asyncpg.LockNotAvailableError("x"), Busy),
        (asyncpg.InterfaceError("x"), Unreachable),
        (asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"), Unreachable),
        (ConnectionRefusedError("x"), Unreachable),
        (TimeoutError(), Unreachable),
        (asyncpg.UniqueViolationError("x"), ValueRefused),
        (asyncpg.CheckViolationError("x"), ValueRefused),
        (asyncpg.StringDataRightTruncationError("x"), ValueRefused),
        (asyncpg.DataError("x"), ValueRefused),
        (asyncpg.UntranslatableCharacterError("x"), ValueRefused),
        (asyncpg.InsufficientPrivilegeError("x"), Forbidden),
        (asyncpg.UndefinedTableError('relation "tabellion_attempts" does not exist'), NotMigrated),
        (asyncpg.UndefinedTableError('relation "pages" does not exist'), StoreError),
        (asyncpg.PostgresSyntaxError("x"), StoreError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_database_errors_become_ours(error: Exception, expected: type[Exception]) -> None:
    """Temporary errors are distinguished from permanent ones."""
    assert type(translate_error(error, 10)) is expected


@pytest.mark.parametrize(
    ("raised_in", "by_policy"), [("ExecWithCheckOptions", True), ("check_enable_rls", True), ("aclcheck_error", False)]
)
def test_a_policy_is_told_from_a_missing_right(raised_in: str, by_policy: bool) -> None:
    """Both have one SQLSTATE, and the server may speak another language."""
    fields = {"C": "42501", "M": "la nouvelle ligne viole la politique de sécurité", "R": raised_in}
    error = translate_error(asyncpg.PostgresError.new(fields), 10)
    assert isinstance(error, Forbidden)
    assert error.by_policy is by_policy
