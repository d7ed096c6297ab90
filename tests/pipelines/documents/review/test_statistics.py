"""Review statistics: what was finished, how long it took, what was corrected."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents.review import claims, editing, finishing
from tabellion.pipelines.documents.review import statistics as numbers
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.people import Person
from tests.pipelines.documents.review.items import ANNA, BEN, CLEO, VALUES, put, types
from tests.workers import ask

EVIL = Person("=cmd|'/c calc'", 2)


def collected(url: str, *, per: str = "") -> Any:
    """The statistics of a small day: Anna approves two and corrects one, someone rejects one and is late."""

    async def go(store: Store) -> Any:
        for place, changes in enumerate(({}, {}, {"total": Change("correct", "120,01"), "date": Change("absent")})):
            item = await put(store)
            await claims.claim(store, item, ANNA)
            version = await editing.edit(store, types, item, ANNA, 1, changes) if changes else 1
            effort = {"seconds": 10 * (place + 1), **({"keystrokes": 5} if place else {})}
            await finishing.approve(store, types, item, ANNA, version, effort=effort)
        item = await put(store)
        await claims.claim(store, item, EVIL)
        await store.database.fetch("UPDATE tabellion_review_items SET due_at = created_at WHERE id = $1", item)
        await finishing.reject(store, item, EVIL, "duplicate", effort={"seconds": 100})
        await put(store)
        now = await store.now()
        assert (await numbers.numbers(store, now + 10, now + 20))["totals"]["documents"] == 0
        return await numbers.numbers(store, now - 60, now + 60)

    return ask(url, go)


def test_statistics_of_a_day(url: str) -> None:
    """Per person, per field and in total."""
    statistics = collected(url)
    evil, anna = statistics["people"]
    assert (anna["name"], anna["documents"], anna["approved"], anna["corrected"], anna["rejected"]) == (
        "anna", 3, 2, 1, 0,
    )  # fmt: skip
    assert anna["seconds"] == {"mean": 20, "median": 20, "sum": 60}
    assert anna["keystrokes"] == {"mean": 5, "median": 5, "sum": 10}
    seen = 3 * len(VALUES)
    assert (anna["fields"], anna["corrections"]) == (seen, {"date": 1, "total": 1})
    assert anna["agreement"] == pytest.approx((seen - 2) / seen, abs=0.0001)
    assert (anna["in_time"], evil["in_time"]) == (1.0, 0.0)
    assert (evil["rejected"], evil["agreement"], evil["keystrokes"]["mean"]) == (1, None, None)
    assert (statistics["totals"]["documents"], statistics["totals"]["in_time"]) == (4, 0.75)
    assert statistics["fields"][0] == {
        "name": "date",
        "seen": 3,
        "corrected": 1,
        "share": pytest.approx(1 / 3, abs=0.0001),
    }
    assert statistics["fields"][1]["name"] == "total"


def test_statistics_as_csv(sqlite_url: str) -> None:
    """A row per person and one in total; a row per field; no cell is a formula."""
    statistics = collected(sqlite_url)
    rows = list(csv.DictReader(io.StringIO(numbers.per_person(statistics))))
    assert tuple(rows[0]) == numbers.PERSON_COLUMNS
    assert [row["person"] for row in rows] == ["'=cmd|'/c calc'", "anna", numbers.EVERYBODY]
    assert (rows[1]["seconds_mean"], rows[1]["corrections"], rows[0]["keystrokes_mean"]) == ("20.0", "2", "")
    fields = list(csv.DictReader(io.StringIO(numbers.per_field(statistics))))
    assert (fields[0]["field"], fields[0]["seen"], fields[0]["corrected"]) == ("date", "3", "1")


def test_corrections_and_time_count_for_the_person_who_spent_them(url: str) -> None:
    """A correction counts even if its author releases the item; after a reopening only the new time counts."""

    async def go(store: Store) -> Any:
        item = await put(store)
        await claims.claim(store, item, ANNA)
        changes = {"vendor": Change("correct", "B"), "date": Change("absent")}
        version = await editing.edit(store, types, item, ANNA, 1, changes)
        await claims.release(store, item, ANNA)
        await claims.claim(store, item, BEN)
        await finishing.approve(store, types, item, BEN, version, effort={"seconds": 30, "keystrokes": 3})
        await finishing.reopen(store, item, CLEO, "look again")
        await claims.claim(store, item, CLEO)
        await finishing.approve(store, types, item, CLEO, version + 2, effort={"seconds": 10})
        now = await store.now()
        return await numbers.numbers(store, now - 60, now + 60)

    statistics = ask(url, go)
    anna, ben, cleo = statistics["people"]
    assert (anna["name"], anna["documents"], anna["corrections"]) == ("anna", 0, {"date": 1, "vendor": 1})
    assert (anna["fields"], anna["agreement"], anna["in_time"]) == (2, 0.0, None)
    assert (ben["documents"], ben["seconds"]["sum"], ben["keystrokes"]["sum"]) == (0, 30, 3)
    assert (cleo["documents"], cleo["seconds"]["sum"], cleo["keystrokes"]["sum"]) == (1, 10, None)
    assert (cleo["fields"], cleo["corrections"], cleo["agreement"]) == (len(VALUES) - 2, {}, 1.0)
    totals = statistics["totals"]
    assert (totals["documents"], totals["fields"], totals["seconds"]["mean"]) == (1, len(VALUES), 40)
    assert totals["corrections"] == {"date": 1, "vendor": 1}


def test_open_overdue_items_count_as_late(url: str) -> None:
    """They count for their holder, else for their assignee."""

    async def go(store: Store) -> Any:
        done, held, given, _ = [await put(store) for _ in range(4)]
        await claims.claim(store, done, ANNA)
        await finishing.approve(store, types, done, ANNA, 1)
        await claims.claim(store, held, ANNA)
        await store.database.fetch(
            "UPDATE tabellion_review_items SET assigned_to = 'ben' WHERE id IN ($1, $2)", held, given
        )
        await store.database.fetch(
            "UPDATE tabellion_review_items SET due_at = created_at WHERE status IN ('pending', 'in_review')"
        )
        now = await store.now()
        later = await put(store)
        assert later
        return await numbers.numbers(store, now - 60, now + 7200), await numbers.numbers(store, now - 90, now - 60)

    statistics, before = ask(url, go)
    anna, ben = statistics["people"]
    assert (anna["name"], anna["documents"], anna["overdue"], anna["in_time"]) == ("anna", 1, 1, 0.5)
    assert (ben["name"], ben["documents"], ben["overdue"], ben["in_time"]) == ("ben", 0, 1, 0.0)
    assert (statistics["totals"]["overdue"], statistics["totals"]["in_time"]) == (3, 0.25)
    assert (before["people"], before["totals"]["overdue"], before["totals"]["in_time"]) == ([], 0, None)
