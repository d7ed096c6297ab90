"""Lists of items: in claim order, filtered, paged, with counts and positions."""

from __future__ import annotations

import asyncio
from typing import Any

from tabellion import Store
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import claims, finishing, items, priority
from tabellion.pipelines.documents.review.items import Filters
from tabellion.testing import Clock
from tests.pipelines.documents.review.items import ANNA, BEN, CLEO, put, types


def timed(url: str, story: Any) -> None:
    """Run a story with a clock that only it moves."""

    async def go() -> None:
        clock = Clock()
        store = Store(url, clock=clock, durable=False)
        try:
            await tables.SCHEMA.prepare(store)
            await story(store, clock)
        finally:
            await store.close()

    asyncio.run(go())


def test_the_list_is_in_claim_order(url: str) -> None:
    """The first in the list is claimed first; a position says how many come before."""

    async def story(store: Store, clock: Clock) -> None:
        added = [await put(store, confidence=number / 10) for number in range(5)]
        await priority.refresh(store, at_once=True)
        seen: list[str] = []
        cursor: str | None = None
        while not seen or cursor is not None:
            rows, cursor = await items.list_items(store, cursor=cursor, limit=2)
            seen += [row["id"] for row in rows]
        assert seen == added
        places = [await items.position(store, await items.row(store, item)) for item in added]
        assert places == [{"place": number, "of": 5} for number in range(1, 6)]
        assert [await claims.claim_next(store, ANNA) for _ in range(5)] == added

    timed(url, story)


def test_finished_items_are_listed_latest_first(url: str) -> None:
    """Paged, apart from open ones; they have no position in line."""

    async def story(store: Store, clock: Clock) -> None:
        added = [await put(store) for _ in range(3)]
        for item in added:
            await claims.claim(store, item, ANNA)
            clock.advance(10)
            await finishing.approve(store, types, item, ANNA, 1)
        rows, cursor = await items.list_items(store, Filters("approved"), limit=2)
        rest, end = await items.list_items(store, Filters("approved"), cursor, 2)
        assert [row["id"] for row in (*rows, *rest)] == added[::-1]
        assert end is None
        assert (await items.list_items(store))[0] == []
        assert await items.position(store, rows[0]) == {"place": None, "of": 0}
        counts = await items.counts(store, ANNA)
        assert (counts["done_today"], counts["pending"]) == (3, 0)
        assert (await items.count_finished_today(store, ANNA), await items.count_finished_today(store, BEN)) == (3, 0)
        clock.advance(86_400)
        assert (await items.counts(store, ANNA))["done_today"] == 0

    timed(url, story)


def test_counts_and_filters_agree(url: str) -> None:
    """Mine, overdue, escalated: the same in the counts and in the lists."""

    async def story(store: Store, clock: Clock) -> None:
        late, mine, up, held = [await put(store, assigned_to="anna" if n == 1 else None) for n in range(4)]
        await claims.escalate(store, up, CLEO, "odd")
        await claims.claim(store, held, BEN)
        await store.database.fetch("UPDATE tabellion_review_items SET due_at = created_at WHERE id = $1", late)
        clock.advance(1)
        counts = await items.counts(store, ANNA)
        assert {name: counts[name] for name in ("pending", "in_review", "mine", "overdue", "escalated")} == {
            "pending": 3, "in_review": 1, "mine": 1, "overdue": 1, "escalated": 1,
        }  # fmt: skip
        assert (await items.counts(store, BEN))["mine"] == 1
        for filters, expected in (
            (Filters(overdue=True), {late}), (Filters(escalated=True), {up}), (Filters(assigned="anna"), {mine}),
            (Filters(assigned=""), {late, up, held}), (Filters(assigned="ben"), {held}),
            (Filters("in_review"), {held}), (Filters(name="BILL"), {late, mine, up, held}), (Filters(name="b%"), set()),
        ):  # fmt: skip
            rows, _ = await items.list_items(store, filters)
            assert {row["id"] for row in rows} == expected, filters

    timed(url, story)
