"""A gate in one process: callers wait for slots, a closed gate refuses them, results are reported to the fleet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tabellion import Job, Store, Worker
from tabellion.engine.context import OpenContext
from tabellion.engine.environment import Environment
from tabellion.engine.gates import gate as gate_module
from tabellion.engine.gates.adaptive import Adaptive
from tabellion.engine.gates.gate import Gate
from tabellion.engine.gates.limiter import BURST
from tabellion.engine.gates.open_gates import OpenGates
from tabellion.engine.gates.passes import Slot
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings, ThrottledCall, TurnResult
from tabellion.errors import GateClosed, Unreachable
from tests.engine.made_tables import asynchronous
from tests.table_owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.workers import EventRecorder, Gauge, make_worker, working

FAST = GateSettings(rate=500, min_rate=500, max_rate=500)


@asynccontextmanager
async def opened(url: str, settings: GateSettings = FAST) -> AsyncIterator[OpenGates]:
    gates = OpenGates(url, {"gemini": settings})
    try:
        yield gates
    finally:
        await gates.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.01)


@asynchronous
async def test_callers_are_admitted_no_faster_than_the_rate(url: str) -> None:
    """Twenty calls at 50 per second take up the rest of twenty intervals, and each call is counted."""
    async with opened(url, GateSettings(rate=50, min_rate=50, max_rate=50)) as gates:
        gate = gates.get_gate("gemini")
        async with Store(url) as store:
            began = await store.now()

        async def call() -> None:
            (await gate.admit()).record_success(0.01)

        await asyncio.gather(*(call() for _ in range(20)))
    async with Store(url) as store:
        state, _ = await GateRow(store, "gemini", FAST).read()
        assert isinstance(state.limiter, Adaptive)
        assert state.limiter.next_at - began >= 20 / 50 - BURST - 0.001
        assert state.calls == 20
        assert state.spent == pytest.approx(0.2)


@asynchronous
async def test_five_failures_close_it_for_all_processes(url: str) -> None:
    """After five failures another process is refused at once, with the reason; a reset admits it again."""
    async with opened(url) as ours, opened(url) as theirs:
        theirs_gate = theirs.get_gate("gemini")
        (await theirs_gate.admit()).record_success(None)
        for _ in range(5):
            admitted = await ours.get_gate("gemini").admit()
            admitted.record_failure("gemini returned HTTP 503")
            closed = await admitted.flush()
        assert "gemini returned HTTP 503" in closed

        async def is_reported_closed() -> bool:
            try:
                (await theirs_gate.admit()).record_abandoned()
            except GateClosed as error:
                return "gemini returned HTTP 503" in str(error) and 30 < error.after <= 60
            return False

        await until(is_reported_closed)
        async with Store(url) as store:
            await GateRow(store, "gemini", FAST).edit({}, reset=True)

        async def open_again() -> bool:
            try:
                (await theirs_gate.admit()).record_success(None)
            except GateClosed:
                return False
            return True

        await until(open_again)


@asynchronous
async def test_callers_in_other_event_loops_are_served(sqlite_url: str) -> None:
    """A handler in another thread's event loop gets slots and reports results like any other."""
    async with opened(sqlite_url) as gates:
        gate = gates.get_gate("gemini")
        failures: list[BaseException] = []

        def elsewhere() -> None:
            async def call() -> None:
                (await gate.admit()).record_success(1.0)

            try:
                asyncio.run(call())
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join, 10)
        assert not failures

        async def counted() -> bool:
            async with Store(sqlite_url) as store:
                return (await GateRow(store, "gemini", FAST).read())[0].spent == 1.0

        await until(counted)


