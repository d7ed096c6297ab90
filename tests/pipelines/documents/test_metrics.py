"""The metrics of review."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import Store
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.metrics import METRICS, SOURCE
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous
from tests.pipelines.documents.review.test_sla import put


@pytest.fixture
def clock() -> Clock:
    """Noon of a day in 2026."""
    return Clock(1_772_366_400.0)


@pytest.fixture
def store(url: str, clock: Clock) -> Store:
    """A store on each database."""
    return Store(url, clock=clock, durable=False)


async def read(store: Store) -> dict[tuple[str, ...], Any]:
    """The values by name and label."""
    samples = list(await SOURCE.read(store, AnswerCache()))
    assert {sample.metric for sample in samples} <= set(METRICS)
    return {
        (sample.metric.name.removeprefix("tabellion_review_"), *sample.labels.values()): sample.value
        for sample in samples
    }


@asynchronous
async def test_what_waits_and_whether_it_is_in_time(store: Store, clock: Clock) -> None:
    """Open, overdue and soon due items; the week; nothing at all in a database without review."""
    await store.open()
    assert await read(store) == {}
    await tables.SCHEMA.prepare(store)
    empty = await read(store)
    assert ("next_due_seconds",) not in empty
    assert ("sla_ratio",) not in empty
    now = clock.at
    await put(store, "late", now - 1, "in_review")
    await put(store, "soon", now + 600)
    await put(store, "later", now + 86_400)
    await put(store, "kept", now, "approved", now - 100)
    await put(store, "missed", now - 200, "rejected", now - 100)
    assert await read(store) == {
        ("open_items", "pending"): 2, ("open_items", "in_review"): 1, ("overdue_items",): 1, ("due_soon_items",): 1,
        ("week_items", "kept"): 1, ("week_items", "missed"): 1, ("next_due_seconds",): 600,
        ("sla_ratio",): pytest.approx(1 / 3),
    }  # fmt: skip
