"""The reconciler: as many hints as due rows need, again after a loss, and none where nothing may be claimed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from tabellion import Environment, Event, Job, Store
from tabellion.engine import controls
from tabellion.engine.celery.broker import Broker
from tabellion.engine.celery.reconciler import MOST, Reconciler
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.heartbeat import WorkerRecord
from tests import brokers
from tests.engine.celery.test_broker import app_at
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import ask, working

GONE = 4_000_000  # more than any process number
QUEUES = {
    "jobs": jobs_queue("jobs", ready={"status": "new", "size": 0}),
    "limited": jobs_queue("limited", ready={"status": "new", "size": 1}, limit=15),
    "gated": jobs_queue("gated", ready={"status": "new", "size": 2}, uses="upstream"),
    "single": jobs_queue("single", ready={"status": "new", "size": 3}, concurrency=1, lease=60),
}
CLOSING = GateSettings(threshold=1, recovery=3600.0, rate=100)


async def work(job: Job) -> None:
    """Never called: nothing is claimed here."""


for _queue in QUEUES.values():
    _queue.handler(work)


class Running:
    """A reconciler on a database and a broker, with what it emitted."""

    def __init__(self, url: str, server: brokers.Broker) -> None:
        self.events: list[Event] = []
        self.looking = Broker(app_at(server.url, *QUEUES))
        self.reconciler = Reconciler(
            [Environment("prod", url)], list(QUEUES.values()), broker=Broker(app_at(server.url, *QUEUES)),
            node="test-node", capacity=100, poll=0.1, listeners=[self.events.append], gates={"upstream": CLOSING},
        )  # fmt: skip

    def waiting(self) -> dict[str, int]:
        """How many hints wait in each queue."""
        return {name: self.looking.count_waiting("prod", name) for name in QUEUES}

    def has_told(self, name: str) -> bool:
        """Whether it emitted this event."""
        return any(event.name == name for event in self.events)


@pytest.fixture
def running(url: str, valkey_broker: brokers.Broker) -> Iterator[tuple[Running, Owner]]:
    """A running reconciler, and the owner of the table."""
    valkey_broker.flush()
    with owning(url) as owner:
        one = Running(url, valkey_broker)
        with working(one.reconciler):
            yield one, owner
        one.looking.close()


def insert(owner: Owner, size: int, count: int) -> None:
    """Insert rows."""
    first = int(owner("SELECT coalesce(max(id), 0) AS n FROM jobs")[0]["n"])
    for key in range(first + 1, first + count + 1):
        owner("INSERT INTO jobs (id, size) VALUES ($1, $2)", key, size)


def test_hints_follow_due_rows(running: tuple[Running, Owner], valkey_broker: brokers.Broker) -> None:
    """One for ten rows; within a limit; one at a time before a gate; after FLUSHALL they are sent again."""
    one, owner = running
    for size, count in ((0, 25), (1, 30), (2, 20), (3, 3)):
        insert(owner, size, count)
    expected = {"jobs": 3, "limited": 2, "gated": 1, "single": 3}
    eventually(lambda: all(one.waiting()[name] >= count for name, count in expected.items()))
    valkey_broker.flush()
    eventually(lambda: all(one.waiting()[name] >= count for name, count in expected.items()))
    assert all(waiting <= MOST for waiting in one.waiting().values())
    assert owner("SELECT 1 FROM tabellion_workers") == []  # it is not a worker that could claim


def test_nothing_is_sent_for_a_paused_queue(running: tuple[Running, Owner], url: str) -> None:
    """Its rows get hints when it is resumed."""
    one, owner = running

    async def pause(store: Store) -> None:
        await controls.pause(store, QUEUES["jobs"], "for a test")

    async def resume(store: Store) -> None:
        await controls.resume(store, QUEUES["jobs"])

    ask(url, pause)
    insert(owner, 0, 5)
    insert(owner, 3, 1)
    eventually(lambda: one.waiting()["single"])
    assert one.waiting()["jobs"] == 0
    ask(url, resume)
    eventually(lambda: one.waiting()["jobs"])


def test_nothing_is_sent_before_a_closed_gate(running: tuple[Running, Owner], url: str) -> None:
    """While the gate is closed for the fleet its queues get no hints, which would find nothing to claim."""
    one, owner = running

    async def close(store: Store) -> None:
        await GateRow(store, "upstream", CLOSING).turn(CallOutcomes(failed=1, why="told to fail"), 0)

    async def reopen(store: Store) -> None:
        await GateRow(store, "upstream", CLOSING).edit({}, reset=True)

    ask(url, close)
    insert(owner, 2, 5)
    insert(owner, 3, 1)
    eventually(lambda: one.waiting()["single"] >= 3)  # one a second, as nobody fetches them
    assert one.waiting()["gated"] == 0
    ask(url, reopen)
    eventually(lambda: one.waiting()["gated"] == 1)


def test_rows_that_nobody_can_claim_get_fewer_hints(
    running: tuple[Running, Owner], valkey_broker: brokers.Broker
) -> None:
    """Hints for the same row of a queue with a gate are sent with longer pauses, whatever happened to the last one."""
    one, owner = running
    insert(owner, 2, 1)
    insert(owner, 3, 1)
    sent = 0
    for _ in range(4):
        eventually(lambda: one.waiting()["single"])
        sent += one.waiting()["gated"]
        valkey_broker.flush()
    assert sent <= 3


def test_a_broker_that_comes_back_gets_the_hints(running: tuple[Running, Owner], valkey_broker: brokers.Broker) -> None:
    """While it is away that is said once; the rows that came meanwhile get their hints."""
    one, owner = running
    insert(owner, 0, 1)
    eventually(lambda: one.waiting()["jobs"])
    valkey_broker.kill()
    try:
        insert(owner, 3, 2)
        eventually(lambda: one.has_told("broker_down"))
        assert one.reconciler.broker_up is False
    finally:
        valkey_broker.start()
    eventually(lambda: one.has_told("broker_up"))
    assert one.reconciler.broker_up is True
    with contextlib.suppress(Exception):
        one.looking.close()
    eventually(lambda: one.waiting()["single"] >= 2)
    assert sum(event.name == "broker_down" for event in one.events) == 1


def test_leases_of_a_killed_process_of_the_node_end(running: tuple[Running, Owner], url: str) -> None:
    """A claim of a worker whose process is gone is ready again at once; one of another node waits for its lease."""
    _, owner = running
    insert(owner, 3, 2)

    async def claim(store: Store) -> None:
        for number, worker in enumerate(("celery-test-node-1", "celery-other-2")):
            # The reconciler releases the first row meanwhile: a claim that meets it may come back empty.
            while not await store.claim(QUEUES["single"], 1, worker):
                await asyncio.sleep(0.01)
            # Last: a worker that is listed without a claim is recorded as killed at once, and only once.
            record = WorkerRecord(worker, socket.gethostname(), GONE - number, worker, "0", "single", 1)
            await heartbeat.enlist(store, record)

    ask(url, claim)
    ended = "SELECT worker FROM tabellion_attempts WHERE outcome = 'crashed'"
    eventually(lambda: owner(ended))
    assert [row["worker"] for row in owner(ended)] == ["celery-test-node-1"]