def test_a_closed_gate_stops_claims_of_its_own_queue_only(url: str, owner: Owner) -> None:
    """Jobs of its queue stay ready without an attempt; another queue's jobs are done."""
    owner.insert(*range(1, 11))
    owner("UPDATE jobs SET size = 1 WHERE id > 5")
    gated = jobs_queue("gated", where="size IS NULL", uses="gemini")
    plain = jobs_queue("plain", where="size = 1", running="looking")

    @gated.handler
    async def call(job: Job) -> None:
        assert job.context is not None
        (await job.context.admit("gemini", job)).record_success(0.001)

    @plain.handler
    async def work(job: Job) -> None:
        pass

    async def close_it() -> None:
        async with Store(url) as store:
            await GateRow(store, "gemini", FAST).turn(CallOutcomes(failed=5, why="down"), 0)

    async def open_it() -> None:
        async with Store(url) as store:
            await GateRow(store, "gemini", FAST).edit({}, reset=True)

    asyncio.run(close_it())
    recorder = EventRecorder()
    worker = make_worker(url, gated, plain, gates={"gemini": FAST}, listeners=[recorder])
    with working(worker):
        eventually(lambda: owner.count("done") == 5)
        eventually(lambda: recorder.of("gate_closed"))
        assert owner("SELECT count(*) AS n FROM tabellion_attempts WHERE queue = 'gated'")[0]["n"] == 0
        asyncio.run(open_it())
        eventually(lambda: owner.count("done") == 10)
    attempts = owner("SELECT attempt, outcome FROM tabellion_attempts WHERE queue = 'gated'")
    assert [(row["attempt"], row["outcome"]) for row in attempts] == [(1, "done")] * 5
    assert recorder.of("gate_opened")


def test_a_gate_that_closes_during_a_job_costs_no_attempt(url: str, owner: Owner) -> None:
    """A job whose call finds the gate closed is ready again; no attempt and no deferral is spent."""
    owner.insert(1)
    queue = jobs_queue("gated", uses="gemini", max_deferrals=1)
    met: list[int] = []

    @queue.handler
    async def call(job: Job) -> None:
        met.append(job.attempt)
        if len(met) < 4:
            raise GateClosed("gemini", "over budget", after=86_400)

    worker = make_worker(url, queue, gates={"gemini": FAST})
    with working(worker):
        eventually(lambda: owner.status(1) == "done")
    assert met == [1, 1, 1, 1]
    outcomes = [row["outcome"] for row in owner("SELECT outcome FROM tabellion_attempts ORDER BY n")]
    assert outcomes == ["released", "released", "released", "done"]


def test_a_worker_claims_no_more_jobs_than_may_call(url: str, owner: Owner) -> None:
    """With a slow gate and many free slots, jobs are not claimed only to wait inside the worker."""
    owner.insert(*range(1, 13))
    queue = jobs_queue("gated", uses="gemini")
    gauge = Gauge()

    @queue.handler
    async def call(job: Job) -> None:
        assert job.context is not None
        with gauge.running("waiting"):
            admitted = await job.context.admit("gemini", job)
        admitted.record_success(None)

    with working(make_worker(url, queue, gates={"gemini": GateSettings(rate=10, min_rate=10, max_rate=10)})):
        eventually(lambda: owner.count("done") == 12)
    assert gauge.most["waiting"] < 6


@asynchronous
async def test_a_script_can_open_a_context_outside_a_worker(url: str) -> None:
    """A script opens a context on an environment and is admitted like a job."""
    async with OpenContext(Environment("prod", url), {"gemini": FAST}) as context:
        (await context.admit("gemini", None)).record_success(0.5)
    async with Store(url) as store:
        assert (await GateRow(store, "gemini", FAST).read())[0].spent == 0.5


@asynchronous
async def test_a_call_beyond_the_daily_budget_is_not_made(url: str) -> None:
    """The estimate is checked before the call: one above the budget is refused with its price, as are later ones."""
    async with opened(url, GateSettings(rate=500, min_rate=500, budget=1.0)) as gates:
        gate = gates.get_gate("gemini")
        (await gate.admit(0.4)).record_success(0.4)
        with pytest.raises(GateClosed, match=r"the next call may cost \$0\.70"):
            await gate.admit(0.7)
        with pytest.raises(GateClosed, match="over budget"):
            await gate.admit(0.1)


