"""The cost of models."""

from __future__ import annotations

from tabellion import Store
from tabellion.engine.counts import DAY
from tabellion.engine.timestamps import iso
from tabellion.monitor.spend import model_of, spend
from tabellion.monitor.throughput import Throughput
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, tasks, tasks_queue
from tests.monitor.settled import settle


@asynchronous
async def test_costs_are_summed_by_day_and_by_queue(store: Store, clock: Clock) -> None:
    """Failed and repeated attempts cost too; the most expensive queue first; an undeclared queue is not lost."""
    queue = await tasks(store, 9, uses="gemini")
    gone = tasks_queue(name="gone", ready="parked", running="w2", done="d2", failed="f2")
    await store.add(gone, id=20)
    await settle(store, queue, cost=1.0)
    await settle(store, gone, cost=5.0)
    clock.advance(2 * DAY)
    await settle(store, queue, "retried", error="bad", after=1.0, cost=0.25)
    await settle(store, queue, cost=0.5)
    await settle(store, queue)
    seen = Throughput(store)
    await seen.look()
    found = spend(seen, [queue])
    assert (found["currency"], found["today"], found["month"]) == ("USD", 0.75, 6.75)
    assert found["days"][-3:] == [6.0, 0.0, 0.75]
    assert len(found["days"]) == 30
    assert found["since"] == iso(clock.at // DAY * DAY - 29 * DAY)
    assert found["by"] == [
        {"queue": "gone", "model": None, "today": 0.0, "month": 5.0},
        {"queue": "tasks", "model": "gemini", "today": 0.75, "month": 1.75},
    ]


def test_the_model_of_a_queue_comes_from_its_rows_or_its_gate() -> None:
    """Documents of one model are distinguished by a column."""
    ready = {"status": "new", "model": "gemini-pro"}
    assert model_of(tasks_queue(ready=ready, uses="gate")) == "gemini-pro"
    assert model_of(tasks_queue(uses="gate")) == "gate"
    assert model_of(tasks_queue()) is None
    assert model_of(None) is None
