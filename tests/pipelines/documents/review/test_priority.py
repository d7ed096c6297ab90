"""Priority: four parts that are kept, of which one moves with time."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import item_view, items, priority
from tabellion.reading.field import Field
from tabellion.reading.issue import Issue
from tabellion.reading.page import Page
from tabellion.reading.reader import Reading
from tabellion.reading.types.doctype import DocumentType
from tabellion.testing import Clock
from tests.models.bills import SMALL
from tests.pipelines.documents.review.items import put

PAGE = Page(1, 1, 1, "text")


def story(url: str, told: Any) -> None:
    """Tells a story by a clock that only it moves."""

    async def go() -> None:
        clock = Clock()
        store = Store(url, clock=clock, durable=False)
        try:
            await tables.SCHEMA.prepare(store)
            await told(store, clock)
        finally:
            await store.close()

    asyncio.run(go())


def test_the_nearness_of_the_deadline_moves(url: str) -> None:
    """From the upload to the deadline from 0 to 1, and no further; the parts add up to the priority."""

    async def told(store: Store, clock: Clock) -> None:
        item = await put(store, confidence=0.25, complexity=0.5, value=0.75)
        for seconds, near in ((0, 0.0), (900, 0.25), (1800, 0.75), (3600, 1.0)):
            clock.advance(seconds)
            await priority.refresh(store, at_once=True)
            row = await items.row(store, item)
            assert float(row["proximity"]) == pytest.approx(near)
            assert float(row["priority"]) == pytest.approx(0.4 * 0.75 + 0.3 * near + 0.2 * 0.5 + 0.1 * 0.75)
            parts: Any = priority.parts(row)
            assert sum(one["points"] for one in parts.values()) == pytest.approx(float(row["priority"]), abs=0.0005)
        assert item_view.serialize_item(row)["sla_left"] == pytest.approx(-2700)

    story(url, told)


def test_a_look_writes_only_what_has_moved(url: str) -> None:
    """Half a percent is a step; finished items stay as they were."""

    async def told(store: Store, clock: Clock) -> None:
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

    story(url, told)


def measured(reading: Reading, doctype: DocumentType) -> priority.Measures:
    """The measures of a reading that was just uploaded."""
    return priority.measure(reading, doctype, 0.0)


@pytest.mark.parametrize(
    ("parts", "near", "expected"),
    [((1, 0, 0), 0, 0.0), ((0, 0, 0), 0, 0.4), ((1, 0, 0), 1, 0.3), ((1, 1, 0), 0, 0.2), ((1, 0, 1), 0, 0.1),
     ((0, 1, 1), 1, 1.0), ((0.5, 0.5, 0.5), 0.5, 0.5)],
)  # fmt: skip
def test_the_weights_are_the_seed_s(parts: tuple[float, float, float], near: float, expected: float) -> None:
    """40 % doubt, 30 % nearness of the deadline, 20 % complexity, 10 % value; in SQL and in the explanation."""
    confidence, complexity, value = parts
    measures: priority.Measures = {
        "confidence": confidence, "proximity": near, "complexity": complexity, "value": value
    }  # fmt: skip
    text = priority.formula({name: str(float(one)) for name, one in measures.items()})  # type: ignore[arg-type]
    [[calculated]] = sqlite3.connect(":memory:").execute(f"SELECT {text}")
    assert calculated == pytest.approx(expected)
    points: Any = priority.parts(measures)
    assert sum(one["points"] for one in points.values()) == pytest.approx(expected)


def test_the_proximity_is_never_outside_0_to_1() -> None:
    """Overdue or uploaded in the future."""
    assert [priority.measure(Reading("x"), SMALL, near)["proximity"] for near in (99, 0.5, -5)] == [1, 0.5, 0]


def test_confidence_is_the_mean_of_what_was_found_and_what_should_have_been() -> None:
    """A required field that is missing counts as nothing; one that may be missing does not count."""
    both = Reading("x", pages=(PAGE,), fields={"vendor": Field("A", 0.8), "total": Field("1", 0.6)})
    assert measured(both, SMALL)["confidence"] == pytest.approx(0.7)
    assert measured(replace(both, fields={"vendor": Field("A", 0.8)}), SMALL)["confidence"] == pytest.approx(0.4)
    assert measured(Reading("x"), SMALL)["confidence"] == 0


def test_complexity_grows_with_pages_rows_and_issues_up_to_one() -> None:
    """A page with nothing wrong is not complex."""
    plain = Reading("x", pages=(PAGE,), fields={"vendor": Field("A", 1.0)})
    assert measured(plain, SMALL)["complexity"] == 0
    longer = replace(plain, pages=(PAGE,) * 11)
    assert measured(longer, SMALL)["complexity"] == pytest.approx(0.5 / 3, abs=1e-6)
    rows = replace(plain, fields={"line_items": Field([{}] * 25, 1.0)})
    assert measured(rows, SMALL)["complexity"] == pytest.approx(0.5 / 3, abs=1e-6)
    worst = replace(rows, pages=(PAGE,) * 99, issues=(Issue("rule", "error", "x"),) * 9)
    assert measured(worst, SMALL)["complexity"] < 1
    assert measured(replace(worst, fields={"line_items": Field([{}] * 99, 1.0)}), SMALL)["complexity"] == 1


def test_value_is_the_total_by_its_digits() -> None:
    """Nothing is 0, a million and more is 1; a total that is no amount counts as nothing."""

    def value(**fields: str) -> float:
        return measured(Reading("x", fields={name: Field(one, 1.0) for name, one in fields.items()}), SMALL)["value"]

    assert value() == 0
    assert value(total="999.00") == pytest.approx(0.5, abs=1e-3)
    assert value(total="-999.00") == value(total="999.00")
    assert value(total="1000000.00") == value(total="5000000000.00") == 1
    assert value(total="much") == 0
    assert value(tax="999.00") == value(total="999.00")
    assert value(tax="1.00", total="999.00", subtotal="5000.00") == value(total="999.00")