class BrokenRow(GateRow):
    """A gate row that fails a given number of times."""

    def __init__(self, store: Store, failures: int, error: Exception) -> None:
        super().__init__(store, "gemini", FAST)
        self.turns, self._failures, self._error = 0, failures, error

    async def turn(self, news: CallOutcomes, want: int) -> TurnResult:
        """Fail, then stop failing."""
        self.turns += 1
        if self.turns <= self._failures:
            raise self._error
        return await super().turn(news, want)


@pytest.mark.parametrize("error", [Unreachable("away"), ValueError("no JSON")])
@asynchronous
async def test_a_failing_database_is_retried_after_a_pause(
    sqlite_url: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a turn raises, the gate keeps running, pauses between retries and loses no report."""
    monkeypatch.setattr(gate_module, "AGAIN", 0.05)
    async with Store(sqlite_url) as store:
        row = BrokenRow(store, 2, error)
        gate = Gate(row)
        running = asyncio.create_task(gate.run())
        admitted = await gate.admit()
        assert row.turns == 3
        admitted.record_throttle(None)
        await admitted.flush()
        assert (await row.read())[0].refusals == 1
        row._failures = 10**6
        gate.add_outcome({"failed": 1, "why": "503"})
        for _ in range(2000):
            await asyncio.sleep(0)
        assert row.turns < 50
        running.cancel()


def test_a_database_that_stays_down_closes_the_gate_until_it_is_back(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers get GateClosed with the reason instead of waiting; the outage and its end are reported once."""
    monkeypatch.setattr(gate_module, "AGAIN", 0.01)
    monkeypatch.setattr(gate_module, "AWAY", 0.1)
    reported: list[str] = []

    async def go() -> None:
        async with Store(sqlite_url) as store:
            row = BrokenRow(store, 10**6, Unreachable("no answer"))
            gate = Gate(row, changed=lambda _name, why: reported.append(why))
            running = asyncio.create_task(gate.run())
            async with asyncio.timeout(20):
                for _ in range(3):
                    with pytest.raises(GateClosed, match="the gate's database cannot be reached: no answer"):
                        await gate.admit()
            assert gate.room(1) == 0
            row._failures = 0
            async with asyncio.timeout(20):
                while reported[-1]:
                    await asyncio.sleep(0.01)
            (await gate.admit()).record_success(None)
            running.cancel()

    asyncio.run(go())
    assert [bool(why) for why in reported] == [True, False]


def test_jobs_are_released_while_the_gates_database_is_down(
    url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment whose gates' database is down reports it and spends no attempt."""
    monkeypatch.setattr(gate_module, "AWAY", 0.1)
    owner.insert(1)
    queue, recorder = jobs_queue("visits"), EventRecorder()

    @queue.handler
    async def call(job: Job) -> None:
        assert job.context is not None
        await job.context.admit("site", job)

    dead = Environment("dead", "postgresql://127.0.0.1:1/x")
    worker = Worker([dead, Environment("dev", url)], [queue], poll=0.05, listeners=[recorder])
    with working(worker):
        eventually(lambda: recorder.of("limited"))
        eventually(lambda: owner.status(1) == "new")
        [closed] = recorder.of("gate_closed")
    assert "the gate's database cannot be reached" in (closed.error or "")
    assert owner("SELECT attempts FROM jobs")[0]["attempts"] == 0


class Recorder(GateRow):
    """A row that records the reports it receives."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "gemini", FAST)
        self.refusals: list[ThrottledCall] = []

    async def turn(self, news: CallOutcomes, want: int) -> TurnResult:
        """Takes the turn."""
        self.refusals += news.throttled
        return await super().turn(news, want)


@asynchronous
async def test_a_refusal_reports_the_age_of_its_call(sqlite_url: str) -> None:
    """The rate is learned from when calls were made, not from when their refusals arrived."""
    async with Store(sqlite_url) as store:
        row = Recorder(store)
        gate = Gate(row)
        running = asyncio.create_task(gate.run())
        admitted = await gate.admit()
        await asyncio.sleep(0.02)
        admitted.record_throttle(3.0)
        await admitted.flush()
        running.cancel()
        [refusal] = row.refusals
        assert (refusal.hint, refusal.epoch) == (3.0, 0)
        assert refusal.age >= 0.02


class TwoSlots(GateRow):
    """A row that grants two slots, one shortly after the other, and then none."""

    async def turn(self, news: CallOutcomes, want: int) -> TurnResult:
        """Takes the turn."""
        await self.store.open()
        return TurnResult((0.05, 0.07) if want else (), (0, 0), again=60.0)


@asynchronous
async def test_a_job_that_arrives_before_its_slot_gets_it_in_time(sqlite_url: str) -> None:
    """A slot already granted needs no turn: the caller waiting for it is woken by the clock."""
    async with Store(sqlite_url) as store:
        opened = asyncio.Event()
        gate = Gate(TwoSlots(store, "gemini", FAST), opened.set)
        running = asyncio.create_task(gate.run())
        gate.room(2)
        await opened.wait()
        gate.reserve_call("first")
        gate.reserve_call("second")
        async with asyncio.timeout(5):
            await asyncio.gather(gate.admit(job="first"), gate.admit(job="second"))
        running.cancel()


class ProbingRow(GateRow):
    """A row whose breaker is probing: grants one slot when none is in flight, and records abandoned ones."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "gemini", FAST)
        self.abandoned, self.granted = 0, 0

    async def turn(self, news: CallOutcomes, want: int) -> TurnResult:
        """Takes the turn."""
        self.abandoned += news.abandoned
        slots = (0.0,) if want and self.granted == self.abandoned else ()
        self.granted += len(slots)
        return TurnResult(slots, (0, 0), again=0.0, wary=True)


@asynchronous
async def test_a_caller_cancelled_with_its_slot_abandons_it(sqlite_url: str) -> None:
    """The slot of a caller cancelled as it gets it is abandoned: the next caller makes the probe."""
    async with Store(sqlite_url) as store:
        row = ProbingRow(store)
        gate = Gate(row)
        caller = asyncio.create_task(gate.admit())
        await asyncio.sleep(0)
        [future] = gate._waiting
        row.granted = 1
        future.set_result(Slot(0.0, (0, 0)))
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        running = asyncio.create_task(gate.run())
        async with asyncio.timeout(20):
            (await gate.admit()).record_success(None)
        assert row.abandoned == 1
        running.cancel()


@asynchronous
async def test_a_slot_whose_caller_is_gone_is_abandoned(sqlite_url: str) -> None:
    """A slot that reaches nobody, because its caller in another loop was cancelled, blocks no other probe."""
    async with Store(sqlite_url) as store:
        row = ProbingRow(store)
        gate = Gate(row)
        running = asyncio.create_task(gate.run())
        await gate.admit()
        async with asyncio.timeout(20):
            (await gate.admit()).record_success(None)
        assert row.abandoned == 1
        running.cancel()


def test_withdrawn_requests_leave_the_probe_to_others(url: str) -> None:
    """A process that will not claim gives up the probe of a breaker, also one that is only on its way."""
    probing = GateSettings(threshold=1, recovery=0.2, rate=500)

    async def run() -> None:
        async with opened(url, probing) as mine, opened(url, probing) as theirs:
            gate, other = mine.get_gate("gemini"), theirs.get_gate("gemini")
            (await gate.admit()).record_failure("told to fail")
            assert await gate.flush()
            assert await other.is_closed_for_all()
            # The request of a claim, which is withdrawn while the gate is closed; then one whose slot has come.
            assert gate.room(1) == 0
            gate.withdraw()
            await until_ready(other)
            other.withdraw()
            await until_ready(gate)

    async def until_ready(gate: Gate) -> None:
        async with asyncio.timeout(5):
            while not gate.room(1):
                await asyncio.sleep(0.01)

    asyncio.run(run())
