"""A state machine over the real SQL: after any sequence of moves the database equals a small model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tabellion import Job, LeaseLost, Store
from tabellion.engine import controls
from tabellion.engine.settlement import Settlement
from tabellion.engine.worker.runner import retry_or_fail
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import TASKS, run, tasks_queue

LEASE, MAX_ATTEMPTS, FEW = 60.0, 3, 3
QUEUE = tasks_queue(lease=LEASE, max_attempts=MAX_ATTEMPTS)
CONTINUING = ("retried", "limited", "released", "crashed")
CHARGED = ("retried", "crashed")
Value = TypeVar("Value")

SETTINGS = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
    database=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Attempt:
    """One line of the register in the model."""

    n: int
    token: str
    attempt: int
    crashes: int
    deferrals: int
    lease_until: float
    outcome: str | None = None
    due: float | None = None
    over: bool = False  #: its row was failed by hand while it waited: what the register calls that is its own business


@dataclass
class Row:
    """One row of the owner in the model, with its attempts."""

    status: str = "new"
    result: str | None = None
    count: int = 0  #: the `attempts` mirror
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def live(self) -> Attempt | None:
        """The claim that is not settled yet, if there is one."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].outcome is None else None


class Model:
    """What the promises say, in a page of Python."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.deleted: dict[int, Row] = {}  #: rows deleted by their owner; the register keeps their history
        self.paused = False

    def claimable(self, now: float) -> list[int]:
        """Return the rows that are ready, not claimed and due."""
        if self.paused:
            return []
        return [
            key
            for key, row in sorted(self.rows.items())
            if row.status == "new" and not row.live and not (row.attempts and (row.attempts[-1].due or 0) > now)
        ]

    def claim(self, key: int, token: str, now: float) -> Attempt:
        """Make a row running; its counters continue or restart, as its last attempt says."""
        row = self.rows[key]
        last = row.attempts[-1] if row.attempts else None
        outcome = last.outcome if last and not last.over else None
        number, crashes, deferrals = 1, 0, 0
        if last and outcome in CONTINUING:
            number = last.attempt + (1 if outcome in CHARGED else 0)
            deferrals = last.deferrals + (1 if outcome == "limited" else 0)
            crashes = last.crashes + 1 if outcome == "crashed" else last.crashes if outcome != "retried" else 0
        attempt = Attempt(last.n + 1 if last else 1, token, number, crashes, deferrals, now + LEASE)
        row.attempts.append(attempt)
        row.status, row.count = "working", number
        return attempt

    def settle(
        self, key: int, token: str, outcome: str, now: float, after: float | None, result: str | None
    ) -> str | None:
        """Return the outcome of an ending, `superseded`, or None when the claim was no longer theirs."""
        row = self.rows.get(key) or self.deleted[key]
        attempt = next(attempt for attempt in row.attempts if attempt.token == token)
        if attempt.outcome is not None:
            return outcome if attempt.outcome == outcome else None  # repeating an ending gives the same answer
        if key in self.deleted or row.status != "working":
            attempt.outcome = "superseded"
            return "superseded"
        attempt.outcome = outcome
        attempt.due = None if after is None else now + after
        row.status = {"done": "done", "failed": "failed", "cancelled": "failed", "quarantined": "failed"}.get(
            outcome, "new"
        )
        if outcome in ("limited", "released"):
            row.count -= 1
        if outcome == "done":
            row.result = result
        return outcome

    def renew(self, key: int, token: str, now: float) -> bool:
        """Return whether the claim holds; a claim whose row the owner changed ends here."""
        row = self.rows.get(key) or self.deleted[key]
        attempt = next(attempt for attempt in row.attempts if attempt.token == token)
        if attempt.outcome is not None:
            return False
        if key in self.deleted or row.status != "working":
            attempt.outcome = "superseded"
            return False
        attempt.lease_until = now + LEASE
        return True

    def sweep(self, now: float) -> dict[int, str]:
        """End expired claims: crashed, quarantined at the second in a row, failed without attempts left."""
        swept = {}
        for key, row in [*self.rows.items(), *self.deleted.items()]:
            live = row.live
            if live and live.lease_until < now:
                outcome = "quarantined" if live.crashes else "failed" if live.attempt >= MAX_ATTEMPTS else "crashed"
                if self.settle(key, live.token, outcome, now, None, None) == outcome:
                    swept[key] = outcome
        return swept

    def restart(self, key: int) -> bool:
        """Restart a failed row with fresh counters."""
        row = self.rows.get(key)
        if row is None or row.status != "failed":
            return False
        row.status, row.count = "new", 0
        if row.attempts and row.attempts[-1].outcome in CONTINUING:
            row.attempts[-1].over, row.attempts[-1].due = True, None
        return True

    def cancel(self, key: int, now: float) -> bool:
        """Cancel: a running job loses its claim, a waiting row fails, both at once."""
        row = self.rows[key]
        live = row.live
        if live:
            if row.status == "working":
                return self.settle(key, live.token, "cancelled", now, None, None) == "cancelled"
            live.outcome = "superseded"
        if row.status != "new":
            return False
        row.status = "failed"
        for waiting in row.attempts:
            waiting.due = None
        n = row.attempts[-1].n + 1 if row.attempts else 1
        row.attempts.append(Attempt(n, "", 0, 0, 0, now, outcome="cancelled"))
        return True


class Machine(RuleBasedStateMachine):
    """The moves, the owner and the clock, in any order."""

    store: Store
    clock: Clock
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.jobs: list[Job] = []
        self.keys = 0

    def wait(self, awaitable: Awaitable[Value]) -> Value:
        """Run one call of the store."""
        return self.loop.run_until_complete(_awaited(awaitable))

    @initialize()
    def begin(self) -> None:
        """Start every example with empty tables, then two rows of which one is claimed."""
        self.wait(
            run(self.store, "DELETE FROM tasks", "DELETE FROM tabellion_attempts", "DELETE FROM tabellion_queues")
        )
        self.enqueue(2)
        self.claim(1)

    # -- workers -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.rows) < FEW)
    @rule(n=st.integers(1, 2))
    def enqueue(self, n: int) -> None:
        """Add rows; never many, so that histories are long rather than wide."""
        keys = range(self.keys + 1, self.keys + n + 1)
        self.wait(self.store.add_many(QUEUE, [{"id": key} for key in keys]))
        self.model.rows |= {key: Row() for key in keys}
        self.keys += n

    @rule(n=st.integers(1, 5))
    def claim(self, n: int) -> None:
        """Claim as a worker: exactly the first of the line, with the right numbers."""
        expected = self.model.claimable(self.clock.at)[:n]
        jobs = self.wait(self.store.claim(QUEUE, n, "w"))
        assert [job.key for job in jobs] == expected
        for job in jobs:
            attempt = self.model.claim(job.key, job.token, self.clock.at)
            assert (job.n, job.attempt, job.crashes, job.deferrals) == (
                attempt.n, attempt.attempt, attempt.crashes, attempt.deferrals,
            )  # fmt: skip
        self.jobs += jobs

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), many=st.integers(1, 4))
    def renew(self, data: st.DataObject, many: int) -> None:
        """Renew claims, live or long gone, together."""
        jobs = list({id(job): job for job in (self._any_job(data) for _ in range(many))}.values())
        lost = self.wait(self.store.renew(jobs))
        for job in jobs:
            assert self.model.renew(job.key, job.token, self.clock.at) == (job not in lost)

    @precondition(lambda self: self.jobs)
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["done", "failed", "retried", "limited", "released"]),
        after=st.sampled_from([0.0, 5.0, 100.0]),
    )
    def settle(self, data: st.DataObject, outcome: Any, after: float) -> None:
        """End a claim, live or long gone, in any way; a retry without attempts left fails, as in a worker."""
        job = self._any_job(data)
        ending = Settlement(job, outcome)
        if outcome == "done":
            ending.values = {"result": job.token}
        elif outcome in ("retried", "limited"):
            ending.error, ending.after = "boom", after
            if outcome == "retried":
                ending.outcome = retry_or_fail(job, "boom").outcome
                ending.after = after if ending.outcome == "retried" else None
        self._settle(ending)

    @precondition(lambda self: any(job for job in self.jobs if self._stale(job)))
    @rule(data=st.data())
    def late_finish(self, data: st.DataObject) -> None:
        """Finish with a token that is no longer live: it is refused."""
        job = data.draw(st.sampled_from([job for job in self.jobs if self._stale(job)]))
        if self._attempt(job).outcome == "done":
            return
        with pytest.raises(LeaseLost):
            self.wait(self.store.finish(job, {"result": "zombie"}))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), many=st.integers(2, 5))
    def settle_many(self, data: st.DataObject, many: int) -> None:
        """Settle a batch of live and stale endings, each with its own verdict."""
        jobs = list({id(job): job for job in (self._any_job(data) for _ in range(many))}.values())
        endings = [Settlement(job, "done", {"result": job.token}) for job in jobs]
        verdicts = {id(verdict.job): verdict.outcome for verdict in self.wait(self.store.settle(endings))}
        for job in jobs:
            assert verdicts[id(job)] == self.model.settle(job.key, job.token, "done", self.clock.at, None, job.token)

    @rule(seconds=st.sampled_from([0.0, 10.0, 61.0, 200.0]))
    def sweep(self, seconds: float) -> None:
        """Let time pass so that leases expire or retries come due, then sweep."""
        self.clock.advance(seconds)
        swept = {one.job.key: one.outcome for one in self.wait(self.store.sweep(QUEUE))}
        assert swept == self.model.sweep(self.clock.at)

    @rule(seconds=st.sampled_from([1.0, 10.0, 61.0, 200.0]))
    def pass_time(self, seconds: float) -> None:
        """Let leases expire and retries come due without a sweep."""
        self.clock.advance(seconds)

    # -- people --------------------------------------------------------------------------------------------------------

    @rule(paused=st.sampled_from([False, False, True]))
    def pause_or_resume(self, paused: bool) -> None:
        """Pause or resume the queue."""
        self.wait(controls.pause(self.store, QUEUE) if paused else controls.resume(self.store, QUEUE))
        self.model.paused = paused

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a waiting or running job."""
        key = self._any_key(data)
        expected = self.model.cancel(key, self.clock.at)
        assert self.wait(controls.cancel(self.store, QUEUE, key)) == expected

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """Restart a failed row."""
        key = self._any_key(data)
        moved = self.wait(controls.restart(self.store, QUEUE, [key]))
        assert moved == (1 if self.model.restart(key) else 0)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data(), status=st.sampled_from(["new", "working", "done", "failed", "parked"]))
    def owners_edit(self, data: st.DataObject, status: str) -> None:
        """Set a status by hand, as the owner."""
        key = self._any_key(data)
        self.wait(run(self.store, f"UPDATE tasks SET status = '{status}' WHERE id = {key}"))
        self.model.rows[key].status = status

    @precondition(lambda self: len(self.model.rows) == FEW)
    @rule(data=st.data())
    def owner_deletes(self, data: st.DataObject) -> None:
        """Delete a row, as the owner."""
        key = self._any_key(data)
        self.wait(run(self.store, f"DELETE FROM tasks WHERE id = {key}"))
        self.model.deleted[key] = self.model.rows.pop(key)

    # -- what always holds ---------------------------------------------------------------------------------------------

    @invariant()
    def the_database_is_the_model(self) -> None:
        """Assert that every row and the register equal the model."""
        token = "CAST(token AS text) AS token"
        found, register = self.wait(
            self.store.database.transact(
                [
                    ("SELECT id, status, result, attempts FROM tasks ORDER BY id", ()),
                    (f"SELECT key, n, {token}, attempt, outcome FROM tabellion_attempts ORDER BY n", ()),
                ]
            )
        )
        assert [(row["id"], row["status"], row["result"], row["attempts"]) for row in found] == [
            (key, row.status, row.result, row.count) for key, row in sorted(self.model.rows.items())
        ]
        by_key: dict[int, list[dict[str, Any]]] = {}
        for line in register:
            by_key.setdefault(int(line["key"]), []).append(line)
        everyone = self.model.rows | self.model.deleted
        assert set(by_key) == {key for key, row in everyone.items() if row.attempts}
        for key, lines in by_key.items():
            model = everyone[key].attempts
            assert [line["n"] for line in lines] == list(range(1, len(lines) + 1)), "n increases by one"
            tokens = [
                line["token"] if line["attempt"] else "" for line in lines
            ]  # a cancelled waiting row had no claim
            assert tokens == [attempt.token for attempt in model]
            assert sum(line["outcome"] is None for line in lines) <= 1, "at most one live claim"
            assert all(line["attempt"] <= MAX_ATTEMPTS for line in lines), "attempts are bounded"
            for line, attempt in zip(lines, model, strict=True):
                assert attempt.over or attempt.outcome == line["outcome"]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _settle(self, ending: Settlement) -> None:
        [verdict] = self.wait(self.store.settle([ending]))
        job = ending.job
        if self._attempt(job).over:
            assert verdict.outcome in (None, self._attempt(job).outcome)
            return
        expected = self.model.settle(
            job.key, job.token, ending.outcome, self.clock.at, ending.after, ending.values.get("result")
        )
        assert verdict.outcome == expected

    def _any_job(self, data: st.DataObject) -> Job:
        return data.draw(st.sampled_from(self.jobs[-2 * FEW :][::-1]))

    def _any_key(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.model.rows)))

    def _attempt(self, job: Job) -> Attempt:
        row = self.model.rows.get(job.key) or self.model.deleted[job.key]
        return next(attempt for attempt in row.attempts if attempt.token == job.token)

    def _stale(self, job: Job) -> bool:
        return self._attempt(job).outcome is not None


async def _awaited(awaitable: Awaitable[Value]) -> Value:
    return await awaitable


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_any_history(kind: str, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> None:
    """Enqueue, claim, renew, expire, finish, late finish, fail, retry, release, defer, cancel, pause, the owner's edits
    and sweeps in any order leave the database as the model has it, after every single step.
    """
    loop = asyncio.new_event_loop()
    store = store_on(kind, empty_database, tmp_path, clock)
    try:
        loop.run_until_complete(run(store, TASKS))
        loop.run_until_complete(store.bind(QUEUE))
        machine = type("Machine", (Machine,), {"store": store, "clock": clock, "loop": loop})
        run_state_machine_as_test(machine, settings=SETTINGS)
    finally:
        loop.run_until_complete(store.close())
        loop.close()
