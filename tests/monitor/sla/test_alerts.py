"""States of targets change after a while only, and each change is alerted exactly once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from tabellion import Store
from tabellion.delivery import endpoints
from tabellion.engine import failpoints
from tabellion.errors import StoreError, Unreachable
from tabellion.messages import Message
from tabellion.monitor.sla.alerts import APART, GAP, format_value
from tabellion.monitor.sla.checks import EVERY, SlaChecks
from tabellion.monitor.sla.compliance import read_recorded
from tabellion.monitor.sla.target import Target, TargetKind
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous

WAIT = 300.0


class Gauge:
    """A value that the test sets, as a target of at most 60 seconds."""

    def __init__(self, wait: float = WAIT) -> None:
        self.value: float | None = 0.0
        self.problem: str | None = None
        self.told: list[str] = []
        self.target = Target("queues", "tasks", "oldest", TargetKind("seconds"), 60.0, "tasks", self.measure)
        self.checks = SlaChecks("prod", [], [self.target], wait)

    async def measure(self, _: Store) -> float | None:
        """Return the value, or fail as a table that does not match would."""
        if self.problem is not None:
            raise StoreError(self.problem)
        return self.value

    async def check(self, store: Store, clock: Clock, value: float | None, times: int = 1) -> str:
        """Check so many times, a minute apart; return the recorded state."""
        await store.open()
        for _ in range(times):
            clock.at += EVERY
            self.value = value
            await self.checks.run(store, lambda name, *, note: self.told.append(name))
        [picture] = await read_recorded(store, [self.target])
        return picture["state"]


async def deliveries(store: Store) -> list[dict[str, Any]]:
    """Return the bodies of all deliveries, in the order of their events."""
    rows = await store.database.fetch("SELECT body FROM tabellion_webhook_deliveries ORDER BY event, id")
    return [json.loads(row["body"]) for row in rows]


async def subscribe(store: Store, *events: str) -> None:
    """Add a receiver."""
    await endpoints.add(store, "https://example.com/alerts", events or ("sla.breached", "sla.recovered"))


@asynchronous
async def test_a_target_is_breached_after_a_while_and_recovers_after_a_while(store: Store, clock: Clock) -> None:
    """Each change writes one delivery per subscribed endpoint, and one event of the worker."""
    await subscribe(store)
    await subscribe(store, "*")
    await subscribe(store, "document.completed")
    gauge = Gauge()
    assert await gauge.check(store, clock, 10) == "ok"
    assert await gauge.check(store, clock, 100, times=5) == "ok"
    assert await deliveries(store) == []
    assert await gauge.check(store, clock, 130) == "breached"
    assert await gauge.check(store, clock, 130, times=3) == "breached"
    assert await gauge.check(store, clock, 20, times=5) == "breached"
    assert await gauge.check(store, clock, 30) == "ok"
    assert gauge.told == ["sla_breached", "sla_recovered"]
    sent = await deliveries(store)
    assert [one["type"] for one in sent] == ["sla.breached"] * 2 + ["sla.recovered"] * 2
    assert sent[0]["data"] == {
        "target": "queues.tasks.oldest", "scope": "queues", "subject": "tasks", "kind": "oldest",
        "environment": "prod", "state": "breached", "unit": "seconds", "limit": 60.0, "value": 130.0,
        "former_state_seconds": 360, "message": "queues.tasks.oldest is breached: 2.17 min (limit 60 s)",
        "code": "sla.breached_seconds",
        "params": {"target": "queues.tasks.oldest", "value": "2.17 min", "limit": "60 s"},
    }  # fmt: skip
    assert sent[2]["data"]["state"] == "ok"
    assert sent[2]["data"]["code"] == "sla.ok_seconds"


@asynchronous
async def test_a_flapping_value_alerts_nobody(store: Store, clock: Clock) -> None:
    """Neither up nor down: each time it turns, the wait begins again."""
    await subscribe(store)
    gauge = Gauge()
    for _ in range(6):
        assert await gauge.check(store, clock, 100, times=4) == "ok"
        assert await gauge.check(store, clock, 10) == "ok"
    await gauge.check(store, clock, 100, times=6)
    for _ in range(6):
        assert await gauge.check(store, clock, 10, times=4) == "breached"
        assert await gauge.check(store, clock, 100) == "breached"
    assert [one["type"] for one in await deliveries(store)] == ["sla.breached"]


@asynchronous
async def test_workers_that_check_at_once_alert_once(store: Store, clock: Clock) -> None:
    """One of them has the turn, and the change is guarded by the state before it."""
    await subscribe(store)
    gauges = [Gauge(wait=0.0) for _ in range(4)]
    stores = [store, *(Store(store.url, clock=clock, durable=False) for _ in gauges[1:])]
    try:
        for value in (100, 10, 100):
            clock.at += EVERY
            for gauge in gauges:
                gauge.value = value
            await asyncio.gather(
                *(
                    gauge.checks.run(one, lambda name, *, note, told=gauge.told: told.append(name))
                    for gauge, one in zip(gauges, stores, strict=True)
                )
            )
    finally:
        for other in stores[1:]:
            await other.close()
    assert sorted(name for gauge in gauges for name in gauge.told) == ["sla_breached", "sla_breached", "sla_recovered"]
    assert len(await deliveries(store)) == 3


@asynchronous
async def test_a_target_is_measured_once_a_minute_however_many_workers_check(store: Store, clock: Clock) -> None:
    """A check that follows too soon is left out."""
    gauge = Gauge(wait=0.0)
    assert await gauge.check(store, clock, 10) == "ok"
    clock.at += APART - 1 - EVERY
    assert await gauge.check(store, clock, 100) == "ok"
    assert await gauge.check(store, clock, 100) == "breached"


@asynchronous
async def test_targets_after_one_whose_check_is_cut_off_are_not_checked(store: Store) -> None:
    """The database was lost while the first was measured: the next worker measures the others at once."""
    await store.open()

    async def lose(_: Store) -> float | None:
        raise Unreachable("the connection was closed")

    first, second = Gauge().target, Gauge()
    first = replace(first, measure=lose)
    second.target = replace(second.target, subject="others")
    second.value = 7.0
    with pytest.raises(Unreachable):
        await SlaChecks("prod", [], [first, second.target], WAIT).run(store, lambda name, *, note: None)
    [_, picture] = await read_recorded(store, [first, second.target])
    assert picture["checked_at"] is None
    await SlaChecks("prod", [], [first, second.target], WAIT).run(store, lambda name, *, note: None)
    [_, picture] = await read_recorded(store, [first, second.target])
    assert picture["value"] == 7.0


@pytest.mark.parametrize("place", ["sla.pre_change", "sla.pre_commit"])
@asynchronous
async def test_a_worker_that_dies_before_the_alert(store: Store, clock: Clock, place: str) -> None:
    """The state has not changed either: the next check alerts."""
    await subscribe(store)
    gauge = Gauge(wait=0.0)
    failpoints.arm(f"{place}:raise")
    try:
        with pytest.raises(Unreachable):
            await gauge.check(store, clock, 100)
    finally:
        failpoints.arm("")
    assert await deliveries(store) == []
    assert await gauge.check(store, clock, 100, times=3) == "breached"
    assert len(await deliveries(store)) == 1


@asynchronous
async def test_a_gap_between_checks_proves_nothing(store: Store, clock: Clock) -> None:
    """A target that was missed before and after an outage may have been kept in between."""
    gauge = Gauge()
    await gauge.check(store, clock, 100, times=3)
    clock.at += GAP
    assert await gauge.check(store, clock, 100, times=5) == "ok"
    assert await gauge.check(store, clock, 100) == "breached"


@asynchronous
async def test_a_target_that_cannot_be_measured_keeps_its_state(store: Store, clock: Clock) -> None:
    """It says why; what cannot be measured is neither kept nor missed."""
    gauge = Gauge()
    await gauge.check(store, clock, 100, times=6)
    gauge.problem = "no such column"
    assert await gauge.check(store, clock, 10, times=9) == "breached"
    [picture] = await read_recorded(store, [gauge.target])
    assert (picture["kept"], picture["value"], picture["problem"]) == (None, None, "no such column")
    gauge.problem = Message("sla.no_created_at", table="tasks")
    await gauge.check(store, clock, 10)
    [picture] = await read_recorded(store, [gauge.target])
    assert (picture["problem"], picture["translatable"]) == (gauge.problem, {"problem": gauge.problem.form})


@asynchronous
async def test_without_webhooks_states_change_all_the_same(store: Store, clock: Clock) -> None:
    """A database without endpoints has no table of deliveries."""
    gauge = Gauge()
    assert await gauge.check(store, clock, 100, times=6) == "breached"
    assert gauge.told == ["sla_breached"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(None, "share", "–"), (0.054, "share", "5.4"), (1.0, "share", "100"), (59.5, "seconds", "59.5 s"),
     (900.0, "seconds", "15 min"), (7200.0, "seconds", "2 h"), (345_600.0, "seconds", "4 d")],
)  # fmt: skip
def test_values_for_people(value: float | None, unit: str, text: str) -> None:
    """A share is a percentage, a duration has the largest unit that fits twice."""
    assert format_value(value, unit) == text
