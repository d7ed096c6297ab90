"""Priority: four stored parts, of which one changes with time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents import priority as first
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import items, priority
from tabellion.testing import Clock
from tests.pipelines.documents.review.items import put


def story(url: str, steps: Any) -> None:
    """Run a story with a clock that only it moves."""

    async def go() -> None:
        clock = Clock()
        store = Store(url, clock=clock, durable=False)
        try:
            await tables.SCHEMA.prepare(store)
            await steps(store, clock)
        finally:
            await store.close()

    asyncio.run(go())


def test_urgency_grows_towards_the_deadline(url: str) -> None:
    """From 0 at the upload to 1 at the deadline, and no further; the parts add up to the priority."""

    async def steps(store: Store, clock: Clock) -> None:
        item = await put(store, confidence=0.25, complexity=0.5, value=0.75)
        for seconds, near in ((0, 0.0), (900, 0.25), (1800, 0.75), (3600, 1.0)):
            clock.advance(seconds)
            await priority.refresh(store, at_once=True)
            row = await items.row(store, item)
            assert float(row["proximity"]) == pytest.approx(near)
            assert float(row["priority"]) == pytest.approx(0.4 * 0.75 + 0.3 * near + 0.2 * 0.5 + 0.1 * 0.75)
            parts: Any = priority.parts(row)
            assert sum(one["points"] for one in parts.values()) == pytest.approx(float(row["priority"]), abs=0.0005)
        assert items.serialize_item(row)["sla_left"] == pytest.approx(-2700)

    story(url, steps)


def test_an_update_writes_only_what_has_changed(url: str) -> None:
    """Half a percent is a step; finished items stay as they were."""

    async def steps(store: Store, clock: Clock) -> None:
        item = await put(store)
        done = await put(store, status="approved", priority=0.9)
        await priority.refresh(store, at_once=True)
        clock.advance(3600 * priority.STEP * 0.9)
        await priority.refresh(store, at_once=True)
        assert float((await items.row(store, item))["proximity"]) == pytest.approx(0, abs=1e-6)
        clock.advance(3600 * priority.STEP * 0.2)
        await priority.refresh(store, at_once=True)
        assert float((await items.row(store, item))["proximity"]) == pytest.approx(priority.STEP * 1.1)
        clock.advance(3600)
        await priority.refresh(store)
        assert float((await items.row(store, item))["proximity"]) < 0.5
        assert float((await items.row(store, done))["priority"]) == 0.9

    story(url, steps)


def test_the_weights_equal_those_of_the_first_priority() -> None:
    """A new item already has the priority that an update would compute."""
    urgency = first.Urgency(0.3, 0.4, 0.5)
    parts: Any = priority.parts({"confidence": 0.3, "proximity": 0.2, "complexity": 0.4, "value": 0.5})
    assert sum(one["points"] for one in parts.values()) == pytest.approx(urgency.priority(0.2))
