"""Everything a dashboard shows, as one document."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.engine import controls
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings
from tabellion.engine.worker import heartbeat as roster
from tabellion.errors import Unreachable
from tabellion.monitor import overview as overview_module
from tabellion.monitor.overview import Overview
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review.sla import read_figure
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, claim_one, tasks
from tests.monitor.settled import fail, settle
from tests.monitor.test_workers import member


@asynchronous
async def test_a_queue_reports_its_state(store: Store, clock: Clock) -> None:
    """Counts, what it settled, what blocks it and its workers."""
    queue = await tasks(store, 10, uses="gemini", limit=8)
    await settle(store, queue, cost=0.5)
    await fail(store, queue, "bad")
    await settle(store, queue, "retried", error="later", after=100.0)
    await claim_one(store, queue)
    await controls.pause(store, queue, "lunch")
    await GateRow(store, "gemini", GateSettings()).turn(CallOutcomes(refused="bad key"), 0)
    worker = member("w1")
    worker.queues = "tasks"
    await roster.enlist(store, worker)
    broken = Queue("nowhere", ready=1, running=2, done=3, failed=4)
    overview: Any = await Overview("prod", store, [QueueView(queue), QueueView(broken)]).look()
    assert json.loads(json.dumps(overview)) == overview
    [mine, other] = overview["queues"]
    assert (mine["ready"], mine["waiting"], mine["running"], mine["done"], mine["failed"]) == (7, 1, 1, 1, 1)
    assert mine["throughput"] == {"minute": {"done": 1, "failed": 1}, "hour": {"done": 1, "failed": 1}}
    assert mine["error_rate"] == pytest.approx(2 / 3, abs=0.001)
    assert (mine["spark"]["done"][-1], mine["spark"]["failed"][-1], len(mine["spark"]["done"])) == (1, 1, 60)
    assert (mine["paused"], mine["reason"], mine["paused_at"]) == (True, "lunch", overview["at"])
    assert (mine["limit"], mine["workers"], mine["model"]) == (8, 1, "gemini")
    assert mine["gate"]["state"] == "closed"
    assert "bad key" in mine["gate"]["reason"]
    assert mine["states"]["ready"] == "status = 'new'"
    assert "nowhere" in other["problem"]
    assert [(gate["name"], gate["state"], gate["queues"]) for gate in overview["gates"]] == [
        ("gemini", "closed", ["tasks"])
    ]  # fmt: skip
    assert overview["gates"][0]["reopens_at"] > overview["at"]
    assert [one["id"] for one in overview["workers"]] == ["w1"]
    assert overview["spend"]["today"] == 0.5
    assert (overview["series"]["minutes"]["done"][-1], overview["series"]["hours"]["failed"][-1]) == (1, 1)


@asynchronous
async def test_the_document_changes_only_when_something_happened(store: Store, clock: Clock) -> None:
    """It has points in time, not ages."""
    await tables.SCHEMA.prepare(store)
    queue = await tasks(store, 3)
    await settle(store, queue)
    overview = Overview("prod", store, [QueueView(queue)], figures={"sla": read_figure})
    before: Any = await overview.look()
    clock.advance(2.0)
    after: Any = await overview.look()
    assert before.pop("at") != after.pop("at")
    assert before == after
    assert before["sla"]["open"] == 0


@asynchronous
async def test_a_manual_queue_says_so(store: Store) -> None:
    """Pages distinguish it from queues of workers by `people`, whatever its table."""
    queue = await tasks(store, 1)
    for people in (True, False):
        [result] = (await Overview("prod", store, [QueueView(queue, people=people)]).look())["queues"]
        assert result["people"] is people


@asynchronous
async def test_current_limits_override_declared_ones(store: Store) -> None:
    """And a resumed queue has no reason left."""
    queue = await tasks(store, 1, limit=8)
    await controls.limit(store, queue, 2)
    await controls.pause(store, queue, "lunch")
    await controls.resume(store, queue)
    [result] = (await Overview("prod", store, [QueueView(queue)]).look())["queues"]
    assert (result["limit"], result["paused"], result["paused_at"], result["reason"]) == (2, False, None, None)


@asynchronous
async def test_gates_may_be_kept_elsewhere(store: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One database has the gates of all environments."""
    queue = await tasks(store, 1, uses="gemini")
    async with Store(f"sqlite:///{tmp_path_factory.mktemp('home')}/gates.db") as home:
        await GateRow(home, "gemini", GateSettings()).turn(CallOutcomes(refused="bad key"), 0)
        overview: Any = await Overview("dev", store, [QueueView(queue)], gates_at=home).look()
    assert overview["queues"][0]["gate"]["state"] == "closed"


@asynchronous
async def test_the_database_of_the_gates_is_away(
    store: Store, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is shown without them: the database of one environment must not hide the others."""
    queue = await tasks(store, 1, uses="gemini")
    asked: list[str] = []

    async def fail() -> None:
        asked.append("again")
        raise Unreachable("connection refused by 10.0.0.1")

    async with Store(f"sqlite:///{tmp_path_factory.mktemp('home')}/gates.db") as home:
        overview = Overview("dev", store, [QueueView(queue)], gates_at=home)
        with monkeypatch.context() as patch:
            patch.setattr(home, "open", fail)
            for _ in range(2):
                seen = await overview.look()
                assert (seen["queues"][0]["ready"], seen["gates"]) == (1, [])
                assert seen["queues"][0]["gate"] == {
                    "name": "gemini", "state": "closed", "reason": "the gate's database cannot be reached: Unreachable",
                }  # fmt: skip
        assert asked == ["again"]
        monkeypatch.setattr(overview_module, "GATES_AGAIN", 0.0)
        overview = Overview("dev", store, [QueueView(queue)], gates_at=home)
        with monkeypatch.context() as patch:
            patch.setattr(home, "open", fail)
            await overview.look()
        seen = await overview.look()
        assert seen["queues"][0]["gate"] == {"name": "gemini", "state": "open", "reason": None}
        assert overview.gates_problem is None


@asynchronous
async def test_the_database_of_the_gates_does_not_answer(
    store: Store, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not waited for; when it answers after all, the same question brings the gates."""
    queue = await tasks(store, 1, uses="gemini")
    asked, answers = 0, asyncio.Event()

    async with Store(f"sqlite:///{tmp_path_factory.mktemp('home')}/gates.db") as home:
        real = home.open

        async def hang() -> None:
            nonlocal asked
            asked += 1
            await answers.wait()
            await real()

        monkeypatch.setattr(home, "open", hang)
        monkeypatch.setattr(overview_module, "GATES_PATIENCE", 0.0)
        overview = Overview("dev", store, [QueueView(queue)], gates_at=home)
        for _ in range(2):
            seen = await overview.look()
            assert (seen["queues"][0]["ready"], overview.gates_problem is None) == (1, False)
        answers.set()
        monkeypatch.setattr(overview_module, "GATES_PATIENCE", 60.0)
        await overview.look()
        assert (overview.gates_problem, asked) == (None, 1)
